"""What the README shows works with what its install line brings."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import widemargin

ROOT = Path(__file__).parents[1]

PREPARED = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
from sklearn.datasets import make_classification
X, y = make_classification(200, random_state=0)
names = {{"X": X, "y": y, "X_test": X, "y_test": y, "batches": [(X[:100], y[:100]), (X[100:], y[100:])]}}
for block in {blocks!r}:
    exec(block, {{**names, "__name__": "__main__"}})
"""


def name_of(requirement):
    return re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")


def brought_by(requirements):
    """Distributions that an install of the requirements brings, by name; ``extra`` parts are not followed."""
    found, left = set(), [name_of(requirement) for requirement in requirements]
    while left:
        name = left.pop()
        if name not in found:
            try:
                needed = distribution(name).requires or ()
            except PackageNotFoundError:  # another system's
                continue
            found.add(name)
            left += [name_of(r) for r in needed if "extra ==" not in r]
    return found


def installed_by_the_readme():
    """Distributions of the extra that the README's install line names."""
    (extra,) = re.findall(r"pip install '\.\[(\w+)\]'", (ROOT / "README.md").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    parts = [part for r in extras[extra] for part in re.search(r"\[(.*)\]", r)[1].split(",")]
    return brought_by(project["dependencies"] + [r for part in parts for r in extras[part]])


def test_each_example_runs_after_the_install_line_alone():
    """In one process, for it imports the same; names of one are not those of the next."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    there = installed_by_the_readme()
    absent = {
        module
        for module, owners in packages_distributions().items()
        if module != "widemargin" and not {owner.lower().replace("_", "-") for owner in owners} & there
    }
    assert "pytest" in absent
    assert blocks
    script = PREPARED.format(absent=absent, blocks=blocks)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, env=os.environ)
    assert done.returncode == 0, done.stderr


def measured(kind, name):
    """Milliseconds of (this library, scikit-learn, the rival's own) in docs/measurements/peers.md."""
    linear, kernel = (ROOT / "docs/measurements/peers.md").read_text(encoding="utf-8").split("\n## Kernel machines\n")
    section = re.search(rf"### {name}: .*?\n\n(.*?)\n\n", linear if kind == "linear" else kernel, re.DOTALL)[1]
    contenders, column = (
        (("widemargin LinearSVC, tol", "scikit-learn LinearSVC, tol", "liblinear-official, tol"), 2)
        if kind == "linear"
        else (("widemargin SVC, tol", "scikit-learn SVC, tol", "libsvm-official, tol"), 1)
    )
    cells = {row.split("|")[1].strip(): row.split("|")[column + 1] for row in section.splitlines()}
    return [float(re.search(r"[\d.]+", cells[each].replace(",", ""))[0]) for each in contenders]


def test_ratios_are_those_that_were_measured():
    found = re.findall(
        r"^\| (linear|kernel), (\w+) \| (\S+) ms \| (\S+) × \| (\S+) × \|$",
        (ROOT / "README.md").read_text(),
        re.MULTILINE,
    )
    assert len(found) == 9
    for kind, name, *numbers in found:
        ours, *rivals = measured(kind, name)
        assert [float(number) for number in numbers] == [ours, *(round(rival / ours, 1) for rival in rivals)]


def test_the_version_is_the_same_everywhere():
    assert f"\nversion: {widemargin.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    first = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert first == "Unreleased" or first.startswith(f"{widemargin.__version__} (")

"""The tests on each Python and with the oldest and newest dependencies, one environment each: ``make test-versions``.

One more run has everyday Numba only (``WIDEMARGIN_PLAIN=1``), as with a Numba of the future whose inside has changed.

``python tests/versions.py`` makes them in .venvs and prints a line for each, ``python tests/versions.py oldest 3.13``
those named. Pythons are looked for on the path, among pyenv's and among uv's; those that are not there are named
as skipped. The oldest dependencies are the lower bounds of pyproject.toml, each in its last patch.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
VENVS = ROOT / ".venvs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
#: What versions of dependencies are likely to change, in minutes: reading, writing, compiling, conventions.
SUBSET = (
    "tests/test_imports.py",
    "tests/core/intrinsics",
    "tests/core/test_borrowing.py",
    "tests/test_files.py",
    "tests/test_models.py",
    "tests/test_plots.py",
    "tests/test_api.py",
    "tests/data",
    "tests/formats",
    "tests/cli/test_commands.py",
    "tests/estimators/fit/test_expected.py",
    "tests/estimators/fit/test_notebooks.py",
    "tests/dask/test_actors.py",
)
SHOWN = ("numpy", "scipy", "numba", "scikit-learn", "pandas", "pyarrow", "dask")


class Environment(NamedTuple):
    """A Python and what is installed there."""

    name: str
    python: str
    oldest: bool = False
    plain: bool = False


ENVIRONMENTS = [
    Environment("oldest", PYTHONS[0], oldest=True), *(Environment(python, python) for python in PYTHONS),
    Environment("plain", PYTHONS[0], plain=True),
]  # fmt: skip
#: What everyday Numba is asked with; that loops are slower so is warned of in each process.
PLAIN = {"WIDEMARGIN_PLAIN": "1", "PYTHONWARNINGS": "ignore:widemargin does not know:RuntimeWarning"}


def python_of(version):
    """An interpreter of this version that starts, or None."""
    found = [shutil.which(f"python{version}")]
    found += sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"), reverse=True)
    found += sorted(Path.home().glob(f".local/share/uv/python/cpython-{version}.*/bin/python{version}"), reverse=True)
    for python in filter(None, found):
        asked = [python, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip() == version:
            return str(python)
    return None


def lower_bounds():
    """Constraints that hold every dependency, those of extras too, to its lower bound."""
    named = [*PROJECT["dependencies"], *(r for extra in PROJECT["optional-dependencies"].values() for r in extra)]
    found = [re.match(r"([\w.-]+)(?:\[.*?\])?>=([\d.]+)", requirement) for requirement in named]
    return sorted({f"{match[1]}=={match[2]}.*" for match in found if match})


def made(folder, python, requirements, constraints=()):
    """The interpreter of a new environment with these requirements."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--upgrade", "pip"], check=True)
    held = folder / "constraints.txt"
    held.write_text("\n".join(constraints), encoding="utf-8")
    subprocess.run([*pip, "--prefer-binary", "--constraint", held, *requirements], check=True)
    return folder / "bin" / "python"


def versions_in(python):
    """ "numpy 2.4.6, …" as installed."""
    listed = subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "list", "--format", "json"],
        capture_output=True, check=True,
    )  # fmt: skip
    found = {each["name"].lower(): each["version"] for each in json.loads(listed.stdout)}
    return ", ".join(f"{name} {found[name]}" for name in SHOWN if name in found)


def tried(environment, selection):
    """(whether all went well, a line that says how it went) of one environment."""
    python = python_of(environment.python)
    if python is None:
        return True, f"skipped: there is no Python {environment.python} here"
    since, folder = time.perf_counter(), VENVS / environment.name
    try:
        # what only the code for GPUs, the site and the comparisons use is not installed
        python = made(folder, python, ["-e", f"{ROOT}[test]"], lower_bounds() if environment.oldest else ())
    except subprocess.CalledProcessError:
        return False, "its dependencies cannot be installed"
    installed = time.perf_counter() - since
    said = subprocess.run(
        [python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", *selection],
        cwd=ROOT, text=True, stdout=subprocess.PIPE,
        env={**os.environ, **(PLAIN if environment.plain else {}), "NUMBA_CACHE_DIR": str(folder / "machine_code")},
    )  # fmt: skip
    (folder / "tests.log").write_text(said.stdout, encoding="utf-8")
    lines = [line for line in said.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    minutes = (time.perf_counter() - since) / 60
    end = (said.stdout.splitlines() or ["nothing was printed"])[-1]
    line = f"{end}; installed in {installed / 60:.1f} min, {minutes:.1f} in all; {versions_in(python)}"
    return said.returncode == 0, "\n  ".join([line, *lines])


def main(names):
    known = [environment.name for environment in ENVIRONMENTS]
    if set(names) - set(known):
        sys.exit(f"there is no {' '.join(sorted(set(names) - set(known)))}: known are {' '.join(known)}")
    selection = os.environ.get("TESTS", "").split() or SUBSET
    fine = True
    for environment in ENVIRONMENTS:
        if not names or environment.name in names:
            well, line = tried(environment, selection)
            fine = fine and well
            title = f"Python {environment.python}, {'oldest' if environment.oldest else 'newest'} dependencies"
            title += ", everyday Numba only" if environment.plain else ""
            print(f"{title}: {line}", flush=True)
    sys.exit(not fine)


if __name__ == "__main__":
    main(sys.argv[1:])

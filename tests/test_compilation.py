"""Machine code: shared by arrays that differ in nothing a loop sees, kept where it can be, and its making announced."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numba.core.dispatcher import Dispatcher

import widemargin
from widemargin import SVC, SVR, BudgetedSVC, BudgetedSVR, IncrementalSVC, LinearSVC, LinearSVR

# ---------------------------------------------------------------- one code for all arrays of a kind


def signatures():
    """How many signatures each loop of the package has been compiled or loaded for."""
    ours = [module for name, module in sys.modules.items() if name.startswith("widemargin.") and module is not None]
    loops = {id(value): value for module in ours for value in vars(module).values() if isinstance(value, Dispatcher)}
    return {f"{loop.__module__}.{loop.__name__}": len(loop.signatures) for loop in loops.values()}


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def wide_and_read_only(X):
    """The same CSR matrix with 64-bit indices, all of it read-only."""
    X = X.copy()
    X.data, X.indices, X.indptr = (
        read_only(a) for a in (X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64))
    )
    return X


MODELS = {
    "LinearSVC": lambda: LinearSVC(tol=0, max_iter=2, random_state=0),
    "LinearSVR": lambda: LinearSVR(tol=0, max_iter=2, random_state=0),
    "SVC": lambda: SVC(random_state=0),
    "SVR": lambda: SVR(random_state=0),
    "BudgetedSVC": lambda: BudgetedSVC(10, random_state=0),
    "BudgetedSVR": lambda: BudgetedSVR(10, random_state=0),
    "IncrementalSVC": lambda: IncrementalSVC(random_state=0),
}


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("name", MODELS)
def test_read_only_arrays_and_64_bit_indices_compile_nothing(name, layout, rng):
    X = rng.normal(size=(60, 4))
    X[rng.random(X.shape) < 0.5] = 0.0
    y, weights = (X[:, 0] > 0).astype(int), rng.uniform(0.5, 1.5, 60)
    y[:2] = 0, 1
    X = X if layout == "dense" else sp.csr_matrix(X)
    other = read_only(X) if layout == "dense" else wide_and_read_only(X)

    def work(X, y, weights):
        model = MODELS[name]().fit(X, y, sample_weight=weights)
        scores = [model.predict(X)]
        if hasattr(model, "partial_fit"):
            scores.append(model.partial_fit(X, y, sample_weight=weights).predict(X))
        return np.array(scores)

    expected, before = work(X, y, weights), signatures()
    found = work(other, read_only(y), read_only(weights))
    assert signatures() == before
    np.testing.assert_array_equal(found, expected)


# ---------------------------------------------------------------- where it is kept, and what is said


def python(script, **environment):
    """(standard output, standard error) of a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.strip()


ONE_LOOP = """
import numpy as np
from widemargin.core import dispatch
from widemargin.core.rows import as_rows, row_norms2
dispatch.SILENCE = {silence}
out = np.empty(2)
row_norms2(as_rows(np.ones((2, 3))), out)
assert out.tolist() == [3.0, 3.0]
print(sum(row_norms2.stats.cache_hits.values()), row_norms2.stats.cache_path)
"""


def test_a_long_compilation_is_announced_in_one_line_and_a_warm_start_is_silent(tmp_path):
    script = ONE_LOOP.format(silence=0.0)
    hits, said = python(script, NUMBA_CACHE_DIR=str(tmp_path))
    assert hits.startswith("0 ")
    (line,) = said.splitlines()
    assert "compiling widemargin.core.rows.row_norms2" in line
    assert f"kept in {tmp_path}" in line
    hits, said = python(script, NUMBA_CACHE_DIR=str(tmp_path))
    assert (hits[:2], said) == ("1 ", "")


def test_a_short_compilation_is_not_announced(tmp_path):
    assert python(ONE_LOOP.format(silence=1e9), NUMBA_CACHE_DIR=str(tmp_path))[1] == ""


def test_a_logger_that_is_told_to_be_silent_is(tmp_path):
    quiet = "import logging; logging.getLogger('widemargin').setLevel(logging.ERROR)\n"
    assert python(quiet + ONE_LOOP.format(silence=0.0), NUMBA_CACHE_DIR=str(tmp_path))[1] == ""


@pytest.fixture
def nowhere(tmp_path):
    """An environment with a copy of the package whose folders cannot be written to, nor can the user's home.

    A file stands where each folder would be made, which stops even those who may write everywhere.
    """
    package = tmp_path / "site" / "widemargin"
    shutil.copytree(Path(widemargin.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
        (folder / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    (tmp_path / "temporary").mkdir()
    home = str(tmp_path / "home" / "user")
    return {
        "PYTHONPATH": str(tmp_path / "site"), "HOME": home, "XDG_CACHE_HOME": home, "LOCALAPPDATA": home,
        "NUMBA_CACHE_DIR": "", "TMPDIR": str(tmp_path / "temporary"),
    }  # fmt: skip


def test_machine_code_goes_to_a_folder_of_the_users_own_where_no_other_can_be_written(nowhere):
    script = "from widemargin import SVC, BudgetedSVC, LinearSVC\n" + ONE_LOOP.format(silence=1e9)
    for hits in (0, 1):
        said, warned = python(script, **nowhere)
        count, _, folder = said.partition(" ")
        assert int(count) == hits
        assert folder.startswith(nowhere["TMPDIR"])
        assert warned == ""
    (made,) = Path(nowhere["TMPDIR"]).iterdir()
    assert made.stat().st_uid == os.getuid()
    assert made.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("spoil", ["others may write", "link", "file"])
def test_a_folder_that_others_could_have_filled_is_not_trusted(nowhere, spoil, tmp_path):
    """Code found there would be run. Then nothing is kept, which is said once."""
    script = ONE_LOOP.format(silence=1e9)
    python("import widemargin.core.dispatch as d; d._temporary_folder()", **nowhere)
    (made,) = Path(nowhere["TMPDIR"]).iterdir()
    if spoil == "others may write":
        made.chmod(0o777)
    else:
        made.rmdir()
        made.symlink_to(tmp_path) if spoil == "link" else made.write_text("")
    said, warned = python(script, **nowhere)
    assert said == "0 None"
    assert warned.count("RuntimeWarning: widemargin finds no folder to keep machine code in") == 1
    assert "set NUMBA_CACHE_DIR" in warned


STRANGER = """
from typing import NamedTuple
import numpy as np
from widemargin.core.expansion import Expansion, smallest
{own}
norm2, age = np.array([2.0, 1.0]), np.array([1, 2])
print(smallest({value}, 2))
"""


def test_machine_code_for_a_class_that_cannot_be_imported_is_no_hindrance(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from typing import NamedTuple\nimport numpy as np\n"
        "class Mine(NamedTuple):\n    norm2: np.ndarray\n    age: np.ndarray\n"
    )
    folder, known = str(tmp_path / "code"), f"import sys; sys.path.append({str(tmp_path)!r}); from mine import Mine"
    for own, value in ((known, "Mine(norm2, age)"), ("", "Expansion(None, None, norm2, age)")):
        assert python(STRANGER.format(own=own, value=value), NUMBA_CACHE_DIR=folder)[0] == "1"

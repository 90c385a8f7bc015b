"""Machine code: shared by arrays that differ in nothing a loop sees, kept where it can be, and its making announced."""

import importlib
import os
import shutil
import sys
import time
from pathlib import Path

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from numba import config
from numba.core.dispatcher import Dispatcher

import fresh
import widemargin
from widemargin import SVC, SVR, BudgetedSVC, BudgetedSVR, IncrementalSVC, LinearSVC, LinearSVR
from widemargin.core.borrowing import KNOWN
from widemargin.core.compiling import machine_code
from widemargin.core.compiling.dispatch import _refused
from widemargin.solvers.smo import rounds

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
def test_read_only_arrays_and_64_bit_indices_and_models_on_memory_maps_compile_nothing(name, layout, rng, tmp_path):
    X = rng.normal(size=(60, 4))
    X[rng.random(X.shape) < 0.5] = 0.0
    y, weights = (X[:, 0] > 0).astype(int), rng.uniform(0.5, 1.5, 60)
    y[:2] = 0, 1
    X = X if layout == "dense" else sp.csr_matrix(X)
    other = read_only(X) if layout == "dense" else wide_and_read_only(X)

    def work(X, y, weights, mode=None):
        joblib.dump(MODELS[name]().fit(X, y, sample_weight=weights), tmp_path / "model")
        model = joblib.load(tmp_path / "model", mmap_mode=mode)
        scores = [model.predict(X)]
        if hasattr(model, "partial_fit"):
            scores.append(model.partial_fit(X, y, sample_weight=weights).predict(X))
        return np.array(scores)

    expected, before = work(X, y, weights), signatures()
    found = work(other, read_only(y), read_only(weights), mode="r")
    assert signatures() == before
    np.testing.assert_array_equal(found, expected)


# ---------------------------------------------------------------- where it is kept, and what is said

kept_on_disk = pytest.mark.skipif(not KNOWN, reason="with everyday Numba alone no machine code is kept on disk")


def python(script, **environment):
    """(standard output, standard error) of a process of its own."""
    done = fresh.run(script, PYTHONDONTWRITEBYTECODE="1", **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.strip()


ONE_LOOP = """
import numpy as np
from widemargin.core.compiling import notice
from widemargin.core.rows.rows import as_rows, row_norms2
notice.SILENCE = {silence}
out = np.empty(2)
row_norms2(as_rows(np.ones((2, 3))), out)
assert out.tolist() == [3.0, 3.0]
print(sum(row_norms2.stats.cache_hits.values()), row_norms2.stats.cache_path)
"""


@kept_on_disk
def test_a_long_compilation_is_announced_in_one_line_and_a_warm_start_is_silent(tmp_path):
    script = ONE_LOOP.format(silence=0.0)
    hits, said = python(script, NUMBA_CACHE_DIR=str(tmp_path))
    assert hits.startswith("0 ")
    (line,) = said.splitlines()
    assert line.startswith("Compiling loops of widemargin for this kind of data, once per machine: ")
    assert f"kept in {tmp_path}" in line
    hits, said = python(script, NUMBA_CACHE_DIR=str(tmp_path))
    assert (hits[:2], said) == ("1 ", "")


FIRST_FIT = """
import numpy as np
import scipy.sparse as sp
from widemargin import LinearSVC
from widemargin.core.compiling import notice
notice.SILENCE = 0.0
X = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
LinearSVC().fit(sp.csr_matrix(X), X[:, 0] > 0)
"""


@kept_on_disk
def test_a_first_fit_says_what_is_compiled_for_which_data_and_how_long_that_takes(tmp_path):
    (line,) = python(FIRST_FIT, NUMBA_CACHE_DIR=str(tmp_path))[1].splitlines()
    assert line.startswith("Compiling LinearSVC for sparse float32 data, about 4 s, once per machine: kept in ")


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


@kept_on_disk
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


@kept_on_disk
@pytest.mark.parametrize("spoil", ["others may write", "link", "file"])
def test_a_folder_that_others_could_have_filled_is_not_trusted(nowhere, spoil, tmp_path):
    """Code found there would be run. Then nothing is kept, which is said once."""
    script = ONE_LOOP.format(silence=1e9)
    python("from widemargin.core.compiling import machine_code as m; m.folders('')", **nowhere)
    (made,) = Path(nowhere["TMPDIR"]).iterdir()
    if spoil == "others may write":
        made.chmod(0o777)
    else:
        shutil.rmtree(made)
        made.symlink_to(tmp_path) if spoil == "link" else made.write_text("")
    said, warned = python(script, **nowhere)
    assert said == "0 None"
    assert warned.count("RuntimeWarning: widemargin finds no folder to keep machine code in") == 1
    assert "set NUMBA_CACHE_DIR" in warned


STRANGER = """
from typing import NamedTuple
import numpy as np
from widemargin.core.kernels.expansion import Expansion, smallest
{own}
norm2, age = np.array([2.0, 1.0]), np.array([1, 2])
print(smallest({value}, 2))
"""


@kept_on_disk
def test_machine_code_for_a_class_that_cannot_be_imported_is_no_hindrance(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from typing import NamedTuple\nimport numpy as np\n"
        "class Mine(NamedTuple):\n    norm2: np.ndarray\n    age: np.ndarray\n"
    )
    folder, known = str(tmp_path / "code"), f"import sys; sys.path.append({str(tmp_path)!r}); from mine import Mine"
    for own, value in ((known, "Mine(norm2, age)"), ("", "Expansion(None, None, norm2, age)")):
        assert python(STRANGER.format(own=own, value=value), NUMBA_CACHE_DIR=folder)[0] == "1"


# ---------------------------------------------------------------- what is kept is current, and whole

LOOP = """
from widemargin.core.compiling.dispatch import compiled
from . import parts
from .parts import ADDED, Doubled, changed

@compiled
def loop(thing, number):
    return changed(thing) + ADDED + number

def result(number=0):
    return loop(Doubled(1), number)
"""
PARTS = """
from typing import NamedTuple
from widemargin.core.compiling.dispatch import generic

ADDED = {added}

class Doubled(NamedTuple):
    number: int

@generic
def changed(thing):
    "What a case makes of it."

@changed.case(Doubled)
def _(thing):
    return {factor} * thing.number
"""


class Workshop:
    """A small package, compiled into a folder of its own, as a new process would find both."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.package, self.kept, self._patch = folder / "workshop", folder / "kept", monkeypatch
        self.package.mkdir()
        (self.package / "__init__.py").write_text("")
        (self.package / "loops.py").write_text(LOOP)
        self.write()
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        monkeypatch.setattr(config, "CACHE_DIR", str(self.kept))

    def write(self, added: int = 1, factor: int = 2) -> None:
        (self.package / "parts.py").write_text(PARTS.format(added=added, factor=factor))

    def loops(self):
        """The module of loops in a process that begins now."""
        for name in [name for name in sys.modules if name.split(".")[0] == "workshop"]:
            self._patch.delitem(sys.modules, name)
        importlib.invalidate_caches()
        for remembered in (
            machine_code._files,
            machine_code._content,
            machine_code._remove_unused,
            machine_code._say_that_it_is_lost,
        ):
            remembered.cache_clear()
        self._patch.setattr(machine_code, "_BEGINNING", time.time() + 10)
        return importlib.import_module("workshop.loops")

    def compiled(self, loops) -> int:
        return sum(loops.loop.stats.cache_misses.values())

    def files(self) -> list[Path]:
        return sorted(self.kept.rglob("*.*"))


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    if not KNOWN:
        pytest.skip("with everyday Numba alone no machine code is kept on disk")
    yield Workshop(tmp_path, monkeypatch)
    machine_code.GENERICS[:] = [each for each in machine_code.GENERICS if each.__module__ != "workshop.parts"]


def test_a_second_process_compiles_nothing_until_a_source_of_the_loop_changes(workshop):
    """The loop's own file never does: a constant and a case that it takes from another one do."""
    kept = []
    for change, result in ({}, 3), ({"added": 10}, 12), ({"added": 10, "factor": 5}, 15):
        workshop.write(**change)
        for misses in (1, 0):
            loops = workshop.loops()
            assert loops.result() == result
            assert workshop.compiled(loops) == misses
        (file,) = workshop.files()  # what is out of date is removed
        kept.append(file.name)
    assert len(set(kept)) == len(kept)
    assert loops.result(0.5) == 15.5  # other types have a file of their own
    assert len(workshop.files()) == 2


def test_a_source_that_changed_after_it_was_imported_is_not_taken_for_what_runs(workshop, monkeypatch):
    loops = workshop.loops()
    workshop.write(added=10)
    monkeypatch.setattr(machine_code, "_BEGINNING", time.time() - 10)
    assert loops.result() == 3
    assert workshop.files() == []


@pytest.mark.parametrize("content", [b"", b"not machine code"])
def test_a_file_that_cannot_be_read_is_compiled_anew(workshop, content):
    workshop.loops().result()
    (file,) = workshop.files()
    whole = file.read_bytes()
    file.write_bytes(content or whole[:1000])
    loops = workshop.loops()
    assert loops.result() == 3
    assert workshop.compiled(loops) == 1
    assert workshop.compiled(workshop.loops()) == 0


def test_a_folder_that_can_only_be_read_is_read(workshop, tmp_path, monkeypatch):
    workshop.loops().result()
    elsewhere, can_be_written = tmp_path / "elsewhere", machine_code._can_be_written
    monkeypatch.setattr(
        machine_code, "_can_be_written", lambda f: can_be_written(f) if elsewhere in f.parents else False
    )
    monkeypatch.setattr(machine_code, "_temporary_folder", lambda own: elsewhere / own)
    machine_code.folders.cache_clear()
    loops = workshop.loops()
    loops.result()
    assert workshop.compiled(loops) == 0
    loops.result(0.5)  # what is new goes where there is room
    assert len(workshop.files()) == len(list(elsewhere.rglob("*.nbc"))) == 1
    machine_code.folders.cache_clear()


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), RuntimeError("no compiled object yet")])
def test_what_cannot_be_kept_is_no_hindrance_and_is_told_once(workshop, monkeypatch, caplog, failure):
    def full(*paths):
        raise failure

    loops = workshop.loops()
    monkeypatch.setattr(os, "replace", full)
    assert [loops.result(), loops.result(0.5)] == [3, 3.5]
    assert workshop.files() == []
    (said,) = [record.getMessage() for record in caplog.records if record.name == "widemargin"]
    assert str(failure) in said


def test_what_nobody_asks_for_is_removed_in_the_end(workshop):
    loops, old = workshop.loops(), time.time() - (machine_code.UNUSED + 1) * 86400
    loops.result(0.5)
    loops.result(0)
    for each in workshop.files():
        os.utime(each, (old, old))
    loops = workshop.loops()
    loops.result(0)  # asked for: it stays
    loops.result(1j)  # written: what is old goes
    assert workshop.compiled(loops) == 1
    assert len(workshop.files()) == 2


MINE = """
from typing import NamedTuple
from widemargin.core.losses.losses import value
class Mine(NamedTuple):
    pass
@value.case(Mine)
def mine_value(loss, z, y):
    return {factor} * z * y
"""
OF_MINE = """
import numpy as np
from mine import Mine
from widemargin.core.losses.bias import weighted_losses
from widemargin.core.rows.rows import as_rows, row_norms2
one, out = np.ones(1), np.empty(1)
row_norms2(as_rows(np.ones((1, 3))), out)
print(out[0], weighted_losses(Mine(), one, 1.0, 0.0, one, one), sum(row_norms2.stats.cache_hits.values()))
"""


@kept_on_disk
def test_an_edited_source_of_the_package_and_of_a_users_loss_is_what_runs(tmp_path):
    package, mine = tmp_path / "widemargin", tmp_path / "mine.py"
    shutil.copytree(Path(widemargin.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    mine.write_text(MINE.format(factor=1.0))

    def found():
        return python(OF_MINE, PYTHONPATH=str(tmp_path), NUMBA_CACHE_DIR=str(tmp_path / "kept"))[0]

    assert [found(), found()] == ["3.0 1.0 0", "3.0 1.0 1"]
    mine.write_text(MINE.format(factor=5.0))
    assert found() == "3.0 5.0 1"  # other loops are not compiled again
    rows = package / "core" / "rows" / "rows.py"
    text = rows.read_text()
    rows.write_text(text.replace("out[i] = row_norm2(X, i)", "out[i] = 2 * row_norm2(X, i)"))
    assert text != rows.read_text()
    assert found() == "6.0 5.0 0"


def test_every_case_is_beside_its_generic_function_or_its_class():
    """Else what a loop is made of would depend on which modules a process has imported, and its file does not."""
    for name in widemargin.__all__:
        getattr(widemargin, name)
    for generic in machine_code.GENERICS:
        for cls, case in generic.table.items():
            if case.__module__.startswith("widemargin."):
                assert case.__module__ in (generic.__module__, cls.__module__)


# ---------------------------------------------------------------- many processes

KINDS = """
import sys
import numpy as np
from widemargin.core.rows.rows import as_rows, row_norms2
out = np.empty(2)
row_norms2(as_rows(np.ones((2, 3), dtype=sys.argv[1])), out)
assert out.tolist() == [3.0, 3.0]
print(sum(row_norms2.stats.cache_misses.values()))
"""


@kept_on_disk
def test_processes_that_compile_one_loop_for_several_kinds_at_once_keep_all(tmp_path):
    """Numba's own cache loses some of them, or takes one for another."""
    kinds = ("float32", "float64")
    for misses in ("1", "0"):
        runs = [fresh.Process(KINDS, kind, NUMBA_CACHE_DIR=str(tmp_path)) for kind in kinds]
        assert [run.communicate().stdout.strip() for run in runs] == [misses] * len(kinds)
    assert len(list(tmp_path.rglob("*.nbc"))) == len(list(tmp_path.rglob("*.*"))) == len(kinds)


#: A run of a solver; none of it needs scikit-learn, which takes longest to import.
RUN = """
import numpy as np
from numba.core import event
from widemargin.core.losses import losses
from widemargin.core.rows.rows import as_rows
from widemargin.problems.linear import Problem
from widemargin.running import run
from widemargin.solvers.sdca import SDCA

def compilations(*_):
    X = np.random.default_rng(0).normal(size=(100, 5))
    with event.install_recorder("numba:compile") as found:
        run(SDCA(), Problem(as_rows(X), np.sign(X[:, 0]), losses.Single(losses.Hinge()), 0.02), max_epochs=2)
    return len(found.buffer)
"""
CHILDREN = """
import multiprocessing
import joblib
from children import compilations

compilations()
for way in ("fork", "spawn"):
    if way in multiprocessing.get_all_start_methods():
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(way, pool.map(compilations, [0]))
print("joblib", joblib.Parallel(n_jobs=2)(joblib.delayed(compilations)() for _ in range(2)))
"""


@kept_on_disk
def test_children_by_fork_by_spawn_and_by_joblib_compile_nothing(tmp_path):
    (tmp_path / "children.py").write_text(RUN)
    done = fresh.run(CHILDREN, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert {"spawn [0]", "joblib [0, 0]"} <= set(told) <= {"fork [0]", "spawn [0]", "joblib [0, 0]"}


OF_NUMBA = """
import numba
numba.config.{option} = 1
import numpy as np
from widemargin.core.compiling.dispatch import compiled
from widemargin.core.losses.losses import Hinge, Single

@compiled
def add_one(loss, out):
    out[0] += 1.0

out = np.zeros(1)
add_one(Single(Hinge()), out)
print(out[0])
"""


@pytest.mark.parametrize("option", ["DEBUGINFO_DEFAULT", "BOUNDSCHECK"])
def test_options_of_numba_for_debugging_are_no_hindrance(option, tmp_path):
    assert python(OF_NUMBA.format(option=option), NUMBA_CACHE_DIR=str(tmp_path))[0] == "1.0"


@pytest.mark.parametrize("option", ["OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT"])
def test_machine_code_made_with_other_options_of_numba_is_kept_apart(option, monkeypatch):
    machine = ("a processor",)
    shelf = machine_code.Shelf(rounds.work.py_func)
    names = [shelf._names((), machine)]
    monkeypatch.setattr(config, option, 17)
    names.append(shelf._names((), machine))
    assert names[0][1] != names[1][1]


def test_a_loop_that_is_not_compiled_is_answered_in_a_sentence_however_it_is_called():
    with pytest.raises(RuntimeError, match=r"NUMBA_DISABLE_JIT is set, and .* runs compiled only"):
        _refused(rounds.add_kernel_rows)(1, threads=2)


def test_numba_told_to_compile_nothing_is_answered_in_a_sentence(tmp_path):
    done = fresh.run(OF_NUMBA.format(option="DISABLE_JIT"), NUMBA_CACHE_DIR=str(tmp_path))
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("RuntimeError: NUMBA_DISABLE_JIT is set")]
    assert "__main__.add_one runs compiled only: leave the variable out of the environment" in line

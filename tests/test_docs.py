"""The pages and the tutorials run as they stand, and no link of theirs is dead.

A page of docs/ is a test, found by its file. Its blocks run one after the other in one namespace:

    ```python     runs. A block that begins with ``# name.py`` is a file, which later blocks import.
    ```pycon      a session with ``>>>``: what it shows must come out (``...`` stands for anything).
    ```output     what the python block before it has printed (``...`` stands for anything).
    ```sh         (or bash, or console with ``$ ``) commands. ``widemargin …``, ``python file.py`` and ``python -c`` run
                  in this process; a line with ``|`` or ``<`` is given to bash. Of ``pip install``, ``make`` and
                  ``python -m benchmarks.…`` the parts that are named must exist. ``compare``, ``reproduce``,
                  ``bench`` and ``warmup`` take long: only their options are looked up, as are those of commands
                  in docs/measurements, in pages outside docs/ and within sentences.
    ```text       (or any other language) is not run. A block without a language fails.

What is prepared:

    names         X, y              600 dense rows of 6 features, labels 0 and 1, which a plane separates
                  X_test, y_test    200 more; rows is X_test
                  batches, stream   a list of (X, y), 100 rows each, and an iterator over it
                  Nothing is imported: a page imports what it uses.
    files         train.svm, test.svm, new.svm, huge.svm, train.svm.bz2, train.npz; numbers.svm, with targets for
                  regression; train.csv and train.parquet (columns a to f, and answer: yes or no in .csv, 1 or 0);
                  people.csv (age, town, income: high or low). All else in the folder is what the page writes.
    data sets     a9a and a9a.t are the same 600 and 200 rows, labels −1 and 1
    Client        of distributed, with any address: a cluster in this process
    warmup()      compiles nothing; plt.show() shows nothing

A block that imports torch, dask, onnx, polars … runs where that is installed, and one with "cuda" where there is a
GPU, or by Triton's interpreter in `make test-gpu`; else it is left out, with those that use its names, and the page
counts as skipped after the rest has run. Scripts of examples/tutorials run with nothing prepared, in an empty folder,
some of them with fewer examples (SMALLER).

Pages that do not pass yet are in NOT_YET, tutorials too; whoever mends one takes it out.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import importlib.util
import io
import logging
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
import pytest
import sklearn

from widemargin import backends, cli
from widemargin.data import write_data

ROOT = Path(__file__).parents[1]
DOCS, TUTORIALS = ROOT / "docs", ROOT / "examples" / "tutorials"
#: Pages, by their path in docs, that do not run yet.
NOT_YET: set[str] = set()
#: Pages whose python blocks other files run, in processes of their own.
ELSEWHERE = {"README.md": "test_readme.py", "extend.md": "test_extending.py"}

#: Numbers that tutorials have, and those that they have here; `make docs` runs them as they stand.
SMALLER = {
    "plot_01_text": ("make_texts(8_000,", "make_texts(2_000,"),
    "plot_02_digits": ("budgets = [20, 40, 70, 100, 200, 400]", "budgets = [20, 100]"),
    "plot_03_drifting_stream": ("PARTS, SIZE = 60, 100", "PARTS, SIZE = 20, 100"),
    "plot_04_teacher": ("labels=240,", "labels=80,"),
    "plot_06_ten_million_rows": ("ROWS, PART, FEATURES = 200_000,", "ROWS, PART, FEATURES = 20_000,"),
    "plot_07_grid_search": ("checkerboard(1500,", "checkerboard(300,"),
}

GENERATED = ("_build", "tutorials", "api/generated")
PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if not page.relative_to(DOCS).as_posix().startswith(tuple(f"{folder}/" for folder in GENERATED))
]
OUTSIDE = sorted(ROOT.glob("*.md"))
SHELL = ("sh", "bash", "shell", "console")
LONG = ("compare", "reproduce", "bench", "warmup")


def title(page):
    return page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT).as_posix()


# ---------------------------------------------------------------- what a page holds


class Block(NamedTuple):
    """A block of a page: its language, the line on which it begins, its text."""

    language: str
    line: int
    text: str


def blocks_of(text):
    """The blocks of a page; those within a directive, such as a tab, too."""
    found, directives, code, lines = [], [], None, []
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"( *)(`{3,})\s*(\{[\w-]+\}|[\w-]*)\s*(.*)$", line)
        indent, ticks, language, rest = fence.groups() if fence else ("", "", "", "")
        if code is not None:
            if fence and not language and ticks.startswith(code.ticks):
                found.append(Block(code.language, code.line, "\n".join(lines) + "\n"))
                code = None
            else:
                lines.append(line[code.indent :] if line[: code.indent].isspace() else line)
        elif fence and not language and directives and ticks.startswith(directives[-1]):
            directives.pop()
        elif fence and language.startswith("{") and language not in ("{code-block}", "{code}"):
            directives.append(ticks)
        elif fence:
            code, lines = Fence(len(indent), ticks, rest if language.startswith("{") else language, number + 1), []
    assert code is None, f"the block that begins on line {code.line - 1} does not end"
    return found


class Fence(NamedTuple):
    """The line that begins a block."""

    indent: int
    ticks: str
    language: str
    line: int


def without_blocks(text):
    """The page with its blocks left blank."""
    lines = text.splitlines()
    for block in blocks_of(text):
        for number in range(block.line, block.line + block.text.count("\n")):
            lines[number - 1] = ""
    return "\n".join(lines)


# ---------------------------------------------------------------- what is prepared


@pytest.fixture(scope="module")
def data():
    """(X, y): 800 rows that a plane separates."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 6))
    return X, np.where(X @ rng.normal(size=6) > 0.0, 1, 0)


@pytest.fixture
def folder(data, tmp_path, monkeypatch):
    """An empty folder to work in, with nothing shown on a screen and nothing compiled ahead.

    What a page sets for the whole process is set back.
    """
    logger, configured = logging.getLogger("widemargin"), sklearn.get_config()
    level = logger.level
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*map(os.fspath, sys.path)]))
    before = set(sys.modules)
    if importlib.util.find_spec("matplotlib"):
        importlib.import_module("matplotlib").use("Agg")
    yield tmp_path
    logger.setLevel(level)
    sklearn.set_config(**configured)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    for name in set(sys.modules) - before:  # files of a page are no modules of the next
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture(scope="module")
def files(data, tmp_path_factory):
    """A folder with the files of a page."""
    X, y = data
    files = tmp_path_factory.mktemp("files")
    for name in ("train.svm", "huge.svm", "train.svm.bz2", "train.npz"):
        write_data(files / name, X[:600], y[:600])
    for name in ("test.svm", "new.svm"):
        write_data(files / name, X[600:], y[600:])
    if importlib.util.find_spec("pyarrow"):
        write_data(files / "train.parquet", X[:600], y[:600], names=list("abcdef"), target="answer")
    words = np.where(y[:600] > 0, "yes", "no")
    write_data(files / "train.csv", X[:600], words, names=list("abcdef"), target="answer")
    write_data(files / "numbers.svm", X[:600], X[:600] @ np.arange(6.0))
    people = [f"{30 + i},{('Graz', 'Wels', 'Linz')[i % 3]},{('high', 'low')[i % 2]}" for i in range(40)]
    (files / "people.csv").write_text("\n".join(["age,town,income", *people, ""]))
    (files / "sets").mkdir()
    write_data(files / "sets" / "a9a", X[:600], 2 * y[:600] - 1, format="libsvm")
    write_data(files / "sets" / "a9a.t", X[600:], 2 * y[600:] - 1, format="libsvm")
    return files


@pytest.fixture
def prepared(data, files, folder, monkeypatch):
    """The names of a page, in a folder with its files."""
    X, y = data
    shutil.copytree(files, folder, dirs_exist_ok=True)
    monkeypatch.setenv("WIDEMARGIN_DATA", str(folder / "sets"))
    warming = importlib.import_module("widemargin.warming")
    monkeypatch.setattr(warming, "_run", lambda parts, n: ((part, warming.Warmed(0, 0.0)) for part in parts))
    batches = [(X[i : i + 100], y[i : i + 100]) for i in range(0, 600, 100)]
    names = {"X": X[:600].copy(), "y": y[:600].copy(), "X_test": X[600:].copy(), "y_test": y[600:].copy()}
    return names | {"rows": X[600:], "batches": batches, "stream": iter(batches), "__name__": "__main__"}


@pytest.fixture
def cluster():
    """A cluster in this process, whatever the address. It ends with its page: even idle it takes processor time."""
    distributed = pytest.importorskip("distributed")
    with distributed.Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        yield client


# ---------------------------------------------------------------- what a block needs

OURS = ("widemargin", "numpy", "scipy", "sklearn", "numba")


def needs_of(tree):
    """Packages that a block imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    if any(name.startswith("widemargin.dask") for name in found):
        found |= {"dask", "distributed"}
    return {name.partition(".")[0] for name in found}


def lacking(block, tree):
    """Why a block cannot run here, or ""."""
    for name in sorted(needs_of(tree) - set(OURS)):
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            return f"needs {name}"
    if "cuda" in block.text:
        lacks = backends.lacking()
        if lacks and not (os.environ.get("WIDEMARGIN_INTERPRET") and importlib.util.find_spec("triton")):
            return f"needs {lacks.partition(':')[0]}"
    return ""


def names_in(tree, kind):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, kind)}


# ---------------------------------------------------------------- running


class Run:
    """The blocks of a page, as they run."""

    def __init__(self, page, names, request):
        self.page, self.names, self.request = page, names, request
        self.printed, self.left_out, self.missing = "", [], set()
        self.dry = not page.is_relative_to(DOCS) or title(page).startswith("measurements/")

    def run(self, block):
        where = f"{title(self.page)}, line {block.line}"
        try:
            if block.language in SHELL:
                self.shell(block)
            elif block.language in ("python", "python3", "py"):
                self.python(block)
            elif block.language == "pycon":
                self.session(block)
            elif block.language == "output":
                same = doctest.OutputChecker().check_output(
                    block.text, self.printed, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
                )
                assert same, f"printed was\n{self.printed}"
            else:
                assert block.language, "a block has no language: python, sh, output, or text for what does not run"
        except Exception as bad:
            bad.add_note(where)
            raise

    def python(self, block):
        file = re.match(r"# (\w+\.py)\n", block.text)
        if file:
            Path(file[1]).write_text(block.text, encoding="utf-8")
            importlib.invalidate_caches()
            return
        tree = ast.parse(block.text)
        lacks = lacking(block, tree)
        unknown = names_in(tree, ast.Load) & self.missing - set(self.names)
        if lacks or unknown:
            self.left_out.append(f"line {block.line} {lacks or 'uses ' + ', '.join(sorted(unknown))}")
            self.missing |= names_in(tree, ast.Store) | {
                (alias.asname or alias.name).partition(".")[0]
                for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names
            }  # fmt: skip
            return
        self.stand_ins(block)
        # line numbers of errors are those of the page
        code = compile("\n" * (block.line - 1) + self.on_a_device(block.text), str(self.page), "exec")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, self.names)
        self.printed = out.getvalue()

    def session(self, block):
        test = doctest.DocTestParser().get_doctest(block.text, self.names, title(self.page), None, block.line - 1)
        said = io.StringIO()
        failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.write, clear_globs=False)[0]
        self.names.update(test.globs)
        assert not failed, said.getvalue()

    def stand_ins(self, block):
        """A cluster in this process, and the host's memory in the place of a GPU's."""
        monkeypatch = self.request.getfixturevalue("monkeypatch")
        if "Client" in block.text or "widemargin.dask" in block.text:
            client = self.request.getfixturevalue("cluster")
            own = type("Client", (type(client),), {"__new__": lambda cls, *address, **options: client})
            monkeypatch.setattr("distributed.Client", own)
        if "cuda" in block.text and backends.lacking():
            monkeypatch.setenv("TRITON_INTERPRET", "1")
            monkeypatch.setattr(backends, "GPU", "cpu")
            monkeypatch.setattr(backends, "lacking", lambda: "")

    @staticmethod
    def on_a_device(text):
        if backends.GPU != "cpu":
            return text
        return re.sub(r"(torch\.\w+\(.*device=|\.to\()\"cuda\"", r'\1"cpu"', text)

    def shell(self, block):
        for line in commands_of(block):
            if self.dry:
                check_command(line)
            else:
                self.command(line)

    def command(self, line):
        words = shlex.split(line)
        while re.fullmatch(r"[A-Z_]+=.*", words[0]):
            name, _, value = words.pop(0).partition("=")
            self.request.getfixturevalue("monkeypatch").setenv(name, value)
        if {"|", "<"} & set(words):
            whole = f'widemargin() {{ {shlex.quote(sys.executable)} -m widemargin "$@"; }}; set -o pipefail; {line}'
            done = subprocess.run(["bash", "-c", whole], capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, f"{line}: {done.stderr}"
        elif words[0] == "widemargin" and not {*words[1:2]} & {*LONG}:
            into = words[words.index(">") + 1] if ">" in words else os.devnull
            given = words[1 : words.index(">")] if ">" in words else words[1:]
            with open(into, "w", encoding="utf-8") as out, contextlib.redirect_stdout(out):
                code = cli.main(given)
            assert code == 0, f"{line} ended with {code}"
        elif words[0] in ("python", "python3") and words[1] != "-m":
            if words[1] == "-c":
                exec(words[2], self.names | {"__name__": "__main__"})
            else:
                assert (ROOT / words[1]).is_file() or Path(words[1]).is_file(), f"{words[1]} is no file"
                if Path(words[1]).is_file():
                    runpy.run_path(words[1], run_name="__main__")
        else:
            check_command(line)


def commands_of(block):
    """The commands of a block: of a session those after ``$``, of a script all."""
    text = re.sub(r"\\\n\s*", " ", block.text)
    lines = [line.strip() for line in text.splitlines()]
    if block.language == "console" or any(line.startswith("$ ") for line in lines):
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    found = (" ".join(shlex.split(line, comments=True)) and re.sub(r"\s+#.*$", "", line) for line in lines)
    return [line for line in found if line and not line.startswith("#")]


def check_command(line):
    """What a command names exists: subcommands and options, extras, targets, modules."""
    words = shlex.split(line)
    while re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words.pop(0)
    words = words[: next((i for i, word in enumerate(words) if word in (">", "|", "<", "&&")), len(words))]
    if words[0] == "widemargin":
        check_options(words[1:])
    elif words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        unknown = {word for word in words[1:] if "=" not in word and not word.startswith("-")} - set(targets)
        assert not unknown, f"the Makefile has no {unknown}"
    elif words[0] == "pip" or words[:3] == ["python", "-m", "pip"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "optional-dependencies"
        ]
        for named in re.findall(r"(?:widemargin|\.)\[([\w,]+)\]", line):
            assert set(named.split(",")) <= set(extras), f"pyproject.toml has not all extras of {named}"
    elif words[0] in ("python", "python3") and words[1] == "-m" and words[2].startswith("benchmarks"):
        place = ROOT / Path(*words[2].split("."))
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), f"there is no {words[2]}"
    elif words[0] in ("python", "python3") and words[1].endswith(".py"):
        assert (ROOT / words[1]).is_file(), f"{words[1]} is no file"
    else:
        known = words[0] in ("python", "python3", "cd", "git", "export", "source")
        assert known, f"{line!r} is no command that is known here: a block of text is for what does not run"


def check_options(words):
    """A command of widemargin with all its options exists."""
    pytest.importorskip("typer")
    from widemargin.cli.commands import COMMANDS, command

    chosen = [word for word in words if not word.startswith("-")][:1]
    assert set(chosen) <= set(COMMANDS), f"widemargin has no command {chosen}"
    if chosen and words[0] == chosen[0]:
        help_or_more = words[1:] or ["--help"]
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            try:
                command(words).commands[chosen[0]].make_context(chosen[0], help_or_more)
            except Exception as bad:
                if type(bad).__name__ != "Exit":  # of --help
                    raise AssertionError(f"widemargin {' '.join(words)}: {getattr(bad, 'message', bad)}") from bad


def left_to_do(name):
    return [pytest.mark.skip(reason="not yet: see NOT_YET")] if name in NOT_YET else []


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=title(page), marks=left_to_do(title(page)))
        for page in PAGES + OUTSIDE
        if blocks_of(page.read_text(encoding="utf-8"))
    ],
)
def test_the_blocks_of_a_page_run(page, prepared, request):
    run = Run(page, prepared, request)
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if not (title(page) in ELSEWHERE and block.language == "python"):
            run.run(block)
    if run.left_out:
        pytest.skip(f"left out: {'; '.join(run.left_out)}")


@pytest.mark.parametrize(
    "script",
    [pytest.param(s, id=s.stem, marks=left_to_do(s.name)) for s in sorted(TUTORIALS.glob("*.py"))],
)
def test_a_tutorial_runs(script, folder, capsys):
    pytest.importorskip("matplotlib")
    text = script.read_text(encoding="utf-8")
    for name in sorted(needs_of(ast.parse(text)) - {*OURS, "__future__"}):
        pytest.importorskip(name)
    if script.stem in SMALLER:
        large, small = SMALLER[script.stem]
        assert text.count(large) == 1
        script = folder / script.name
        script.write_text(text.replace(large, small), encoding="utf-8")
    runpy.run_path(str(script), run_name="__main__")


def test_commands_that_a_tutorial_names_and_does_not_run_exist():
    found = []
    for script in TUTORIALS.glob("*.py"):
        text = script.read_text(encoding="utf-8")
        for block in re.findall(r"^# \.\. code-block:: sh\n#\n((?:#    .*\n)+)", text, re.MULTILINE):
            found += [line[5:] for line in block.splitlines()]
    assert found
    for line in found:
        check_command(re.sub(r"\s+#.*$", "", line))


@pytest.mark.parametrize("page", PAGES + OUTSIDE, ids=title)
def test_commands_within_sentences_exist(page):
    text = without_blocks(page.read_text(encoding="utf-8"))
    for found in re.findall(r"`((?:widemargin |make |python -m benchmarks|pip install )[^`]+)`", text):
        line = " ".join(found.split())
        if not re.search(r"[A-Z]{4,}|…|\.\.\.|[<>|]|\[[^\]]*\|", line):  # those with places to fill in are patterns
            check_command(line)


# ---------------------------------------------------------------- links


def anchors_of(page):
    """Headings of a page as links write them, and the names that it gives to places."""
    text, seen, found = without_blocks(page.read_text(encoding="utf-8")), {}, set()
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", text, re.MULTILINE):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)|[`*$]", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        number = seen[slug] = seen.get(slug, -1) + 1
        found.add(f"{slug}-{number}" if number else slug)
    return found | set(re.findall(r"^\(([\w-]+)\)=", text, re.MULTILINE)) | set(re.findall(r'id="([\w-]+)"', text))


def links_of(page):
    """Where a page points to, in this repository."""
    text = without_blocks(page.read_text(encoding="utf-8"))
    whole = page.read_text(encoding="utf-8")
    found = re.findall(r"\]\(<?([^)\s>]+)>?(?: +\"[^\"]*\")?\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    found += re.findall(r"^ *[`:]{3,}\{(?:image|figure|include|literalinclude)\} *(\S+)", whole, re.MULTILINE)
    found += re.findall(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`", text)
    found += re.findall(r"^ *:link: *(\S+)", whole, re.MULTILINE)
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def public(name):
    """Whether the documentation of such a name is generated."""
    package, _, attribute = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(package), attribute)
    except ModuleNotFoundError:
        return False


def stands(page, link):
    """Whether a link of a page leads somewhere."""
    path, _, anchor = unquote(link).partition("#")
    base = DOCS if path.startswith("/") else page.parent
    target = Path(os.path.normpath(base / path.lstrip("/"))) if path else page
    if not target.suffix or (not target.is_file() and target.with_name(target.name + ".md").is_file()):
        target = target if target.is_dir() else target.with_name(target.name + ".md")
    if target.is_relative_to(DOCS / "tutorials"):  # made of scripts
        return target.stem == "index" or (TUTORIALS / f"{target.stem}.py").is_file()
    if target.is_relative_to(DOCS / "api" / "generated"):
        return public(re.sub(r"\.(md|rst|html)$", "", target.name))
    if not target.exists():
        return False
    return not anchor or target.suffix != ".md" or anchor in anchors_of(target)


@pytest.mark.parametrize("page", PAGES + OUTSIDE, ids=title)
def test_no_link_is_dead(page):
    dead = [link for link in links_of(page) if not stands(page, link)]
    assert not dead

"""What docs/extend.md shows is complete, short, and prints what the document says."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

import fresh

DOCUMENT = (Path(__file__).parents[1] / "docs" / "extend.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(python|text)\n(.*?)```", DOCUMENT, re.DOTALL)
#: Blocks that begin with the name of a file are files.
FILES = {name: block for _, block in BLOCKS for name in re.findall(r"\A# (\w+\.py)\n", block)}
#: (what uses the files, what it prints)
SCRIPTS = [(script, printed) for (_, script), (kind, printed) in pairwise(BLOCKS) if kind == "text"]
TITLES = [re.search(r"^import (\w+)|^from (?!sklearn)(\w+)", script, re.MULTILINE) for script, _ in SCRIPTS]


def test_every_block_is_a_file_or_a_script_that_says_what_it_prints():
    assert len(FILES) + 2 * len(SCRIPTS) == len(BLOCKS) > 0


@pytest.mark.parametrize(("file", "most"), [("smooth_hinge.py", 30), ("cauchy.py", 25)])
def test_a_loss_takes_thirty_lines_and_a_kernel_twenty_five(file, most):
    assert len(FILES[file].split("\n", 1)[1].strip().splitlines()) <= most


@pytest.mark.parametrize(
    ("script", "printed"), SCRIPTS, ids=[(found[1] or found[2]) if found else "?" for found in TITLES]
)
def test_an_example_prints_what_the_document_says(script, printed, tmp_path):
    for name, block in FILES.items():
        (tmp_path / name).write_text(block, encoding="utf-8")
    done = fresh.run(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed

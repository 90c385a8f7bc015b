"""The examples of the pages run, one after the other, on some data."""

import re
from pathlib import Path

import numpy as np
import pytest

from widemargin.data import write_data

DOCS = Path(__file__).parents[1] / "docs"


PAGES = ["guide/data.md", "guide/formats.md", "methods/interior.md", "methods/simba.md", "guide/teaching.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 6))
    y = np.where(X @ rng.normal(size=6) > 0.0, 1, 0)
    names = {"X": X[:600], "y": y[:600], "X_test": X[600:], "y_test": y[600:]}
    for file in ("train.svm.bz2", "huge.svm", "train.svm"):
        write_data(file, X, y)
    Path("people.csv").write_text("age,town,income\n30,Graz,high\n50,Wels,low\n")
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        if "onnx" in block:
            pytest.importorskip("onnx")
            pytest.importorskip("onnxruntime")
        exec(compile(block, page, "exec"), names)

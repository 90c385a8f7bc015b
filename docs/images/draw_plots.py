"""Draws the pictures of docs/guide/plots.md from its own code: ``python docs/images/draw_plots.py``."""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
PAGE = HERE.parent / "guide" / "plots.md"

names: dict[str, object] = {}
for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
    exec(compile(block, str(PAGE), "exec"), names)
    drawn = re.findall(r"^plots\.(\w+)\(", block, re.MULTILINE)[-1]
    plt.gcf().savefig(HERE / f"plots-{drawn}.png", dpi=100)
    plt.close("all")

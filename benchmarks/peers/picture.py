"""The picture of the README: times to the same objective beside scikit-learn's, LIBLINEAR's and LIBSVM's, as ratios.

``python -m benchmarks.peers.picture`` draws docs/images/ratios.svg from the table of the README, which a test holds to
docs/measurements/peers.md.
"""

import re
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("svg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[2]
ROW = r"^\| (linear|kernel), (\w+) \| (\S+) ms \| (\S+) × \| (\S+) × \|$"
OURS, RIVALS = "#1f6f8b", ("#e08e45", "#8a8f98")


def main():
    rows = re.findall(ROW, (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    titles = [f"{name}\n{kind}\n{float(ms):g} ms" for kind, name, ms, *_ in rows]
    ratios = np.array([[1.0, float(first), float(second)] for *_, first, second in rows])
    matplotlib.rcParams |= {"svg.hashsalt": "widemargin", "font.size": 9, "svg.fonttype": "path"}
    figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
    for k, (label, colour) in enumerate(
        zip(("widemargin", "scikit-learn", "LIBLINEAR or LIBSVM themselves"), (OURS, *RIVALS))
    ):
        bars = axes.bar(np.arange(len(rows)) + 0.27 * (k - 1), ratios[:, k], 0.25, color=colour, label=label)
        axes.bar_label(bars, [f"{value:g}" for value in ratios[:, k]], fontsize=7, padding=1)
    axes.set_xticks(np.arange(len(rows)), titles)
    axes.set_ylabel("processor time, widemargin = 1")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    figure.patch.set_facecolor("white")
    figure.savefig(ROOT / "docs" / "images" / "ratios.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()

"""Draws what the first pages show, into docs/images: ``python docs/pictures.py``.

choose.svg has boxes over the number of rows, and is 420 wide, so that its letters can be read on a phone. The others
come from the code of docs/start.md. All stand on white of their own.
"""

import re
from pathlib import Path
from xml.sax.saxutils import escape

WIDE, HIGH = 420, 560
#: Rows, as powers of ten, at the bottom and at the top of the picture.
LOW, TOP = 3.0, 8.0
BOTTOM, UP = 470, 70
BLUE, ORANGE, GREEN, INK = "#dcebf7", "#fbe3d6", "#e2f0dc", "#1c2733"
#: Where the columns begin, and how wide they are.
LEFT, RIGHT, BROAD = 44, 236, 180


def height(power):
    """Where a number of rows stands."""
    return BOTTOM - (power - LOW) / (TOP - LOW) * (BOTTOM - UP)


def text(x, y, words, size=13, **how):
    given = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in how.items())
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{INK}"{given}>{escape(words)}</text>'


def box(x, bottom, top, colour, name, lines, broad=BROAD):
    """A field from so many rows to so many, with a name and some lines."""
    y, h = height(top) + 2, height(bottom) - height(top) - 4
    first = y + h / 2 - 17 * len(lines) / 2 + 4
    parts = [f'<rect x="{x}" y="{y:.0f}" width="{broad}" height="{h:.0f}" rx="7" fill="{colour}" stroke="#8795a1"/>']
    for k, line in enumerate([name, *lines]):
        weight = "bold" if k == 0 else "normal"
        parts.append(text(x + broad / 2, round(first + 17 * k), line, 14 if k == 0 else 12.5, text_anchor="middle",
                          font_weight=weight))  # fmt: skip
    return parts


def choose():
    parts = [f'<rect width="{WIDE}" height="{HIGH}" fill="white"/>', text(8, 24, "rows n", 13, font_weight="bold")]
    heads = (("a plane will do", "text, many features", LEFT), ("it takes a curve", "up to ~1,000 features", RIGHT))
    for head, example, x in heads:
        parts += [text(x + BROAD / 2, 24, head, 14, text_anchor="middle", font_weight="bold"),
                  text(x + BROAD / 2, 42, example, 12.5, text_anchor="middle")]  # fmt: skip
    for power in range(int(LOW), int(TOP) + 1):
        y = height(power)
        parts.append(f'<line x1="36" x2="{WIDE - 4}" y1="{y:.0f}" y2="{y:.0f}" stroke="#d5dce2"/>')
        parts.append(text(8, round(y) + 4, "10" + "³⁴⁵⁶⁷⁸"[power - 3], 13))
    parts += box(LEFT, 3, 6.6, BLUE, "LinearSVC", [
        "exact, with a proof", "d up to millions", "time n·d, memory: the data",
        "160,000 × 50: 0.3 s"])  # fmt: skip
    parts += box(LEFT, 6.6, 8, GREEN, "LinearSVC in chunks", [
        "train, partial_fit", "memory: a chunk and d", "10⁷ × 50: 35 s"])  # fmt: skip
    parts += box(RIGHT, 3, 5, BLUE, "SVC", [
        "exact, with a proof", "time n²·d, memory: the data", "and a cache", "15,000 × 784: 2.9 s"])  # fmt: skip
    parts += box(RIGHT, 5, 6.6, ORANGE, "SVC(device=\"cuda\")", [
        "exact, one GPU", "465,000 × 54: 3.8 s", "5·10⁶ × 100: 52 s"])  # fmt: skip
    parts += box(RIGHT, 6.6, 8, GREEN, "BudgetedSVC(B)", [
        "from 10⁴ rows on", "time n·B·d, memory B·d", "10⁷ × 50, B = 100: 41 s"])  # fmt: skip
    parts.append(f'<rect x="{LEFT}" y="{BOTTOM + 14}" width="{RIGHT + BROAD - LEFT}" height="66" rx="7" '
                 'fill="#efe6f5" stroke="#8795a1"/>')  # fmt: skip
    middle = (LEFT + RIGHT + BROAD) / 2
    for k, line in enumerate(("IncrementalSVC", "rows come one by one, drift, are taken back",
                              "tens of thousands remembered; 32,561 × 123: 4.4 s")):  # fmt: skip
        parts.append(text(middle, BOTTOM + 34 + 18 * k, line, 14 if k == 0 else 12.5, text_anchor="middle",
                          font_weight="normal" if k else "bold"))  # fmt: skip
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" width="{WIDE}" height="{HIGH}" '
    return "\n".join([head + 'font-family="Helvetica, Arial, sans-serif">', *parts, "</svg>", ""])


def start():
    """Run the blocks of docs/start.md; its figures by name."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "widemargin", "font.size": 11})
    import matplotlib.pyplot as plt

    page, names = (DOCS / "start.md").read_text(encoding="utf-8"), {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    return [plt.figure(number) for number in plt.get_fignums()]


DOCS = Path(__file__).parent

if __name__ == "__main__":
    images = DOCS / "images"
    (images / "choose.svg").write_text(choose(), encoding="utf-8")
    for name, figure in zip(("start_boundary", "start_proof"), start(), strict=True):
        figure.savefig(images / f"{name}.svg", metadata={"Date": None})

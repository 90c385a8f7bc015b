"""Figures of a comparison as SVG inside an HTML page, without colours of their own: the page's style sheet has them.

Texts and lines have classes; series k has the colour ``--s{k}`` of the style sheet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np
from sklearn.isotonic import isotonic_regression

WIDTH, HEIGHT = 640, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 14, 48
#: A contender whose last point is above OUTSIDE times the median of all last points is left outside of the frame.
OUTSIDE = 5.0
#: The height and the mean width of a letter of the labels, in the figure's units.
LETTER = 13.0, 7.0


@dataclass(frozen=True)
class Series:
    """Points of one contender, with colour and marker k."""

    name: str
    k: int
    points: list[tuple[float, float]]
    dashed: bool = False


class Label(NamedTuple):
    """The name of the point (a, b) in a figure, written from ``start`` to the right in ``width`` units."""

    name: str
    a: float
    b: float
    start: float
    width: float


@dataclass(frozen=True)
class Frame:
    """The ranges of a logarithmic horizontal axis and of a linear vertical one."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a point in the figure."""
        low, high = map(math.log, self.x)
        right = (math.log(min(max(x, self.x[0]), self.x[1])) - low) / (high - low)
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return LEFT + right * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)


def framed(series: Sequence[Series], room: float = 1.0) -> Frame:
    """A frame around the points, without those far above all last points.

    ``room`` is a factor by which the horizontal axis is longer, for labels.
    """
    xs = [x for each in series for x, _ in each.points if x > 0.0] or [1.0]
    ys = [y for each in series for _, y in each.points]
    ends = [each.points[-1][1] for each in series]
    last = max(end for end in ends if end <= OUTSIDE * float(np.median(ends)) or end == min(ends))
    low = min(ys)
    high = min(max(ys), last + 0.5 * (last - low)) if last > low else max(ys)
    pad = 0.06 * (high - low) or 0.05 * abs(high) or 0.01
    bottom = low - pad
    return Frame((min(xs) / 1.3, max(xs) * 1.3 * room), (max(bottom, 0.0) if low >= 0.0 else bottom, high + pad))


def against(series: Sequence[Series], x: str, y: str, labelled: bool = False) -> str:
    """Draw the series as lines and markers in one SVG; ``labelled`` writes names beside the last points."""
    series = [each for each in series if each.points]
    if not series:
        return ""
    frame = framed(series, 1.0 if not labelled else 3.0)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y)} against {escape(x)}">',
        *_axes(frame, x, y),
    ]
    for each in series:
        places = [frame.at(*point) for point in each.points]
        inside = [place for place, point in zip(places, each.points) if point[1] <= frame.y[1]]
        style = f'style="--c:var(--s{each.k})"'
        parts.append(f"<g {style}><title>{escape(each.name)}</title>")
        for piece in _pieces(places):
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in piece)
            parts.append(f'<polyline class="line{" dashed" if each.dashed else ""}" points="{path}"/>')
        parts += [marker(each.k, *place, hollow=each.dashed) for place in inside]
        parts.append("</g>")
    if labelled:
        named = [(each.name, *each.points[-1]) for each in series]
        parts += _labels([(name, *frame.at(x, y)) for name, x, y in named if y <= frame.y[1]])
    return "\n".join([*parts, "</svg>"])


def _pieces(places: list[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """The parts of a line below the upper edge of the frame, cut off at the edge."""
    found: list[list[tuple[float, float]]] = [[]]
    for k, (a, b) in enumerate(places):
        if k and (b < TOP) != (places[k - 1][1] < TOP):
            a0, b0 = places[k - 1]
            found[-1].append((a0 + (a - a0) * (TOP - b0) / (b - b0), TOP))
        if b >= TOP:
            found[-1].append((a, b))
        elif found[-1]:
            found.append([])
    return [piece for piece in found if len(piece) > 1]


def marker(k: int, a: float, b: float, hollow: bool = False) -> str:
    """Draw the marker of series k at a place."""
    kind = f'class="mark{" hollow" if hollow else ""}"'
    if k % 4 == 0:
        return f'<circle {kind} cx="{a:.1f}" cy="{b:.1f}" r="4"/>'
    corners = {
        1: ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        2: ((0, -5), (5, 4), (-5, 4)),
        3: ((0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)),
    }[k % 4]
    path = " ".join(f"{a + da:.1f},{b + db:.1f}" for da, db in corners)
    return f'<polygon {kind} points="{path}"/>'


def swatch(k: int, dashed: bool) -> str:
    """Draw a piece of the line of series k with its marker, for a legend."""
    line = f'<line class="line{" dashed" if dashed else ""}" x1="0" x2="30" y1="8" y2="8"/>'
    style = f'style="--c:var(--s{k})"'
    return f'<svg class="swatch" viewBox="0 0 30 16" {style}>{line}{marker(k, 15, 8, hollow=dashed)}</svg>'


def _axes(frame: Frame, x: str, y: str) -> list[str]:
    """Draw the grid, the numbers and the names of the axes."""
    parts = []
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for value in log_ticks(*frame.x):
        a, _ = frame.at(value, frame.y[0])
        parts.append(f'<line class="grid" x1="{a:.1f}" x2="{a:.1f}" y1="{TOP}" y2="{bottom}"/>')
        parts.append(f'<text x="{a:.1f}" y="{bottom + 18}" text-anchor="middle">{_short(value)}</text>')
    for value in ticks(*frame.y):
        _, b = frame.at(frame.x[0], value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{b:.1f}" y2="{b:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{b + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    middle = (LEFT + right) / 2
    parts.append(f'<text class="axis" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x)}</text>')
    at = (TOP + bottom) / 2
    parts.append(
        f'<text class="axis" x="14" y="{at}" text-anchor="middle" transform="rotate(-90 14 {at})">{escape(y)}</text>'
    )
    return parts


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between the ends; over less than three decades also twice and five times them."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1.0,) if math.log10(high / low) > 3.0 else (1.0, 2.0, 5.0)
    return [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers between the ends."""
    rough = (high - low) / 5.0
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * k for k in (1.0, 2.0, 5.0, 10.0) if unit * k >= rough)
    first = math.ceil(low / step)
    return [float(step * k) for k in np.arange(first, math.floor(high / step) + 1)]


def _short(value: float) -> str:
    """A number in few letters: 20 k, 3 M."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _labels(points: list[tuple[str, float, float]]) -> list[str]:
    """Draw names beside points, moved up or down so that they do not overlap, with a thin line if they were moved."""
    labels = []
    for name, a, b in points:
        width = LETTER[1] * len(name)
        right, left = a + 10, a - 10 - width
        covers = [sum(s < x < s + width and abs(y - b) < 9 for _, x, y in points) for s in (right, left)]
        fits = right + width <= WIDTH, left >= LEFT
        labels.append(Label(name, a, b, right if fits[0] and (covers[0] <= covers[1] or not fits[1]) else left, width))
    parts = []
    for group in _side_by_side(labels):
        for (name, a, b, start, width), at in zip(group, spread([label.b for label in group])):
            if abs(at - b) > 3.0:
                near = start - 2 if start > a else start + width + 2
                parts.append(f'<line class="leader" x1="{a:.1f}" y1="{b:.1f}" x2="{near:.1f}" y2="{at:.1f}"/>')
            parts.append(f'<text class="label" x="{start:.1f}" y="{at + 4:.1f}">{escape(name)}</text>')
    return parts


def _side_by_side(labels: list[Label]) -> list[list[Label]]:
    """The labels in groups that share no horizontal position, each group from top to bottom."""
    groups: list[list[Label]] = []
    reach = -math.inf
    for label in sorted(labels, key=lambda label: label.start):
        if label.start >= reach:
            groups.append([])
        groups[-1].append(label)
        reach = max(reach, label.start + label.width)
    return [sorted(group, key=lambda label: label.b) for group in groups]


def spread(wanted: Sequence[float]) -> list[float]:
    """Heights nearest to those wanted, in their order, at least a letter's height apart and within the frame.

    The heights minus k letters must not fall with k: that is isotonic regression.
    """
    if not wanted:
        return []
    shifts = LETTER[0] * np.arange(len(wanted))
    found = isotonic_regression(np.asarray(wanted) - shifts) + shifts
    lowest = HEIGHT - BOTTOM - LETTER[0] / 2
    return np.minimum(found, lowest - shifts[::-1]).tolist()

"""Drawings as inline SVG, whose colours are variables of the page: they follow its light or dark scheme."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

RELATIONS = ("var(--up)", "var(--down)", "var(--tie)", "var(--fourth)")
INK, SOFT, EDGE, PAPER = "var(--ink)", "var(--soft)", "var(--edge)", "var(--paper)"
Point = tuple[float, float]


def subscripted(text: str) -> str:
    """Text for SVG in which ``W_up`` has a small, low ``up``; a space ends it."""
    words = []
    for word in text.split(" "):
        head, _, low = word.partition("_")
        small = f'<tspan dy="0.28em" font-size="0.75em">{escape(low)}</tspan><tspan dy="-0.21em">&#8203;</tspan>'
        words.append(escape(head) + (small if low else ""))
    return " ".join(words)


class Drawing:
    """Shapes in the order in which they are drawn, in units of a pixel at full size.

    Args:
        width: Of the whole drawing.
        height: Of the whole drawing.
        title: What a screen reader says.
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []

    def line(self, a: Point, b: Point, colour: str = EDGE, width: float = 1.4, dash: str = "") -> None:
        """A straight line."""
        more = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" stroke="{colour}" '
            f'stroke-width="{width}" stroke-linecap="round"{more}/>'
        )

    def arrow(self, a: Point, b: Point, colour: str, width: float = 1.8, tip: float = 8.0, bend: float = 0.0) -> None:
        """A line with a tip at ``b``; ``bend`` moves its middle to the left, in parts of its length."""
        start, end = np.array(a), np.array(b)
        across = np.array([-(end - start)[1], (end - start)[0]])
        middle = (start + end) / 2 + bend * across
        along = end - (middle if bend else start)
        along = along / max(float(np.linalg.norm(along)), 1e-9)
        foot, side = end - tip * along, 0.45 * tip * np.array([-along[1], along[0]])
        self._parts.append(
            f'<path d="M{_at(start)} Q{_at(middle)} {_at(foot)}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
            f'<path d="M{_at(end)} L{_at(foot + side)} L{_at(foot - side)} Z" fill="{colour}"/>'
        )

    def node(
        self, at: Point, radius: float, fill: str = PAPER, stroke: str = SOFT, text: str = "", ink: str = INK
    ) -> None:
        """A circle with a short text in it."""
        self._parts.append(
            f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:.1f}" fill="{fill}" stroke="{stroke}" '
            'stroke-width="1.6"/>'
        )
        if text:
            self.text((at[0], at[1] + 0.36 * min(13.0, 1.25 * radius)), text, ink, min(13.0, 1.25 * radius), "middle")

    def text(
        self, at: Point, text: str, colour: str = INK, size: float = 13.0, anchor: str = "start", weight: int = 400
    ) -> None:
        """One line; ``_`` lowers what follows it in a word."""
        self._parts.append(
            f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" fill="{colour}" font-size="{size:g}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{subscripted(text)}</text>'
        )

    def halo(self, at: Point, text: str, colour: str, size: float = 13.0, anchor: str = "middle") -> None:
        """The same with a rim in the colour of the page, for texts on lines."""
        self._parts.append(
            f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" fill="{colour}" font-size="{size:g}" text-anchor="{anchor}" '
            f'font-weight="600" stroke="{PAPER}" stroke-width="5" stroke-linejoin="round" paint-order="stroke">'
            f"{subscripted(text)}</text>"
        )

    def box(
        self, at: Point, size: Point, fill: str = "none", stroke: str = EDGE, round_by: float = 8, opacity: float = 1
    ) -> None:
        """A rectangle by its upper left corner."""
        self._parts.append(
            f'<rect x="{at[0]:.1f}" y="{at[1]:.1f}" width="{size[0]:.1f}" height="{size[1]:.1f}" rx="{round_by}" '
            f'fill="{fill}" stroke="{stroke}" fill-opacity="{opacity:.3g}"/>'
        )

    def polyline(self, points: Sequence[Point], colour: str, width: float = 2.4, dash: str = "") -> None:
        """Connected lines."""
        more = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" stroke="{colour}" '
            f'stroke-width="{width}" stroke-linejoin="round" stroke-linecap="round"{more}/>'
        )

    def path(self, d: str, colour: str, width: float = 2.0, fill: str = "none", opacity: float = 1) -> None:
        """Any path."""
        self._parts.append(
            f'<path d="{d}" fill="{fill}" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round" '
            f'fill-opacity="{opacity:g}"/>'
        )

    def __str__(self) -> str:
        return (
            f'<svg class="picture" viewBox="0 0 {self.width:g} {self.height:g}" style="max-width:{self.width:g}px" '
            f'role="img" xmlns="http://www.w3.org/2000/svg"><title>{escape(self.title)}</title>{"".join(self._parts)}</svg>'
        )


def _at(point: np.ndarray) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


def placed(positions: np.ndarray, corner: Point, size: Point) -> list[Point]:
    """Positions moved and scaled into a box, with equal scales in both directions."""
    low, extent = positions.min(0), np.maximum(np.ptp(positions, axis=0), 1e-9)
    scale = min(size[0] / extent[0], size[1] / extent[1])
    rest = (np.array(size) - scale * extent) / 2
    return [tuple(each) for each in np.array(corner) + rest + scale * (positions - low)]


def ends(a: Point, b: Point, radius: float) -> tuple[Point, Point]:
    """The line between two nodes, from rim to rim."""
    length = max(math.dist(a, b), 1e-9)
    x, y = (b[0] - a[0]) / length * radius, (b[1] - a[1]) / length * radius
    return (a[0] + x, a[1] + y), (b[0] - x, b[1] - y)


class Axes:
    """A chart with a frame at the left and below; values to points.

    Args:
        drawing: Where to draw.
        corner: Upper left corner.
        size: Width and height.
        x: First and last value across.
        y: First and last value, from below.
        log: Whether ``y`` is logarithmic.
    """

    def __init__(
        self,
        drawing: Drawing,
        corner: Point,
        size: Point,
        x: Point,
        y: Point,
        *,
        log: bool = False,
        log_x: bool = False,
    ) -> None:
        self.drawing, self.corner, self.size, self.log, self.log_x = drawing, corner, size, log, log_x
        self._x = tuple(map(math.log10, x)) if log_x else x
        self._y = tuple(map(math.log10, y)) if log else y

    def at(self, x: float, y: float) -> Point:
        """The point of two values; those beyond the chart lie on its rim."""
        across = ((math.log10(x) if self.log_x else x) - self._x[0]) / (self._x[1] - self._x[0])
        value = math.log10(max(y, 1e-300)) if self.log else y
        up = min(max((value - self._y[0]) / (self._y[1] - self._y[0]), 0.0), 1.0)
        return self.corner[0] + across * self.size[0], self.corner[1] + (1 - up) * self.size[1]

    def ticks_x(self, values: Sequence[float], label: str = "") -> None:
        """Numbers below, and what they count."""
        bottom = self.corner[1] + self.size[1]
        for value in values:
            self.drawing.text((self.at(value, 1)[0], bottom + 18), f"{value:g}", SOFT, 12, "middle")
        if label:
            self.drawing.text((self.corner[0] + self.size[0] / 2, bottom + 37), label, SOFT, 12.5, "middle")

    def ticks_y(self, values: Sequence[float], texts: Sequence[str] | None = None) -> None:
        """Lines across with their numbers at the left."""
        for value, text in zip(values, texts or [f"{value:g}" for value in values], strict=True):
            y = self.at(10 ** self._x[0] if self.log_x else self._x[0], value)[1]
            self.drawing.line((self.corner[0], y), (self.corner[0] + self.size[0], y), "var(--grid)", 1)
            self.drawing.text((self.corner[0] - 8, y + 4), text, SOFT, 12, "end")

    def curve(self, points: Sequence[Point], colour: str, width: float = 2.6, dash: str = "") -> None:
        """A line through values."""
        self.drawing.polyline([self.at(x, y) for x, y in points], colour, width, dash)

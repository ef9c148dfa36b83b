"""Pictures as SVG text: a canvas, and axes on which numbers have their places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 960


class Canvas:
    """Collects shapes, and is text in the end. Lengths are in pixels, from the upper left corner."""

    def __init__(self, height: float) -> None:
        self._height = height
        self._shapes: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, colour: str, hint: str = "") -> None:
        size = f'width="{max(width, 1):.1f}" height="{height:.1f}"'
        self._shapes.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{colour}">{_title(hint)}</rect>')

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str) -> None:
        ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        self._shapes.append(f'<line {ends} stroke="{colour}"/>')

    def path(self, points: Iterable[tuple[float, float]], colour: str, width: float = 1.5, dashes: str = "") -> None:
        listed = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        style = f'fill="none" stroke="{colour}" stroke-width="{width}"' + (
            f' stroke-dasharray="{dashes}"' if dashes else ""
        )
        self._shapes.append(f'<polyline points="{listed}" {style}/>')

    def dot(self, x: float, y: float, colour: str, hint: str = "", radius: float = 4.0) -> None:
        self._shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}">{_title(hint)}</circle>')

    def text(self, x: float, y: float, words: str, anchor: str = "start") -> None:
        self._shapes.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>')

    def __str__(self) -> str:
        size = f'viewBox="0 0 {WIDTH} {self._height:.0f}" width="100%"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{"".join(self._shapes)}</svg>'


@dataclass(frozen=True)
class Axis:
    """Numbers from `low` to `high`, on pixels from `begin` to `end`."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.begin + min(max(share, 0.0), 1.0) * (self.end - self.begin)

    @property
    def value_of_a_pixel(self) -> float:
        return (self.high - self.low) / (self.end - self.begin)

    def ticks(self, about: int = 8) -> list[float]:
        """Round numbers, about so many."""
        raw = ((self.high - self.low) or 1.0) / about
        size = 10.0 ** math.floor(math.log10(raw))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
        first = math.ceil(self.low / step)
        return [index * step for index in range(first, math.floor(self.high / step) + 1)]


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Colours and what they mean, as HTML."""
    return (
        '<p class="legend">'
        + "".join(f'<span><i style="background:{colour}"></i>{escape(name)}</span>' for name, colour in entries)
        + "</p>"
    )


def _title(hint: str) -> str:
    return f"<title>{escape(hint)}</title>" if hint else ""

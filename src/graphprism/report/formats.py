"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sized
from typing import Any

from graphprism.results import Score

MINUS = "−"


def fixed(value: float | None, digits: int) -> str:
    """With a given number of digits after the point; nothing for None.

    >>> fixed(-0.1234, 2), fixed(498200, 0), fixed(None, 3)
    ('−0.12', '498,200', '')
    """
    if value is None:
        return ""
    return f"{value:,.{digits}f}".replace("-", MINUS) if math.isfinite(value) else "not finite"


def signed(value: float, digits: int) -> str:
    """A difference, which always has its sign; a zero has none.

    >>> signed(0.0123, 3), signed(-0.5, 1), signed(-0.0001, 2)
    ('+0.012', '−0.5', '0.00')
    """
    near = round(value, digits)
    return f"{near:+,.{digits}f}".replace("-", MINUS) if near else f"{0:.{digits}f}"


def score(value: Score, digits: int) -> str:
    """Mean and deviation.

    >>> score(Score(0.404, 0.011), 3), score(Score(0.404), 2)
    ('0.404 ± 0.011', '0.40')
    """
    mean = fixed(value.mean, digits)
    return mean if value.deviation is None else f"{mean} ± {fixed(value.deviation, digits)}"


def short(value: Any) -> str:
    """A number with four digits that count; other things as they are, nothing for None.

    >>> short(0.000312345), short(12.0), short(8), short(True), short(None)
    ('0.0003123', '12', '8', 'True', '')
    """
    if value is None:
        return ""
    return f"{value:.4g}".replace("-", MINUS) if isinstance(value, float) else str(value)


def duration(seconds: float | None) -> str:
    """A time in its two largest units.

    >>> duration(0.25), duration(75), duration(7265), duration(200000), duration(None)
    ('0.25 s', '1 min 15 s', '2 h 01 min', '2 d 07 h', '')
    """
    if seconds is None or not math.isfinite(seconds):
        return ""
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min {rest:02} s"
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d {hours % 24:02} h"


def counted(things: int | Sized, one: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "run"), counted(2000, "run"), counted([], "entry", "entries")
    ('1 run', '2,000 runs', '0 entries')
    """
    count = things if isinstance(things, int) else len(things)
    return f"{count:,} {one if count == 1 else many or one + 's'}"

"""Figures as text that does not round a claim into a larger one."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext


def percent(part: int, whole: int, decimals: int = 0) -> str:
    """``part`` of ``whole`` in percent; "0 %" and "100 %" only if they are exact, with more decimals where needed.

    >>> percent(2, 3), percent(9996, 10000), percent(4, 10000), percent(3, 3), percent(1, 2, decimals=1)
    ('67 %', '99.96 %', '0.04 %', '100 %', '50.0 %')
    """
    if part in (0, whole):
        return "0 %" if part == 0 else "100 %"
    with localcontext() as context:
        context.prec = 60
        share = Decimal(100 * part) / Decimal(whole)
        text = f"{share:.{decimals}f}"
        while Decimal(text) in (0, 100):
            decimals += 1
            text = f"{share:.{decimals}f}"
    return f"{text} %"


def two_decimals(value: float) -> str:
    """``value`` rounded down to two decimals: 2.999 is not 3.

    >>> two_decimals(2.999), two_decimals(3.0)
    ('2.99', '3.00')
    """
    return f"{math.floor(value * 100) / 100:.2f}"

"""Figures as text that does not round a claim into a larger one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


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


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest entry, two spaces between them.

    >>> print(text_table(["a", "bb"], [["1", "2"], ["333", "4"]]))
    a    bb
    1    2
    333  4
    """
    table = [header, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table]
    return "\n".join(line.rstrip() for line in lines)


def rich_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> Table:
    """The same for a terminal with colours."""
    try:
        from rich.markup import escape
        from rich.table import Table
    except ImportError as error:
        raise ImportError("a coloured table needs rich: pip install rich; `print` works without it") from error
    table = Table(title=escape(title), caption=escape(caption), caption_justify="left", title_justify="left")
    for name in header:
        table.add_column(escape(name))
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table

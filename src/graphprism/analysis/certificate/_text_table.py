"""One table, as plain text or for rich."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


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

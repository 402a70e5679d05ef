"""Numbers, durations, scores, tables and suggestions as text; rounding never overstates a result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Sized
from decimal import Decimal, localcontext
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from graphprism._extras import needs_extra

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


MINUS = "−"


def fixed(value: float | None, digits: int) -> str:
    """A number with ``digits`` decimals; without them one of seven digits or more, of a network that exploded.

    >>> fixed(-0.1234, 2), fixed(498200, 0), fixed(2.0149e22, 3), fixed(None, 3)
    ('−0.12', '498,200', '2.0e22', '')
    """
    if value is None:
        return ""
    if not math.isfinite(value):
        return "not finite"
    text = f"{value:,.{digits}f}" if digits == 0 or abs(value) < 1e6 else f"{value:.1e}".replace("e+", "e")
    return text.replace("-", MINUS)


def signed(value: float, digits: int) -> str:
    """A difference, always with its sign; zero has none.

    >>> signed(0.0123, 3), signed(-0.5, 1), signed(-0.0001, 2)
    ('+0.012', '−0.5', '0.00')
    """
    near = round(value, digits)
    return f"{near:+,.{digits}f}".replace("-", MINUS) if near else f"{0:.{digits}f}"


def score_text(mean: float, deviation: float | None, digits: int, separator: str = " ± ") -> str:
    """Mean and standard deviation; the mean alone where there is no deviation.

    >>> score_text(0.404, 0.011, 3), score_text(498200, None, 0), score_text(0.3175, 0.004, 3, "±")
    ('0.404 ± 0.011', '498,200', '0.318±0.004')
    """
    return fixed(mean, digits) if deviation is None else f"{fixed(mean, digits)}{separator}{fixed(deviation, digits)}"


def short(value: Any) -> str:
    """A number with four significant digits; other values as they are, empty for None.

    >>> short(0.000312345), short(12.0), short(8), short(True), short(None)
    ('0.0003123', '12', '8', 'True', '')
    """
    if value is None:
        return ""
    return f"{value:.4g}".replace("-", MINUS) if isinstance(value, float) else str(value)


def duration(seconds: float | None, *, narrow: bool = False) -> str:
    """A time in its two largest units, or in one where a column is ``narrow``; empty for None, NaN and infinity.

    >>> duration(0.25), duration(75), duration(7265), duration(200000), duration(None)
    ('0.25 s', '1 min 15 s', '2 h 01 min', '2 d 07 h', '')
    >>> [duration(seconds, narrow=True) for seconds in (7.3, 75, 600, 7265, 40_000)]
    ['7.3 s', '75 s', '10 min', '2.0 h', '11.1 h']
    """
    if seconds is None or not math.isfinite(seconds):
        return ""
    if seconds < (99.5 if narrow else 59.5):
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    if narrow:
        return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"
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


def suggest(word: str, known: Iterable[str]) -> str:
    """Suffix of an error about an unknown word, ignoring case; empty if no known word is close.

    >>> suggest("mrs-gnc", ["gcn", "mrs-gin", "mrs-gcn"]), suggest("mrs gcn", ["GCN", "MRS-GCN"])
    ('; did you mean mrs-gcn?', '; did you mean MRS-GCN?')
    >>> suggest("transformer", ["gcn", "mrs-gcn"])
    ''
    """
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(word.lower(), list(by_lower), n=3)
    # Transposed letters are more likely than a wrong letter; difflib rates them the same.
    swapped = [each for each in close if sorted(each) == sorted(word.lower())]
    return f"; did you mean {by_lower[(swapped or close)[0]]}?" if close else ""


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


def fitted_widths(header: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Widths of columns that need ``room`` characters at most: the widest give way, words of cells are broken last.

    >>> fitted_widths(["name", "a long header"], [["attr(edge_attr), apart", "1"]], 24)
    [16, 8]
    """
    cells = [max((_longest_word(row[place]) for row in rows), default=1) for place in range(len(header))]
    whole = [max(width, _longest_word(name)) for width, name in zip(cells, header, strict=True)]
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
    for floors in (whole, cells, [1] * len(header)):
        while sum(widths) > room and any(width > floor for width, floor in zip(widths, floors, strict=True)):
            loose = [place for place, floor in enumerate(floors) if widths[place] > floor]
            widths[max(loose, key=lambda place: widths[place])] -= 1
    return widths


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=1)


def uncut_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = (), **options: Any
) -> Table:
    """A table of `rich` that wraps its cells and never cuts them.

    By default `rich` ends a word that does not fit with an ellipsis, as in "attr(edge…", which cannot be typed.

    Args:
        header: Names of the columns.
        rows: The cells.
        right: Numbers of columns that are flush right.
        options: Arguments of ``rich.table.Table``.
    """
    with needs_extra("a coloured table"):
        from rich.markup import escape
        from rich.table import Table

    class UncutTable(Table):
        def __rich_console__(self, console: Any, options: Any) -> Any:
            borders = 3 * len(header) + 1
            widths = fitted_widths(header, rows, options.max_width - borders)
            for column, width in zip(self.columns, widths, strict=True):
                column.width = width
            return super().__rich_console__(console, options)

    table = UncutTable(**options)
    for place, name in enumerate(header):
        table.add_column(escape(name), overflow="fold", justify="right" if place in right else "left")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table


def rich_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> Table:
    """The same as a renderable of `rich`."""
    with needs_extra("a coloured table"):
        from rich.markup import escape
    flush: dict[str, Any] = {"caption_justify": "left", "title_justify": "left"}
    return uncut_table(header, rows, title=escape(title), caption=escape(caption), **flush)

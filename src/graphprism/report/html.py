"""HTML that cannot be broken by what is put into it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence, Sized
from html import escape
from typing import Any

from graphprism.results import Score

VOID = {"img", "input", "meta"}


class Html(str):
    """Text that is HTML already; any other text is escaped when it becomes part of a tag."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: str | bool | None) -> Html:
    """An element; children that are None and attributes that are None or False are left out.

    An underscore at the end of an attribute is dropped, one in the middle becomes a hyphen.

    >>> tag("p", "a < b ", tag("b", "&"), class_="sum", data_key="1", hidden=True)
    '<p class="sum" data-key="1" hidden>a &lt; b <b>&amp;</b></p>'
    """
    opening = "".join([name, *(_attribute(key, value) for key, value in attributes.items())])
    return Html(f"<{opening}>" if name in VOID else f"<{opening}>{join(*children)}</{name}>")


def join(*children: str | None) -> Html:
    """Several pieces in a row, each escaped unless it is `Html`."""
    return Html("".join(each if isinstance(each, Html) else escape(each, quote=False) for each in children if each))


def _attribute(key: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(value)}"'


def section(name: str, heading: str, *children: str | None) -> Html:
    """A part of the page with a heading that can be linked to."""
    label = f"{name}-heading"
    return tag("section", tag("h2", heading, id=label), *children, id=name, aria_labelledby=label)


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], class_: str = "plain", numbers: Iterable[int] = ()
) -> Html:
    """A table in a box of its own that scrolls sideways, so that a narrow page never does.

    Args:
        caption: Says what it shows.
        head: Names of columns.
        rows: Cells; the first is the head of its row.
        class_: Its class in the style sheet.
        numbers: Columns that hold numbers and stand at the right.
    """
    right = set(numbers)
    kinds = ["number" if at in right else None for at in range(len(head))]
    headings = (tag("th", name, scope="col", class_=kind) for name, kind in zip(head, kinds, strict=True))
    body = (tag("tr", _cells(row, kinds)) for row in rows)
    return scroll(
        caption,
        tag("table", caption_of(caption), tag("thead", tag("tr", *headings)), tag("tbody", *body), class_=class_),
    )


def caption_of(*texts: str | None) -> Html:
    """The caption of a table, which stays in sight where the table scrolls sideways."""
    return tag("caption", tag("span", *texts))


def scroll(label: str, content: Html, class_: str = "scroll") -> Html:
    """A box that scrolls, by keyboard as well."""
    return tag("div", content, class_=class_, tabindex="0", role="region", aria_label=label)


def unseen(text: str) -> Html:
    """For readers who hear the page."""
    return tag("span", text, class_="unseen")


def identifier(name: str) -> str:
    """A name as part of an address within the page.

    >>> identifier("Figure 2 (a)")
    'figure-2-a'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _cells(row: Sequence[str], kinds: Sequence[str | None]) -> Html:
    first, *rest = row
    cells = (tag("td", text, class_=kind) for text, kind in zip(rest, kinds[1:], strict=True))
    return join(tag("th", first, scope="row", class_=kinds[0]), *cells)


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

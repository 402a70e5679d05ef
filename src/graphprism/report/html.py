"""HTML elements that escape their content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

VOID = {"img", "input", "meta"}


class Html(str):
    """Text that is HTML already; any other text is escaped when it becomes part of a tag."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: str | bool | None) -> Html:
    """An element; children that are None and attributes that are None or False are omitted.

    A trailing underscore of an attribute is dropped, others become hyphens.

    >>> tag("p", "a < b ", tag("b", "&"), class_="sum", data_key="1", hidden=True)
    '<p class="sum" data-key="1" hidden>a &lt; b <b>&amp;</b></p>'
    """
    opening = "".join([name, *(_attribute(key, value) for key, value in attributes.items())])
    return Html(f"<{opening}>" if name in VOID else f"<{opening}>{join(*children)}</{name}>")


def join(*children: str | None) -> Html:
    """Concatenates pieces, each escaped unless it is `Html`."""
    return Html("".join(each if isinstance(each, Html) else escape(each, quote=False) for each in children if each))


def _attribute(key: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(value)}"'


def section(name: str, heading: str, *children: str | None) -> Html:
    """A section of the page with a linkable heading."""
    label = f"{name}-heading"
    return tag("section", tag("h2", heading, id=label), *children, id=name, aria_labelledby=label)


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], class_: str = "plain", numbers: Iterable[int] = ()
) -> Html:
    """A table in a box that scrolls horizontally, so that the page does not.

    Args:
        caption: Caption of the table.
        head: Names of columns.
        rows: Cells; the first one is the row header.
        class_: CSS class.
        numbers: Numeric columns, aligned right.
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
    """The caption of a table, which stays visible when the table scrolls horizontally."""
    return tag("caption", tag("span", *texts))


def scroll(label: str, content: Html, class_: str = "scroll") -> Html:
    """A box that scrolls, also by keyboard."""
    return tag("div", content, class_=class_, tabindex="0", role="region", aria_label=label)


def screen_reader_only(text: str) -> Html:
    """Text that only screen readers present."""
    return tag("span", text, class_="unseen")


def identifier(name: str) -> str:
    """A name as an anchor within the page.

    >>> identifier("Figure 2 (a)")
    'figure-2-a'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _cells(row: Sequence[str], kinds: Sequence[str | None]) -> Html:
    first, *rest = row
    cells = (tag("td", text, class_=kind) for text, kind in zip(rest, kinds[1:], strict=True))
    return join(tag("th", first, scope="row", class_=kinds[0]), *cells)

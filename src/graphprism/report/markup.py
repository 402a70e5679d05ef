"""HTML that cannot be broken by what is put into it."""

from __future__ import annotations

from html import escape

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

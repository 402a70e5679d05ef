"""Figures that were drawn elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from graphprism.report.markup import Html, tag
from graphprism.report.sections import section


def figures(drawings: Mapping[str, str]) -> Html | None:
    """SVG texts by title, as images: a browser runs nothing that is in them. None without any."""
    if not drawings:
        return None
    return section("figures", "Figures", *(_figure(title, svg) for title, svg in drawings.items()))


def _figure(title: str, svg: str) -> Html:
    address = f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
    return tag("figure", tag("img", src=address, alt=title), tag("figcaption", title))

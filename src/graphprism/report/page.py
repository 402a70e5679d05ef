"""One HTML page of all results."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from graphprism.report import assets
from graphprism.report.comparison import comparison
from graphprism.report.curves import curves
from graphprism.report.depth import depth
from graphprism.report.html import Html, identifier, join, section, tag
from graphprism.report.overview import is_published, overview
from graphprism.report.runs import run_list
from graphprism.report.summary import provenance, summary, warnings
from graphprism.report.tables import tables as tables_section
from graphprism.results import RunResult, TableResult, latest


def figures_section(drawings: Mapping[str, str]) -> Html | None:
    """SVG texts by title, as images, in which browsers run no scripts; None without any."""
    if not drawings:
        return None
    return section("figures", "Figures", *(_figure(title, svg) for title, svg in drawings.items()))


def _figure(title: str, svg: str) -> Html:
    address = f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
    return tag("figure", tag("img", src=address, alt=title), tag("figcaption", title))


# Names of sections in the table of contents; tables that the overview links to are left out of it.
PARTS = {
    "comparison": "Plain against split",
    "overview": "At a glance",
    "depth": "Score by depth",
    "figures": "Figures",
    "curves": "Loss curves",
    "runs": "Runs",
    "places": "What was run where",
}
COMMANDS = (
    ("graphprism reproduce --help", "names the tables and figures of the paper; each is one command"),
    ("graphprism train --help", "trains a model on your own data"),
    ("graphprism report", "makes this page again"),
)


def page(
    tables: Sequence[TableResult],
    runs: Sequence[RunResult],
    figures: Mapping[str, str] | None = None,
    title: str = "graphprism report",
) -> str:
    """The self-contained page, a deterministic function of the results.

    Args:
        tables: Tables, in order.
        runs: All runs, in tables or not.
        figures: SVG texts by title.
        title: Heading of the page.
    """
    newest = latest(runs)
    parts = {
        "comparison": comparison(list(newest.values())),
        "overview": overview(tables),
        "tables": tables_section(tables, newest) or None,
        "depth": depth(list(newest.values())),
        "figures": figures_section(figures or {}),
        "curves": curves(list(newest.values())),
        "runs": run_list(runs),
        "places": provenance(runs),
    }
    main = tag("main", *(parts.values() if any(parts.values()) else [_nothing()]))
    header = tag("header", tag("h1", title), summary(tables, runs), warnings(runs), _contents(parts, tables))
    return _document(title, join(header, main))


def _contents(parts: Mapping[str, Html | None], tables: Sequence[TableResult]) -> Html | None:
    names: dict[str, str] = {}
    for part, content in parts.items():  # in the order of the page
        if part == "tables":
            names |= {f"table-{identifier(table.name)}": table.title for table in tables if not is_published(table)}
        elif content:
            names[part] = PARTS[part]
    links = [tag("a", name, href=f"#{part}") for part, name in names.items()]
    return tag("nav", *links, aria_label="Parts of this page") if links else None


def _nothing() -> Html:
    """Commands to start with, if there are no results."""
    commands = [tag("li", tag("code", command), f" {what}") for command, what in COMMANDS]
    lead = tag("p", "The ledger has no runs and there are no tables. To fill this page:")
    return section("nothing", "Nothing has run yet", lead, tag("ul", *commands))


def _document(title: str, body: Html) -> str:
    style, script = assets.style(), assets.script()
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=assets.policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(style)),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', body, tag('script', Html(script))), lang='en')}\n"

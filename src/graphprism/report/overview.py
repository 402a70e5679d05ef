"""One line per table: how many cells match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from graphprism._text import counted, duration
from graphprism.report.html import Html, identifier, join, section, tag
from graphprism.report.html import table as plain_table
from graphprism.report.verdict import Verdict, verdict
from graphprism.results import TableResult

MEANING = {
    Verdict.BETTER: "than the paper by more than its published deviation",
    Verdict.WITHIN: "the published deviation (or equal as printed)",
    Verdict.WORSE: "than the paper by more than its published deviation",
    Verdict.DIFFERS: "from the paper, where neither more nor less is better",
    Verdict.OTHER_PROTOCOL: "than the paper's, such as fewer epochs: the gap says nothing about it",
    Verdict.OURS_ALONE: "because the paper has no such number",
    Verdict.NOT_RUN: "yet, so that the quoted number stands alone",
}


def overview(tables: Sequence[TableResult]) -> Html | None:
    """Counts of verdicts by table with published numbers, with a legend; None without such a table."""
    tables = [table for table in tables if is_published(table)]
    if not tables:
        return None
    counts = {table.name: verdicts(table) for table in tables}
    seen = [kind for kind in Verdict if any(count[kind] for count in counts.values())]
    rows = [_row(table, counts[table.name], seen) for table in tables]
    head = ["Table", "Cells", *(join(kind.sign, tag("span", f" {kind.label}", class_="word")) for kind in seen), "Time"]
    numbers = range(2, len(head))
    caption = "Cells of each table by how our number stands to the published one"
    return section("overview", "At a glance", plain_table(caption, head, rows, "overview", numbers), legend(seen))


def is_published(table: TableResult) -> bool:
    """Whether a table has published numbers."""
    return any(cell.paper is not None for cell in table.cells)


def verdicts(table: TableResult) -> Counter[Verdict]:
    """Number of cells by verdict."""
    return Counter(verdict(cell, table) for cell in table.cells)


def legend(seen: Sequence[Verdict]) -> Html:
    """Legend of the signs and colours in the tables."""
    items = [tag("li", badge(kind), f" {MEANING[kind]}") for kind in seen]
    quoted = tag("li", tag("span", "quoted", class_="word"), " numbers are the paper's, as published")
    best = tag("li", tag("b", "Bold"), " is the best of a pair (a model without and with split edges) or of a column")
    return tag("ul", *items, quoted, best, class_="legend")


def badge(kind: Verdict, text: str = "") -> Html:
    """A verdict as sign, label and colour, with a number where given."""
    return tag("span", f"{kind.sign} {text + ' ' if text else ''}{kind.label}", class_=f"badge {kind.css}")


def _row(table: TableResult, count: Counter[Verdict], seen: Sequence[Verdict]) -> list[str]:
    link = tag("a", table.title, href=f"#table-{identifier(table.name)}")
    seconds = [cell.seconds for cell in table.cells if cell.seconds is not None]
    numbers = [f"{count[kind]:,}" if count[kind] else tag("span", "0", class_="zero") for kind in seen]
    return [link, _bar(count), *numbers, duration(sum(seconds)) if seconds else ""]


def _bar(count: Counter[Verdict]) -> Html:
    """The counts as one bar; the numbers beside it give the same information."""
    total, start, parts = count.total(), 0.0, []
    for kind in Verdict:
        share = 100 * count[kind] / max(total, 1)
        if share:
            parts.append(tag("rect", x=f"{start:.2f}", width=f"{share:.2f}", height="10", class_=f"fill {kind.css}"))
        start += share
    drawing = tag("svg", *parts, viewBox="0 0 100 10", preserveAspectRatio="none", class_="bar", aria_hidden="true")
    return join(drawing, tag("span", counted(total, "cell"), class_="small"))

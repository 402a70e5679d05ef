"""A `CollapseReport` as text and as a rich table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphprism.analysis.collapse._verdict import thresholds

if TYPE_CHECKING:
    from rich.table import Table

    from graphprism.analysis.collapse.collapse_report import CollapseReport

_HEADINGS = {
    "layer": "layer",
    "name": "name",
    "kind": "class",
    "shape": "shape",
    "state": "state",
    "rank_one_distance": "rank-one distance",
    "effective_rank": "effective rank",
    "numerical_rank": "rank",
    "dirichlet_energy": "energy",
    "dirichlet_energy_sym": "energy sym",
    "dirichlet_energy_rw": "energy rw",
    "frobenius_norm": "norm",
    "output_gradient": "output gradient",
    "parameter_gradient": "parameter gradient",
}
# What a narrow terminal does without, in this order.
_DISPENSABLE = (
    "energy",
    "energy rw",
    "class",
    "parameter gradient",
    "shape",
    "rank",
    "energy sym",
    "norm",
    "effective rank",
)


def plain_text(report: CollapseReport) -> str:
    """The whole table, a line per layer, with title and verdict."""
    columns = [[heading, *cells] for heading, cells in _columns(report).items()]
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in zip(*columns, strict=True)
    ]
    return "\n".join([title(report), *lines, *footer(report)])


def rich_table(report: CollapseReport, width: int) -> Table:
    """The columns that fit into ``width`` characters; rows that are not ok in red."""
    from rich import box
    from rich.table import Table

    columns = _narrowed(_columns(report), width)
    table = Table(box=box.SIMPLE_HEAD, title=title(report), title_justify="left", padding=(0, 1))
    for heading in columns:
        table.add_column(heading, justify="left" if heading in ("name", "class", "state") else "right")
    for row, cells in zip(report.rows, zip(*columns.values(), strict=True), strict=True):
        table.add_row(*cells, style=None if row.state == "ok" else "red")
    return table


def title(report: CollapseReport) -> str:
    """Model, number of layers and loss."""
    means = f", means over {report.num_graphs} graphs" if report.num_graphs > 1 else ""
    loss = report.loss_name if report.loss is None else f"{report.loss_name} {report.loss:.4g}"
    return f"{report.model}: {len(report.rows)} layers{means}; {loss}"


def footer(report: CollapseReport) -> list[str]:
    """The verdict and its thresholds."""
    return [f"verdict: {report.verdict}", f"({thresholds()})"]


def _columns(report: CollapseReport) -> dict[str, list[str]]:
    """Cells by heading; columns that say nothing (no loss, no edges) are left out."""
    rows = report.to_dicts()
    cells = {heading: [_cell(row, key) for row in rows] for key, heading in _HEADINGS.items()}
    return {heading: column for heading, column in cells.items() if any(cell != "-" for cell in column)}


def _narrowed(columns: Mapping[str, Sequence[str]], width: int) -> dict[str, Sequence[str]]:
    """Drops columns until the table fits; headings may be broken at spaces."""
    kept = dict(columns)
    for heading in _DISPENSABLE:
        needed = sum(max(map(len, [*name.split(), *cells])) + 3 for name, cells in kept.items())
        if needed + 2 > width:
            kept.pop(heading, None)
    return kept


def _cell(row: Mapping[str, Any], key: str) -> str:
    value = row[key]
    if key == "shape":
        return f"{value[0]} x {value[1]}"
    if key == "state" and value == "ok" and row["zero_graphs"]:
        return f"ok, {row['zero_graphs']} zero"
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.3g}"
    return "-" if value is None else str(value)

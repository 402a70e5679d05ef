"""What `collapse` returns."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from graphprism.analysis.collapse._render_report import footer, plain_text, rich_table
from graphprism.analysis.collapse._verdict import verdict
from graphprism.analysis.collapse.layer_collapse import LayerCollapse

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True)
class CollapseReport:
    """A table by layer of the states and gradients of a model; made by `collapse`.

    Attributes:
        rows: One `LayerCollapse` per call of a convolution, in the order of the calls.
        model: Class of the model.
        num_graphs: Graphs over which the metrics are means; 1 if all nodes were measured as one matrix.
        loss: The value of the loss, or None.
        loss_name: Its name, or why there is none.
    """

    rows: tuple[LayerCollapse, ...]
    model: str
    num_graphs: int
    loss: float | None
    loss_name: str

    @property
    def verdict(self) -> str:
        """What is wrong and from where on, or ``"healthy"``; the thresholds are printed with the table."""
        return verdict(self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One plain dict per row: ready for a data frame."""
        return [asdict(row) for row in self.rows]

    def to_json(self) -> str:
        """Standard JSON: NaN and infinity are written as strings."""
        report = {**asdict(self), "verdict": self.verdict}
        report["rows"] = [{name: _encode(value) for name, value in row.items()} for row in self.to_dicts()]
        report["loss"] = _encode(self.loss)
        return json.dumps(report, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> CollapseReport:
        """Reads what `to_json` wrote."""
        report = json.loads(text)
        rows = tuple(_row(row) for row in report["rows"])
        return cls(rows, report["model"], report["num_graphs"], _decode(report["loss"]), report["loss_name"])

    def plot(self) -> Figure:
        """A matplotlib figure of ranks, norms, energies and gradients by layer; save it with ``.savefig(path)``."""
        from graphprism.analysis.collapse._plot_report import plot_report

        return plot_report(self)

    def __str__(self) -> str:
        """The whole table as plain text."""
        return plain_text(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A table as wide as the terminal allows, for ``rich.print(report)``."""
        yield rich_table(self, options.max_width)
        yield from footer(self)


def _encode(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _decode(value: Any) -> Any:
    return float(value) if value in ("nan", "inf", "-inf") else value


def _row(row: Mapping[str, Any]) -> LayerCollapse:
    texts = {"name": row["name"], "kind": row["kind"], "shape": tuple(row["shape"])}
    return LayerCollapse(**{**{name: _decode(value) for name, value in row.items() if name != "shape"}, **texts})

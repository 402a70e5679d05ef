"""The report of `collapse`: rows, verdict, table, JSON, CSV and plot."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphprism._extras import needs_extra
from graphprism._files import write_whole
from graphprism._text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table


@dataclass(frozen=True)
class LayerCollapse:
    """One row of a `CollapseReport`: the output of one call of one convolution.

    Metrics are means over the graphs of a batch, or values of the whole matrix. They are NaN if undefined.

    Attributes:
        layer: Position among all calls, from 1.
        name: Name of the module inside the model.
        kind: Class of the module.
        shape: Number of nodes and of channels.
        state: ``"ok"``, ``"zero collapse"`` (every entry is zero), ``"not finite"`` (NaN or infinity inside) or
            ``"empty"`` (no entries).
        zero_graphs: Graphs whose states are all zero; they have no rank-one distance and no effective rank.
        possible_rank: The largest rank that the shape allows. If it is 1, a rank of one is no collapse.
        rank_one_distance: See `rank_one_distance`; over graphs of at least two nodes if there are any.
        effective_rank: See `effective_rank`; over the same graphs.
        numerical_rank: See `numerical_rank`.
        dirichlet_energy: See `dirichlet_energy`, unnormalised; all three on the unweighted edges of the data.
        dirichlet_energy_sym: The same, symmetric.
        dirichlet_energy_rw: The same, random walk.
        frobenius_norm: The square root of the sum of squares.
        output_gradient: Norm of the gradient of the loss with respect to this output; None without a loss, or if the
            loss does not depend on it.
        parameter_gradient: Norm of the gradient with respect to the trainable parameters of the module, summed over
            all its calls; None without a loss or without such parameters.
    """

    layer: int
    name: str
    kind: str
    shape: tuple[int, int]
    state: str
    zero_graphs: int
    possible_rank: int
    rank_one_distance: float
    effective_rank: float
    numerical_rank: float
    dirichlet_energy: float
    dirichlet_energy_sym: float
    dirichlet_energy_rw: float
    frobenius_norm: float
    output_gradient: float | None = None
    parameter_gradient: float | None = None


# Rank-one distance under which a layer counts as collapsed to one signal.
RANK_ONE_BELOW = 1e-2
# Share of the first layer's rank-one distance under which the last layer's counts as a warning.
FALLS_BELOW = 0.25
# Share of the largest output gradient under which the gradient of a layer counts as vanished.
GRADIENT_VANISHES_BELOW = 1e-6


def verdict(rows: Sequence[LayerCollapse]) -> str:
    """The diagnosis of the model as text. Layers that can only have rank one are not judged by rank.

    Where that holds for all of them, the text says so: they are not healthy by a measurement.
    """
    ranked = [row for row in rows if row.state == "ok" and row.possible_rank > 1]
    findings = [
        _forward("not finite", rows, lambda row: row.state == "not finite"),
        _forward("zero collapse", rows, lambda row: row.state == "zero collapse"),
        _forward("rank collapse", ranked, lambda row: row.rank_one_distance < RANK_ONE_BELOW) or _falling(ranked),
        _backward(rows),
        "" if ranked else _not_judged(rows),
    ]
    return "; ".join(filter(None, findings)) or "healthy"


def thresholds() -> str:
    """The numbers behind the verdict, as a sentence."""
    return (
        f"rank collapse: rank-one distance below {RANK_ONE_BELOW:g}, "
        f"on the way to it: below {FALLS_BELOW:g} of the first; "
        f"vanishing: output gradient below {GRADIENT_VANISHES_BELOW:g} of the largest"
    )


def _forward(what: str, rows: Sequence[LayerCollapse], bad: Callable[[LayerCollapse], bool]) -> str:
    """The first layer from which on all layers are bad, else the number of bad layers, as text."""
    to_the_end = list(takewhile(bad, reversed(rows)))
    if to_the_end:
        return f"{what} from layer {to_the_end[-1].layer} ({to_the_end[-1].name}) on"
    count = sum(map(bad, rows))
    return f"{what} at {count} of {len(rows)} layers, not at the last" if count else ""


def _falling(ranked: Sequence[LayerCollapse]) -> str:
    """A warning if the last layer is much closer to rank one than the first."""
    if not ranked or not ranked[-1].rank_one_distance < FALLS_BELOW * ranked[0].rank_one_distance:
        return ""
    first, last = ranked[0].rank_one_distance, ranked[-1].rank_one_distance
    return f"on the way to rank collapse: the rank-one distance falls from {first:.2g} to {last:.2g}"


def _backward(rows: Sequence[LayerCollapse]) -> str:
    """The layer before which all gradients vanish, else the number of vanishing gradients, as text."""
    norms = [(row, row.output_gradient) for row in rows if row.output_gradient is not None]
    broken = sum(not math.isfinite(norm) for _, norm in norms)
    if broken:
        return f"gradients are not finite at {broken} of {len(norms)} layers"
    largest = max((norm for _, norm in norms), default=math.nan)
    if largest == 0:
        return "gradients are zero at every layer"
    vanished = [norm < GRADIENT_VANISHES_BELOW * largest for _, norm in norms]
    if not any(vanished):
        return ""
    first_seen = vanished.index(False)
    if first_seen == 0:
        return f"gradients vanish at {sum(vanished)} of {len(norms)} layers, not at the first"
    return f"gradients vanish before layer {norms[first_seen][0].layer} ({norms[first_seen][0].name})"


def _not_judged(rows: Sequence[LayerCollapse]) -> str:
    """What a rank needs and what came, if there are finite states that are not zero."""
    row = next((row for row in rows if row.state in ("ok", "empty")), None)
    if row is None:
        return ""
    nodes, channels = row.shape
    came = f"{counted(nodes, 'node')} and {counted(channels, 'channel')}"
    if nodes > 1 and channels > 1:
        came = "graphs of one node each; `whole=True` measures all nodes as one matrix"
    return f"not judged: a collapse can be seen with at least 2 nodes and 2 channels, got {came}"


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
# Columns dropped on a narrow terminal, in this order.
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
    with needs_extra("a coloured table"):
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
    """The verdict, its thresholds and the notices."""
    return [f"verdict: {report.verdict}", f"({thresholds()})", *report.notices]


def _columns(report: CollapseReport) -> dict[str, list[str]]:
    """Cells by heading, without empty columns (no loss, no edges)."""
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


@dataclass(frozen=True)
class CollapseReport:
    """A table by layer of the states and gradients of a model; made by `collapse`.

    Attributes:
        rows: One `LayerCollapse` per call of a convolution, in the order of the calls.
        model: Class of the model.
        num_graphs: Graphs over which the metrics are means; 1 if all nodes were measured as one matrix.
        loss: The value of the loss, or None.
        loss_name: Its name, or why there is none.
        notices: Sentences about the model that the verdict depends on.
    """

    rows: tuple[LayerCollapse, ...]
    model: str
    num_graphs: int
    loss: float | None
    loss_name: str
    notices: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The kind of collapse and its first layer, or ``"healthy"``; the thresholds are printed with the table.

        It starts with ``"not judged"`` where no layer's states can have a rank above one, as those of a single node.
        """
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
        """Inverse of `to_json`."""
        report = json.loads(text)
        rows = tuple(_row(row) for row in report["rows"])
        loss, notices = _decode(report["loss"]), tuple(report.get("notices", ()))
        return cls(rows, report["model"], report["num_graphs"], loss, report["loss_name"], notices)

    def plot(self) -> Figure:
        """A matplotlib figure of ranks, norms, energies and gradients by layer; save it with ``.savefig(path)``."""
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


_METRICS = [field.name for field in fields(LayerCollapse) if field.name != "shape"]
_HEADER = ["step", "loss", "nodes", "channels", *_METRICS]


class CollapseCSV:
    """Appends one line per layer and step to a file, all lines of a step in one write.

    An interrupted run leaves at most one incomplete last line. A run resumed at ``first_step`` removes it, and all
    lines of that step and later. A run that starts at step 0 never overwrites the file of another run.
    """

    def __init__(self, path: str | os.PathLike[str], first_step: int) -> None:
        self.path = Path(path)
        kept = self._lines_before(first_step) if self.path.exists() else []
        write_whole(self.path, _text([_HEADER]) + "".join(kept), "the collapse of layers")

    def append(self, step: int, report: CollapseReport) -> None:
        """Writes the rows of one report."""
        lines = [[step, report.loss, *row.shape, *(getattr(row, name) for name in _METRICS)] for row in report.rows]
        with self.path.open("ab", buffering=0) as file:
            file.write(_text(lines).encode())

    def _lines_before(self, first_step: int) -> list[str]:
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        header, *rest = [line for line in lines if line.endswith("\n")] or [""]
        if header != _text([_HEADER]) and lines:
            raise ValueError(f"`csv` must be a file of a CollapseMonitor, got {self.path} with other columns")
        if rest and first_step == 0:
            raise FileExistsError(f"`csv` must be new for a run from step 0, got {self.path}: pass first_step to go on")
        return [line for line in rest if int(line.split(",", 1)[0]) < first_step]


def _text(lines: Iterable[Iterable[object]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()


_COLOURS = ("#2a6fbb", "#d1495b", "#3a9d6e")
_PANELS: Mapping[str, Mapping[str, str]] = {
    "rank-one distance": {"rank_one_distance": ""},
    "rank": {"effective_rank": "effective", "numerical_rank": "numerical"},
    "size and Dirichlet energy": {"frobenius_norm": "Frobenius norm", "dirichlet_energy_sym": "energy, symmetric"},
    "gradient norm": {"output_gradient": "of the output", "parameter_gradient": "of the parameters"},
}


def plot_report(report: CollapseReport) -> Figure:
    """Four panels over the layers; made without pyplot, so that no global figure stays open."""
    with needs_extra("a picture"):
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    figure = Figure(figsize=(9.5, 6.2), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    for axis, (title, lines) in zip(axes.flat, _PANELS.items(), strict=True):
        _panel(axis, report, title, lines)
    axes[0, 0].axhline(RANK_ONE_BELOW, color="0.5", linewidth=1, linestyle=":")
    for axis in axes[1]:
        axis.set_xlabel("layer")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.suptitle(f"{report.model}: {report.verdict}", fontsize=11, x=0.01, ha="left")
    return figure


def _panel(axis: Axes, report: CollapseReport, title: str, lines: Mapping[str, str]) -> None:
    axis.set_title(title, loc="left", fontsize=10)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    layers, rows = [row.layer for row in report.rows], report.to_dicts()
    drawn: list[float] = []
    for (key, label), colour in zip(lines.items(), _COLOURS, strict=False):
        values = [math.nan if row[key] is None else row[key] for row in rows]
        marker = "o" if len(rows) <= 40 else None
        axis.plot(layers, values, color=colour, marker=marker, markersize=3.5, linewidth=1.6, label=label)
        drawn += [value for value in values if math.isfinite(value)]
    _scale(axis, drawn, linear=title == "rank")
    if len(lines) > 1 and drawn:
        axis.legend(frameon=False, fontsize=8)


def _scale(axis: Axes, values: Sequence[float], linear: bool) -> None:
    """A logarithmic axis if any value is positive; labels an empty panel."""
    if not values:
        axis.text(0.5, 0.5, "none", transform=axis.transAxes, ha="center", va="center", color="0.5")
        axis.set_yticks([])
    elif linear:
        axis.set_ylim(bottom=0)
    elif max(values) > 0:
        axis.set_yscale("log")

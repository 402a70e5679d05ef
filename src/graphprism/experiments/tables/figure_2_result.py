"""Specification, result and plot of Figure 2."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphprism._checks import check_choice, check_positive
from graphprism._extras import needs_extra
from graphprism.analysis.collapse.rank import CHOSEN_BY
from graphprism.nn import CONVOLUTIONS
from graphprism.plotting import COLOURS, new_figure
from graphprism.results import Cell, CellStatus, Score, TableResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Group
    from rich.table import Table

_NORMS = {
    "l2": "length, as the text says; the authors' script takes the largest sum of magnitudes (--chosen-by l1)",
    "l1": "sum of magnitudes, as in the authors' script; the text says length (--chosen-by l2)",
}
_SAGE = "The matrices of MRS-SAGE start with Glorot's distribution, as the authors' do; those of SAGE as PyG's."
# Quantiles of the seeds at the ends of the band.
LOW, HIGH = 0.1, 0.9


@dataclass(frozen=True, eq=False)
class Figure2Result:
    """Rank-one distances of all runs, with the settings that made them.

    Attributes:
        spec: The settings.
        distances: For each model (S, L) in float64: seeds by iterations. NaN where the state was all zeros, which
            counts as zero collapse, not as a distance.
        graph_numbers: Index of each seed's graph in its source.
        versions: Versions of the packages used.
    """

    spec: Figure2Spec
    distances: dict[str, Tensor]
    graph_numbers: tuple[int, ...]
    versions: dict[str, str]

    def mean(self, model: str) -> Tensor:
        """Mean over the seeds that have not collapsed to zero, (L,); NaN where all have."""
        return self.distances[model].nanmean(dim=0)

    def median(self, model: str) -> Tensor:
        """Median of those seeds, (L,): distances are skewed, and their mean leaves the band of 10 to 90 %."""
        return self.quantile(model, 0.5)

    def quantile(self, model: str, share: float) -> Tensor:
        """Quantile ``share`` of the distances of those seeds, (L,)."""
        return self.distances[model].nanquantile(share, dim=0)

    def zero_collapse(self, model: str) -> Tensor:
        """Number of seeds whose state is all zeros, (L,)."""
        return self.distances[model].isnan().sum(dim=0)

    def table(self) -> TableResult:
        """Medians at depths 1, 2, 4, ... and the last."""
        shown, spec, cells = depths(self.spec.layers), self.spec, []
        for model in self.distances:
            medians, zeros = self.median(model).tolist(), self.zero_collapse(model).tolist()
            for depth in shown:
                median, left = medians[depth - 1], spec.seeds - zeros[depth - 1]
                ours = None if math.isnan(median) else Score(median, None, left)
                cells.append(Cell(model.upper(), str(depth), ours, status=CellStatus.MEASURED))
        ended = {model: int(self.zero_collapse(model)[-1]) for model in self.distances}
        left_out = ", ".join(f"{model.upper()} {count}" for model, count in ended.items() if count)
        return TableResult(
            name=f"figure-2-{spec.graphs}",
            title=f"Rank-one distance by number of layers with random weights, {_GRAPHS[spec.graphs]}",
            source="Figure 2; its numbers are not printed",
            rows=tuple(model.upper() for model in self.distances),
            columns=tuple(map(str, shown)),
            cells=tuple(cells),
            larger_is_better=None,
            notes=(
                f"Medians of {spec.seeds} seeds, {spec.channels} channels, split by {spec.split}; 0 is one signal, and "
                "below 1e-13 is rounding.",
                f"Seeds whose states end as zeros, left out of the median: {left_out or 'none'}.",
                f"Row and column of the distance are those of largest {_NORMS[spec.chosen_by]}.",
                *[_SAGE] * ("mrs-sage" in self.distances),
            ),
        )

    def to_json(self) -> str:
        """All numbers as JSON text, with their summary; `from_json` reads it back."""
        fields = {
            "spec": asdict(self.spec),
            "versions": self.versions,
            "seeds": list(range(self.spec.seeds)),
            "graph_numbers": list(self.graph_numbers),
            "summary": {model: self._summary(model) for model in self.distances},
            "distances": {model: _nulls(values.tolist()) for model, values in self.distances.items()},
        }
        return json.dumps(fields, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Figure2Result:
        """Reads `to_json` back."""
        fields = json.loads(text)
        spec = Figure2Spec(**{**fields["spec"], "models": tuple(fields["spec"]["models"])})
        distances = {model: _nans(rows) for model, rows in fields["distances"].items()}
        return cls(spec, distances, tuple(fields["graph_numbers"]), fields["versions"])

    def __rich__(self) -> Group:
        """Table of medians at depths 1, 2, 4, ... and the last, and the number of runs left out of them."""
        with needs_extra("a coloured table"):
            from rich.console import Group

        spec = self.spec
        title = f"Median rank-one distance by depth: {spec.seeds} seeds, {spec.graphs}, split by {spec.split}"
        zeros = {model: int(self.zero_collapse(model)[-1]) for model in self.distances}
        left_out = [f"{model.upper()} {count} of {spec.seeds}" for model, count in zeros.items() if count]
        note = [f"zero collapse, left out of the median: {', '.join(left_out)}"] if left_out else []
        chosen = f"0 is one signal. Row and column of the distance are those of largest {_NORMS[spec.chosen_by]}."
        return Group(title, self._table(), *note, chosen, *[_SAGE] * ("mrs-sage" in self.distances))

    def _table(self) -> Table:
        with needs_extra("a coloured table"):
            from rich.table import Table

        shown = depths(self.spec.layers)
        table = Table(box=None, padding=(0, 2, 0, 0))  # ten models fit into 80 columns
        table.add_column("layers", no_wrap=True)
        for depth in shown:
            table.add_column(str(depth), justify="right", no_wrap=True)
        for model in self.distances:
            medians = self.median(model).tolist()
            table.add_row(model.upper(), *(_cell(medians[depth - 1]) for depth in shown))
        return table

    def _summary(self, model: str) -> dict[str, Any]:
        return {
            "mean": _nulls(self.mean(model).tolist()),
            "median": _nulls(self.median(model).tolist()),
            "quantile_10": _nulls(self.quantile(model, LOW).tolist()),
            "quantile_90": _nulls(self.quantile(model, HIGH).tolist()),
            "zero_collapse": self.zero_collapse(model).tolist(),
        }


def depths(layers: int) -> list[int]:
    """1, 2, 4, ... and the last one.

    >>> depths(20)
    [1, 2, 4, 8, 16, 20]
    """
    return sorted({2**power for power in range(layers.bit_length())} | {layers})


def _cell(value: float) -> str:
    return "all zero" if math.isnan(value) else f"{value:.2g}"


def _nulls(values: Any) -> Any:
    """NaN as None, for JSON."""
    if isinstance(values, list):
        return [_nulls(value) for value in values]
    return None if math.isnan(values) else values


def _nans(rows: list[list[float | None]]) -> Tensor:
    filled = [[math.nan if value is None else value for value in row] for row in rows]
    return torch.tensor(filled, dtype=torch.float64)


GRAPHS = ("zinc", "molecules", "cora")


@dataclass(frozen=True)
class Figure2Spec:
    """Settings of the experiment; the defaults are the paper's.

    A linear map takes the features to ``channels``; then every iteration is one message-passing step with fresh weights
    and ReLU, after which the rank-one distance is measured. Layers are initialised as in the tables, with biases.

    Attributes:
        models: Names of `graphprism.nn.models.CONVOLUTIONS`.
        graphs: "zinc" (one random molecule per seed), "molecules" (the same with generated molecules), or "cora" (its
            largest connected component for all seeds).
        seeds: Number of seeds.
        layers: Number of iterations.
        channels: Width of the states.
        split: Split of the MRS models.
        chosen_by: Norm by which the distance chooses its row and column: "l2" as in the text, or "l1" as in the
            authors' script; see `graphprism.analysis.rank_one_distance`.
        source: Sections of the paper.
    """

    models: tuple[str, ...] = ("gcn", "mrs-gcn", "sage", "mrs-sage")
    graphs: str = "zinc"
    seeds: int = 50
    layers: int = 128
    channels: int = 16
    split: str = "degree"
    chosen_by: str = "l2"
    source: str = "Figure 2; section 'More Informative Node Representations' and appendix 'Preventing Rank Collapse'"

    def __post_init__(self) -> None:
        for name in ("seeds", "layers", "channels"):
            check_positive(name, getattr(self, name))
        check_choice("graphs", self.graphs, GRAPHS)
        check_choice("chosen_by", self.chosen_by, CHOSEN_BY)
        if not self.models or len(set(self.models)) != len(self.models):
            raise ValueError(f"`models` must name at least one model and none twice, got {list(self.models)}")


FIGURE_2 = Figure2Spec()


_GRAPHS = {"zinc": "ZINC", "molecules": "built-in molecules", "cora": "Cora's largest component"}
# The distance of a rank-one state is about this, by rounding.
_ROUNDING = 1e-16
# Smaller distances are rounding errors.
_EXACT = 1e-13


def plot_figure_2(result: Figure2Result) -> Figure:
    """Median and 10-90 % band over seeds on a logarithmic axis; a model and its MRS form share a colour."""
    figure = new_figure(7.5, 4.4)
    axes = figure.subplots()
    for model in result.distances:
        _curve(axes, result, model)
    axes.set(yscale="log", xlim=(1, max(result.spec.layers, 2)), xlabel="iteration", ylabel="rank-one distance")
    bottom = axes.get_ylim()[0]
    axes.set_ylim(max(bottom, _ROUNDING), 3)
    if bottom < _EXACT:
        axes.axhspan(_ROUNDING, _EXACT, color="0.93", zorder=0)
        # beside the axes, where no curve is
        axes.text(1.02, 0.01, "grey: below 1e-13\nis rounding", transform=axes.transAxes, fontsize=7, color="0.45")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3, linewidth=0.6)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    _titles(axes, result)
    return figure


def _titles(axes: Axes, result: Figure2Result) -> None:
    spec = result.spec
    axes.set_title("How far node states are from one signal", loc="left", fontsize=12, pad=20)
    data = f"{_GRAPHS[spec.graphs]}, {spec.channels} channels, split by {spec.split}"
    note = f"{data}; median and 10-90 % of {spec.seeds} seeds"
    zeros = sum(int(result.zero_collapse(model)[-1]) for model in result.distances)
    note += f"; {zeros} of {len(result.distances) * spec.seeds} runs ended in zeros" if zeros else ""
    axes.text(0, 1.025, note, transform=axes.transAxes, fontsize=8, color="0.35")


def _family(model: str) -> str:
    """The plain convolution of a model."""
    return (CONVOLUTIONS[model].partner or model) if CONVOLUTIONS[model].relational else model


def _curve(axes: Axes, result: Figure2Result, model: str) -> None:
    depth = range(1, result.spec.layers + 1)
    families = list(dict.fromkeys(_family(name) for name in result.distances))
    colour = COLOURS[families.index(_family(model)) % len(COLOURS)]
    style = "-" if CONVOLUTIONS[model].relational else "--"
    low, high = (result.quantile(model, share).clamp(min=_ROUNDING).tolist() for share in (LOW, HIGH))
    axes.fill_between(depth, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(depth, result.median(model).tolist(), style, color=colour, linewidth=2, label=model.upper())

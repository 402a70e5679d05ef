"""Remedies against collapse side by side: does a deep network train, and what is left of its states?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphprism.analysis.collapse import effective_rank, rank_one_distance
from graphprism.datasets import DATASETS, PackedDataset, load
from graphprism.experiments.experiment import Option, TrainedTable, TrainingJob
from graphprism.experiments.runner import Trainer
from graphprism.experiments.spec import CellSpec, OnEpoch, TableSpec
from graphprism.experiments.tables.directed import FOLDS
from graphprism.plotting import new_figure
from graphprism.results import RunResult, TableResult
from graphprism.training import Run, Task, load_best
from graphprism.training.node_data import NodeData
from graphprism.training.prepared_data import PreparedDataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LAYERS = (2, 8, 32, 128)
_RESIDUAL = {"residual": True, "norm": "batch"}
# Rows and the fields in which their runs differ from plain GCN.
_ROWS: dict[str, dict[str, Any]] = {
    "none": {},
    "residual": {"residual": True},
    "residual + BN": _RESIDUAL,
    "GCNII": {"remedy": "gcnii"},
    "PairNorm": {"remedy": "pairnorm"},
    "DropEdge": {"remedy": "dropedge"},
    "JK": {"jk": "cat"},
    "FAGCN": {"remedy": "fagcn"},
    "A-DGN": {"remedy": "a-dgn"},
    "G2": {"remedy": "g2"},
    "LMGC": {"model": "lmgc"},
    "MRS": {"model": "mrs-gcn"},
    "MRS + residual + BN": {"model": "mrs-gcn", **_RESIDUAL},
    "MRS + G2": {"model": "mrs-gcn", "remedy": "g2"},
}
# Columns and their readings.
COLUMNS = {
    "score": "test",
    "train": "train-score",
    "effective rank": "effective-rank",
    "rank-one distance": "rank-one-distance",
    "log10 gradient, last layer": "gradient-last",
    "log10 gradient, encoding": "gradient-first",
}
_ON_GRAPHS = Run("zinc12k", "gcn", batch_size=128, epochs=80, lr=1e-3)
# The recipe of PyG's example on Cora with less dropout and no weight decay, both of which keep a deep plain GCN from
# training. With 8 layers of 64 channels its test accuracy after 120 epochs is 62.5; with dropout 0.5 it is 50.8, also
# with a weight decay of 0.00005 49.1, and with one of 0.0005 chance.
_ON_NODES = Run(
    "cora",
    "gcn",
    encode=True,
    dropout=0.2,
    input_dropout=True,
    optimizer="adam",
    lr=0.01,
    clip=0.0,
    schedule="constant",
    warmup=0,
    batch_size=None,
    epochs=200,
    undirected=True,
    self_loops=True,
    row_normalise=True,
)
_RATES = {"graph": (1e-3, 3e-4), "node": (0.01, 0.003, 0.001)}
# Number of graphs whose states are measured.
_MEASURED_GRAPHS = 256


def remedies_spec(dataset: str, level: str) -> TableSpec:
    """The table on a data set with graph or node targets.

    Args:
        dataset: Name for `graphprism.datasets.load`.
        level: ``"graph"`` or ``"node"``.
    """
    base = replace(_ON_GRAPHS if level == "graph" else _ON_NODES, dataset=dataset)
    runs = {
        f"{row} {layers}": replace(base, layers=layers, **changes)
        for row, changes in _ROWS.items()
        for layers in LAYERS
    }
    grid = {"lr": _RATES[level]}
    cells = [
        CellSpec(row, column, best=run, grid=grid, reading=reading)
        for row, run in runs.items()
        for column, reading in COLUMNS.items()
    ]
    where = "nodes of the graph" if level == "node" else f"nodes of each of {_MEASURED_GRAPHS} validation graphs, mean"
    return TableSpec(
        name=f"remedies-{dataset}",
        title=f"Remedies against collapse by number of layers, {dataset}",
        source="nothing is published for it: remedies of several authors under one recipe",
        cells=tuple(cells),
        larger_is_better=None,
        digits=3,
        seeds=3,
        notes=(
            "Every row is GCN of the same number of parameters, 500,000 at most, between a linear encoder and a linear "
            "head, with one change; FAGCN, whose layers have no matrices, has the width of GCN.",
            f"Ranks, distances and gradients are of the best weights by validation, without dropout: states of all "
            f"{where}; gradients are of the mean loss of the same graphs, or of the training nodes.",
            "Gradients are decimal logarithms of norms: that of the last layer with respect to its states, that of the "
            "encoding with respect to what the first layer gets.",
            "G2 has matrices of its own in every layer; its authors share one pair among all.",
        ),
        folds=FOLDS if dataset in FOLDS else {},
    )


def measure_states(network: torch.nn.Module, run: Run, dataset: PackedDataset) -> dict[str, float]:
    """Ranks, distances and gradient norms of the states after the last layer.

    Args:
        network: A trained network with an encoder and a head.
        run: Its run.
        dataset: Its data.

    Returns:
        ``effective_rank``, ``rank_one_distance``, ``gradient_last`` and ``gradient_first``; NaN where there is none.
    """
    inputs, loss_of, owner = _probe(run, dataset)
    seen: list[Tensor] = []
    joined: Any = network.head if dataset.level == "node" else network.readout
    encoder: Any = network.encoder
    handles = [
        encoder.register_forward_hook(lambda module, args, output: seen.append(output)),
        joined.register_forward_pre_hook(lambda module, args: seen.append(args[0])),
    ]
    try:
        loss = loss_of(network.eval()(**inputs))
    finally:
        for handle in handles:
            handle.remove()
    first, last = seen
    width = first.size(-1)  # with jumping knowledge the last columns are the last layer
    gradients = torch.autograd.grad(loss, [first, last], allow_unused=True)
    norms = [math.nan if each is None else float(each[:, -width:].double().norm()) for each in gradients]
    state = last.detach()[:, -width:]
    return {
        "effective_rank": _mean(effective_rank(state, owner)),
        "rank_one_distance": _mean(rank_one_distance(state, owner)),
        "gradient_last": norms[1],
        "gradient_first": norms[0],
    }


def _mean(values: Tensor) -> float:
    return float(values.nanmean())


def _probe(run: Run, dataset: PackedDataset) -> tuple[dict[str, Any], Any, Tensor | None]:
    """Inputs of the network, the mean loss of its outputs, and the graph of every node."""
    if dataset.level == "node":
        data = NodeData.prepare(run, dataset, torch.device("cpu"))
        chosen = data.masks[0, :, run.fold]

        def loss(out: Tensor) -> Tensor:
            return torch.nn.functional.cross_entropy(out[chosen], data.y[chosen])

        return {"x": data.x, "edge_index": data.adj}, loss, None
    prepared, task = PreparedDataset(run, dataset), Task.of(dataset)
    graphs = prepared.subset("val")[:_MEASURED_GRAPHS]
    (batch,) = prepared.batches(graphs, graphs.numel())
    return batch.inputs, lambda out: task.losses(out, batch.y).mean(), batch.owner


@dataclass(frozen=True)
class MeasuringTrainer:
    """A `Trainer` that measures the states of every network after training.

    Attributes:
        inner: The trainer that it wraps.
    """

    inner: Trainer

    @property
    def engine(self) -> str:
        """Engine of the inner trainer."""
        return self.inner.engine

    def groups(self, runs: Sequence[Run]) -> list[list[Run]]:
        """Groups of the inner trainer."""
        return self.inner.groups(runs)

    def train(self, runs: Sequence[Run], dataset: PackedDataset, folder: Path, on_epoch: OnEpoch) -> list[RunResult]:
        """Results with the numbers of `measure_states` in ``extra``."""
        results = self.inner.train(runs, dataset, folder, on_epoch)
        return [_measured(run, result, dataset, folder) for run, result in zip(runs, results, strict=True)]


def _measured(run: Run, result: RunResult, dataset: PackedDataset, folder: Path) -> RunResult:
    if result.best_epoch is None:
        return result
    return replace(result, extra={**result.extra, **measure_states(load_best(folder, run, dataset), run, dataset)})


@dataclass(frozen=True)
class RemediesTable:
    """The `Experiment` of this file: a `TrainedTable` for the chosen data set."""

    name: str = "remedies"
    help: str = "Remedies against collapse under one recipe: score, rank and gradient by number of layers."

    @property
    def trained(self) -> tuple[TrainedTable, ...]:
        """The tables of the data sets whose results are stored with the package's benchmarks."""
        return tuple(_trained(name, DATASETS[name].level) for name in ("zinc12k", "cora"))

    @property
    def options(self) -> tuple[Option, ...]:
        """The data set, and the options of every trained table."""
        dataset = Option("dataset", str, "zinc12k", "A data set by name, such as zinc12k or cora.")
        return (dataset, *TrainedTable(remedies_spec("zinc12k", "graph")).options)

    def prepare(self, options: Mapping[str, Any], data: Path | None, out: Path, dry_run: bool = False) -> TrainingJob:
        """Plans the runs on the data set."""
        dataset = options["dataset"]
        level = DATASETS[dataset].level if dataset in DATASETS else load(dataset, data).level
        rest = {name: value for name, value in options.items() if name != "dataset"}
        return _trained(dataset, level).prepare(rest, data, out, dry_run)


def _trained(dataset: str, level: str) -> TrainedTable:
    return TrainedTable(remedies_spec(dataset, level), draw=plot_remedies, wrap=MeasuringTrainer)


_PANELS = ("score", "effective rank", "rank-one distance", "log10 gradient, last layer")


def plot_remedies(table: TableResult, results: Mapping[str, RunResult]) -> Figure:
    """Four panels over the number of layers, a line per remedy; those with a split are black.

    Args:
        table: Table with a row per remedy and number of layers.
        results: Not used.
    """
    figure = new_figure(11, 7.2)
    panels = figure.subplots(2, 2, sharex=True)
    names = list(dict.fromkeys(row.rpartition(" ")[0] for row in table.rows if row.rpartition(" ")[2].isdigit()))
    for axes, column in zip(panels.flat, _PANELS, strict=True):
        for number, name in enumerate(names):
            _line(axes, table, name, column, number)
        axes.set(title=f"test {column}" if column == "score" else column)
        _scale(axes, column)
        axes.set_xscale("log", base=2)
        axes.set_xticks(LAYERS, [str(layers) for layers in LAYERS])
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25, linewidth=0.5)
    for axes in panels[1]:
        axes.set_xlabel("layers")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, frameon=False, loc="outside right center")
    cells = [table.cell(f"{name} {layers}", "score") for name in names for layers in LAYERS]
    ends = any(cell is not None and cell.ours is None for cell in cells)
    why = "; a line ends where runs diverge or are missing" if ends and handles else ""
    figure.suptitle(f"{table.title}{why}", x=0.01, ha="left", fontsize=12)
    return figure


def _scale(axes: Axes, column: str) -> None:
    """An axis of the values that say something, and in the title how many lie outside of it.

    Errors of networks that exploded are left out, and distances that are nothing but rounding. Ranks and distances that
    span more than a factor of ten get a logarithmic axis, other ones start at zero.
    """
    lines: Any = axes.lines
    found = [float(value) for line in lines for value in line.get_ydata()]
    if column not in ("score", "effective rank", "rank-one distance") or not found:
        return
    low, high = (-math.inf, 10 * abs(median(found))) if column == "score" else (1e-4 * max(found), math.inf)
    values = [value for value in found if low <= value <= high]
    if outside := len(found) - len(values):
        axes.set_title(f"{axes.get_title()} ({outside} outside)")
    if column == "score":
        if outside:
            margin = 0.05 * (max(values) - min(values))
            axes.set_ylim(min(values) - margin, max(values) + margin)
        return
    if max(values) < 10 * min(values) or min(values) <= 0:
        axes.set_ylim(bottom=0)
        return
    axes.set_yscale("log")
    axes.set_ylim(0.8 * min(values), 1.25 * max(values))
    powers = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))))
    ticks = [each * 10.0**power for power in powers for each in (1, 3)]
    ticks = [tick for tick in (*ticks, 10.0**powers.stop) if min(values) <= tick <= 1.1 * max(values)]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


# Fourteen lines need more colours than other figures: Tol's muted scheme, safe for colour blindness.
_COLOURS = (
    *("#555555", "#cc6677", "#ddcc77", "#117733", "#88ccee", "#882255"),
    *("#44aa99", "#ee7733", "#332288", "#999933", "#aa4499"),
)
_MARKERS = "osD^v<>PX*hpd8"


def _line(axes: Axes, table: TableResult, name: str, column: str, number: int) -> None:
    found = [(layers, table.cell(f"{name} {layers}", column)) for layers in LAYERS]
    points = [(layers, cell.ours.mean) for layers, cell in found if cell is not None and cell.ours is not None]
    split = name.startswith("MRS")
    axes.plot(
        [layers for layers, _ in points],
        [mean for _, mean in points],
        ":" if name == "none" else "-" if not split else "--" if "residual" in name else "-." if "G2" in name else "-",
        label=name,
        color="black" if split else _COLOURS[number % len(_COLOURS)],
        marker=_MARKERS[number % len(_MARKERS)],
        linewidth=2.4 if split else 1.4,
        markersize=6 if split else 4,
    )


REMEDIES_TABLE = RemediesTable()

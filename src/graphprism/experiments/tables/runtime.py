"""Milliseconds of the five steps of a layer."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from graphprism._checks import check_positive
from graphprism.datasets import PackedDataset
from graphprism.experiments.experiment import Measured, Option
from graphprism.experiments.find_graph import zinc_or_molecules
from graphprism.ops import RelationalAdj, edge_norm, relational_sum, relational_transform
from graphprism.results import Cell, Score, TableResult
from graphprism.splitting import Graph, by_order, order_values
from graphprism.training import Run, fit_width
from graphprism.training.build_model import parameters_of


@dataclass(frozen=True)
class RuntimeRow:
    """One row: its ordering (None for no split) and the published times of the five steps."""

    row: str
    ordering: str | None
    published: tuple[float | None, float | None, float | None, float | None, float | None]


STEPS = ("Normalise", "Order", "Split", "Transform", "Aggregate")
RUNTIME = (
    RuntimeRow("GCN", None, (0.129, None, None, 0.044, 0.091)),
    RuntimeRow("MRS-GCN (random)", "random", (0.130, 0.019, 0.249, 0.051, 0.097)),
    RuntimeRow("MRS-GCN (features)", "features", (0.131, 0.022, 0.268, 0.054, 0.106)),
    RuntimeRow("MRS-GCN (PPR)", "ppr", (0.128, 1.150, 0.212, 0.055, 0.092)),
    RuntimeRow("MRS-GCN (degree)", "degree", (0.128, 0.042, 0.261, 0.055, 0.104)),
)
RUNTIME_SOURCE = "tab:runtime (appendix), on an H100"


_GRAPHS, _WARM_UP = 32, 10
# Steps that run once per data set, before training.
_BEFORE = (
    "Normalise, order and split are computed once, before training, not in every step as the published times count."
)


def runtime_steps(repeats: int, data: Path | None = None) -> list[str]:
    """Titles of the rows; raises for invalid options."""
    check_positive("repeats", repeats)
    return [row.row for row in RUNTIME]


def runtime_table(
    data: Path | None = None, repeats: int = 100, on_step: Callable[[str], None] = lambda row: None
) -> TableResult:
    """Median time in milliseconds of each step on a batch of 32 molecules, on this machine's best device.

    Args:
        data: Folder of data sets; generated molecules replace ZINC12k if it is missing.
        repeats: Number of timings of each step, after a warm-up.
        on_step: Called with each finished row.
    """
    runtime_steps(repeats=repeats)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = zinc_or_molecules(data)
    cells: list[Cell] = []
    for row in RUNTIME:
        steps = steps_of(row, dataset, device)
        times = [None if step is None else _median_ms(step, repeats, device) for step in steps]
        cells += _cells(row, times, repeats)
        on_step(row.row)
    where = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    return TableResult(
        name="runtime",
        title=f"Milliseconds of each step on a batch of {_GRAPHS} molecules",
        source=RUNTIME_SOURCE,
        rows=tuple(row.row for row in RUNTIME),
        columns=STEPS,
        cells=tuple(cells),
        unit="ms",
        notes=(f"Median of {repeats} on {where}; graphs of {dataset.name}.", _BEFORE),
    )


@torch.no_grad()
def steps_of(row: RuntimeRow, dataset: PackedDataset, device: torch.device) -> list[Callable[[], Tensor] | None]:
    """The five steps as functions, at the width of eight layers and 500,000 parameters; None for absent steps."""
    batch = dataset.batch(dataset.subset("train")[:_GRAPHS])
    graph = Graph(
        *(_to(device, batch.edge_index), batch.num_nodes, _to(device, batch.x)), batch=_to(device, batch.batch)
    )
    run = Run(model="gcn" if row.ordering is None else "mrs-gcn", start="independent")
    width = fit_width(run.budget, lambda width: parameters_of(run, dataset, width))
    size = (graph.num_nodes, graph.num_nodes)
    adj = _prepared(row, graph, edge_norm(graph.edge_index, size, "sym", dtype=torch.float32))
    x = torch.randn(graph.num_nodes, width, device=device)
    weight = torch.randn(adj.num_relations, width, width, device=device)
    h = relational_transform(x, weight)
    ordering, order, split = row.ordering, None, None
    if ordering is not None:
        values = order_values(ordering, graph)
        order, split = (lambda: order_values(ordering, graph)), (lambda: by_order(values)(graph))
    return [
        lambda: edge_norm(graph.edge_index, size, "sym", dtype=torch.float32),
        order,
        split,
        lambda: relational_transform(x, weight),
        lambda: relational_sum(h, adj),
    ]


def _prepared(row: RuntimeRow, graph: Graph, weight: Tensor) -> RelationalAdj:
    if row.ordering is None:
        return RelationalAdj(graph.edge_index, None, weight, num_nodes=graph.num_nodes).prepare()
    types = by_order(row.ordering)(graph)
    return RelationalAdj(graph.edge_index, types, weight, num_relations=3, num_nodes=graph.num_nodes).prepare()


def _to(device: torch.device, tensor: Tensor) -> Tensor:
    return tensor.to(device)


def _median_ms(step: Callable[[], Tensor], repeats: int, device: torch.device) -> float:
    times = []
    with torch.no_grad():
        for number in range(_WARM_UP + repeats):
            _wait(device)
            start = time.perf_counter()
            step()
            _wait(device)
            if number >= _WARM_UP:
                times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _cells(row: RuntimeRow, times: list[float | None], repeats: int) -> list[Cell]:
    return [
        Cell(row.row, step, None if ms is None else Score(ms, None, repeats), None if theirs is None else Score(theirs))
        for step, ms, theirs in zip(STEPS, times, row.published, strict=True)
        if ms is not None
    ]


RUNTIME_TABLE = Measured(
    name="runtime",
    help="Time the five steps of a layer on a batch of 32 molecules.",
    measure=runtime_table,
    steps=runtime_steps,
    options=(Option("repeats", int, 100, "Number of timings of each step."),),
    noun="row",
)

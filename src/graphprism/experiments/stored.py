"""Every table with the results of stored ledgers, and the projected time of its missing cells."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from graphprism._files import check_regular
from graphprism.experiments.experiment import TrainedTable
from graphprism.experiments.plan import PlannedCell, plan
from graphprism.experiments.spec import Settings, TableSpec
from graphprism.experiments.table import make_table
from graphprism.experiments.tables import TABLES
from graphprism.experiments.tables.remedies import RemediesTable
from graphprism.ledger import Ledger
from graphprism.results import Cell, CellStatus, RunResult, TableResult, latest
from graphprism.training import Run
from graphprism.training.run import ORIGIN

# Nodes per training epoch by data set: number of training graphs times their mean number of nodes.
_NODES = {
    "zinc12k": 231_664,
    "zinc": 5_092_000,
    "peptides-func": 1_640_000,
    "peptides-struct": 1_640_000,
    "molhiv": 831_000,
}
# Nodes and edges of the data sets with one graph. Those of the last three are published; here they cannot be had.
_GRAPH_SIZES = {
    "chameleon": (2_277, 36_101),
    "chameleon-filtered": (890, 13_584),
    "squirrel": (5_201, 217_073),
    "squirrel-filtered": (2_223, 65_718),
    "cora": (2_708, 10_556),
    "citeseer": (3_327, 9_104),
    "pubmed": (19_717, 88_648),
    "arxiv-year": (169_343, 1_166_243),
    "snap-patents": (2_923_922, 13_975_791),
    "roman-empire": (22_662, 44_363),
}
# Seconds per node, layer and epoch of networks with feed-forward blocks or random walks if none is stored: of GCN+ in
# lockstep, 0.35 ms for a step of 32 molecules and 12 layers.
_PACE = 3.9e-8
# Projections use runs on this hardware.
MACHINE = "NVIDIA H200"


def read_ledgers(folder: Path) -> list[RunResult]:
    """The results of all ledgers ``*.jsonl`` of a folder, the oldest first; other lines are ignored.

    Raises:
        FileNotFoundError: There is none.
    """
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise FileNotFoundError(f"{folder}: there is no ledger, a file that ends in .jsonl")
    with warnings.catch_warnings():  # benchmarks write other lines to such files
        warnings.simplefilter("ignore")
        found = [result for path in paths for result in Ledger(path).read()]
    return sorted(found, key=lambda result: result.finished_at)


def read_measured(folder: Path) -> dict[str, TableResult]:
    """The tables ``*.json`` of a folder by name; among tables of one name the last file wins."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            check_regular(path)
            table = TableResult.from_json(path.read_text("utf-8"))
        except (ValueError, OSError):
            continue  # JSON of a benchmark
        found[table.name] = table
    return found


def stored_tables(folder: Path) -> tuple[list[TableResult], list[str]]:
    """All tables of `graphprism reproduce`, filled from a folder of ledgers and measured tables.

    A cell has the runs of the published hyper-parameters or, if none of them has run, the best of the grid. The note of
    a cell without results gives the projected time of its runs. Also returns the names of experiments that are not in
    the folder: figures and measured tables.

    Args:
        folder: Folder of ledgers ``*.jsonl`` and measured tables ``*.json``.
    """
    results = latest(read_ledgers(folder))
    measured, pace = read_measured(folder), Pace(results.values())
    found, absent = [], []
    for experiment in TABLES:
        if isinstance(experiment, TrainedTable):
            found.append(_stored_table(experiment.spec, results, pace))
        elif isinstance(experiment, RemediesTable):
            found += [_stored_table(spec, results, pace) for spec in experiment.stored]
        elif own := [name for name in measured if name == experiment.name or name.startswith(f"{experiment.name}-")]:
            found += [measured[name] for name in own]
        else:
            absent.append(experiment.name)
    return found, absent


def _stored_table(spec: TableSpec, results: Mapping[str, RunResult], pace: Pace) -> TableResult:
    best = Settings(seeds=spec.seeds)
    cells = plan(spec, best)
    datasets = {str(each.run.get("dataset")) for each in results.values()}
    missing = [each for each in cells if _may_have_others(each, datasets) and not _has_results(each, results)]
    wide = {id(each.spec): each for each in plan(_only(spec, missing), replace(best, grid="full"))} if missing else {}
    wide = {key: each for key, each in wide.items() if _has_results(each, results)}
    cells = [wide.get(id(each.spec), each) for each in cells]
    table = make_table(spec, best, cells, results)
    runs = {(each.spec.row, each.spec.column): each.configurations for each in cells}
    noted = [_with_projection(cell, runs.get((cell.row, cell.column), ()), spec.seeds, pace) for cell in table.cells]
    return replace(table, cells=tuple(noted))


def _only(spec: TableSpec, cells: Sequence[PlannedCell]) -> TableSpec:
    return replace(spec, cells=tuple(each.spec for each in cells))


def _may_have_others(planned: PlannedCell, datasets: set[str]) -> bool:
    """Whether configurations beside the published one may have results: a cheap test, since keys of a grid are slow."""
    best = planned.spec.best
    return best is not None and bool(planned.spec.grid) and best.dataset in datasets


def _has_results(planned: PlannedCell, results: Mapping[str, RunResult]) -> bool:
    return any(run.key in results for runs in planned.configurations for run in runs)


def _with_projection(cell: Cell, configurations: Sequence[Sequence[Run]], seeds: int, pace: Pace) -> Cell:
    if cell.status is not CellStatus.NOT_RUN or not configurations or cell.seconds is not None:
        return cell
    hours = seeds * pace.seconds(configurations[0][0]) / 3600
    note = f"projected: {hours:.2g} h for {seeds} runs"
    return replace(cell, note="; ".join(part for part in (note, cell.note) if part))


class Pace:
    """Projects the time of a run from stored results.

    For a run on graphs: the median time per node, layer and epoch of the most similar runs: same data and model, else
    same model, else any. Networks with feed-forward blocks or random walks are compared only with each other; without
    any, our target is used. For a run on nodes: the median time per node or edge, layer and epoch, likewise; of another
    data set that of the nearest size, since small graphs do not fill a GPU. A run that stops early takes as many epochs
    as the similar ones did. Widths are not considered.

    Args:
        results: Finished runs; those on other hardware, or on a shared device (without ``step_ms``), are ignored.
    """

    def __init__(self, results: Iterable[RunResult]) -> None:
        here = [each for each in results if each.hardware.get("name") == MACHINE and each.status == "finished"]
        here = [each for each in here if each.step_ms is not None]
        self._of_graphs: dict[tuple[str, ...], list[float]] = {}
        self._of_nodes: dict[tuple[str, ...], list[_NodePace]] = {}
        for each in here:
            run = Run.from_dict({**ORIGIN, **each.run})
            if run.batch_size is None:
                if run.dataset in _GRAPH_SIZES:
                    epochs = _trained_epochs(each)
                    found = _NodePace(_size(run.dataset), each.seconds / (epochs * run.layers), epochs)
                    for kind in _node_kinds(run):
                        self._of_nodes.setdefault(kind, []).append(found)
            elif run.dataset in _NODES:
                rate = each.seconds / _work(run)
                for kind in _kinds(run):
                    self._of_graphs.setdefault(kind, []).append(rate)

    def seconds(self, run: Run) -> float:
        """Projected time of one run; 0 without comparable runs."""
        if run.batch_size is None:
            return self._node_seconds(run)
        kinds = _kinds(run)
        found = next((self._of_graphs[kind] for kind in kinds if kind in self._of_graphs), None)
        if found is None:
            return 0.0 if kinds[-1] == ("",) else _PACE * _work(run)
        return median(found) * _work(run)

    def _node_seconds(self, run: Run) -> float:
        alike = next((self._of_nodes[kind] for kind in _node_kinds(run) if kind in self._of_nodes), [])
        if not alike or run.dataset not in _GRAPH_SIZES:
            return 0.0
        size = _size(run.dataset)
        nearest = min((each.size for each in alike), key=lambda other: abs(math.log(other / size)))
        alike = [each for each in alike if each.size == nearest]
        epochs = run.epochs if run.patience is None else min(run.epochs, median(each.epochs for each in alike))
        return median(each.per_layer for each in alike) * size / nearest * run.layers * epochs


class _NodePace(NamedTuple):
    """Size of the graph of a run, seconds of one layer in one epoch, and number of epochs."""

    size: int
    per_layer: float
    epochs: int


def _size(dataset: str) -> int:
    return sum(_GRAPH_SIZES[dataset])


def _trained_epochs(result: RunResult) -> int:
    numbers = result.history.get("epoch") or [len(result.history["train_loss"])]
    return int(numbers[-1] or 1)


def _node_kinds(run: Run) -> list[tuple[str, ...]]:
    """Keys of similarity for runs on nodes, the most similar first; not mixed: runs to the end and stopped early."""
    early, network = str(run.patience is not None), f"{run.model} {run.remedy}"
    return [(early, network, run.dataset), (early, network), (early,)]


def _work(run: Run) -> int:
    """Nodes times layers times epochs."""
    return _NODES.get(run.dataset, _NODES["zinc12k"]) * run.layers * run.epochs


def _kinds(run: Run) -> list[tuple[str, ...]]:
    """Keys of similarity, the most similar first."""
    plus = "ffn" if run.ffn else "walks" if run.pe_encoder == "walk" else ""
    return [(run.dataset, run.model, plus), (run.model, plus), (plus,)]

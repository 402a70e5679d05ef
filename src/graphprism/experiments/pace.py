"""The time that runs would take, projected from stored results."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

from graphprism.results import RunResult
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


class Pace:
    """Projects the time of a run from stored results.

    For a run on graphs: the median time per node, layer and epoch of the most similar runs: same data and model, else
    same model, else any. Networks with feed-forward blocks or random walks are compared only with each other; without
    any, our target is used. For a run on nodes: the median time per node or edge, layer and epoch, likewise; of another
    data set that of the nearest size, since small graphs do not fill a GPU. A run that stops early takes as many epochs
    as the similar ones did. Widths are not considered.

    Args:
        results: Finished runs; those on other hardware, on a shared device (without ``step_ms``), or of a version with
            other fields or models, are ignored.
    """

    def __init__(self, results: Iterable[RunResult]) -> None:
        here = [each for each in results if each.hardware.get("name") == MACHINE and each.status == "finished"]
        here = [each for each in here if each.step_ms is not None]
        self._of_graphs: dict[tuple[str, ...], list[float]] = {}
        self._of_nodes: dict[tuple[str, ...], list[_NodePace]] = {}
        for each in here:
            run, epochs = _known_run(each), _trained_epochs(each)
            if run is None:
                continue
            if run.batch_size is None:
                if run.dataset in _GRAPH_SIZES and epochs:
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

    def rank(self, run: Run) -> float:
        """A number by which runs can be sorted: the projected time, without comparable runs from the work alone."""
        return self.seconds(run) or _PACE * (_work(run) if run.batch_size is not None else _node_work(run))

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


def _known_run(result: RunResult) -> Run | None:
    """The run of a result; None for one of another version that this one cannot train."""
    try:
        return Run.from_dict({**ORIGIN, **result.run})
    except (ValueError, TypeError):
        return None


def _trained_epochs(result: RunResult) -> int:
    numbers = result.history.get("epoch") or [len(result.history.get("train_loss", []))]
    return int(numbers[-1] or 0)


def _node_kinds(run: Run) -> list[tuple[str, ...]]:
    """Keys of similarity for runs on nodes, the most similar first; not mixed: runs to the end and stopped early."""
    early, network = str(run.patience is not None), f"{run.model} {run.remedy}"
    return [(early, network, run.dataset), (early, network), (early,)]


def _work(run: Run) -> int:
    """Nodes times layers times epochs."""
    return _NODES.get(run.dataset, _NODES["zinc12k"]) * run.layers * run.epochs


def _node_work(run: Run) -> int:
    return (_size(run.dataset) if run.dataset in _GRAPH_SIZES else 0) * run.layers * run.epochs


def _kinds(run: Run) -> list[tuple[str, ...]]:
    """Keys of similarity, the most similar first."""
    plus = "ffn" if run.ffn else "walks" if run.pe_encoder == "walk" else ""
    return [(run.dataset, run.model, plus), (run.model, plus), (plus,)]

"""The time that runs would take, projected from stored results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from graphprism.results import RunResult
from graphprism.training import Run
from graphprism.training.run import ORIGIN
from graphprism.training.train import why_alone

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

    For a run on graphs: the time per node and epoch of the most similar runs: same data, network and batch size, else
    same data and network, else same network, else any. A part of a step has nothing to do with the layers: the time is
    on the line through the medians of the two nearest numbers of layers; where one number is stored, it grows with the
    layers as that of less similar runs. Networks that are trained one by one, those with a remedy for instance, are
    compared with each other if there are any on the same data. So are those with feed-forward blocks or random walks;
    without any, our target is used. For a run on nodes: the median time per node or edge, layer and epoch, likewise; of
    another data set that of the nearest size, since small graphs do not fill a GPU. A run that stops early takes as
    many epochs as the similar ones did. Widths are not considered.

    Args:
        results: Finished runs; those on other hardware, of a version with other fields or models, or on graphs by steps
            that 0.1 did not capture, are ignored. Runs on a device that others shared (without ``step_ms``) count where
            there are no others with so many layers.
    """

    def __init__(self, results: Iterable[RunResult]) -> None:
        self._of_graphs: dict[tuple[str, ...], list[_GraphPace]] = {}
        self._of_nodes: dict[tuple[str, ...], list[_NodePace]] = {}
        for each in results:
            if each.hardware.get("name") != MACHINE or each.status != "finished":
                continue
            run, epochs, is_shared = _known_run(each), _trained_epochs(each), each.step_ms is None
            if run is None:
                continue
            if run.batch_size is None:
                if run.dataset in _GRAPH_SIZES and epochs and not is_shared:
                    found = _NodePace(_size(run.dataset), each.seconds / (epochs * run.layers), epochs)
                    for kind in _node_kinds(run):
                        self._of_nodes.setdefault(kind, []).append(found)
            elif run.dataset in _NODES and not _has_plain_steps(each):
                kinds = _kinds(run)
                pace = _GraphPace(run.layers, each.seconds / _epoch_nodes(run), is_shared, kinds[0])
                for kind in kinds:
                    self._of_graphs.setdefault(kind, []).append(pace)

    def seconds(self, run: Run) -> float:
        """Projected time of one run; 0 without comparable runs."""
        if run.batch_size is None:
            return self._node_seconds(run)
        kinds = _kinds(run)
        alike = [self._of_graphs[kind] for kind in kinds if kind in self._of_graphs]
        if not alike:
            return 0.0 if kinds[-1] == ("",) else _PACE * _work(run)
        times = _by_depth(alike[0])
        nearest = _nearest(times, run.layers)[0]
        growth = next(filter(None, (_growth(each, nearest, run.layers) for each in alike)), run.layers / nearest)
        return times[nearest] * growth * _epoch_nodes(run)

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


class _GraphPace(NamedTuple):
    """Layers of a run, its seconds for one node in one epoch, whether others shared the device, and its first kind."""

    layers: int
    per_node: float
    is_shared: bool
    kind: tuple[str, ...]


def _by_depth(paces: Sequence[_GraphPace]) -> dict[int, float]:
    """The median time by number of layers, of runs on a shared device only where there are no others."""
    found: dict[int, float] = {}
    for depth in {each.layers for each in paces}:
        here = [each for each in paces if each.layers == depth]
        alone = [each for each in here if not each.is_shared]
        found[depth] = median(each.per_node for each in alone or here)
    return found


def _growth(paces: Sequence[_GraphPace], before: int, after: int) -> float | None:
    """The factor between the times of two depths, by the runs of a kind with several; the median over such kinds."""
    kinds: dict[tuple[str, ...], list[_GraphPace]] = {}
    for each in paces:
        kinds.setdefault(each.kind, []).append(each)
    lines = [times for times in map(_by_depth, kinds.values()) if len(times) > 1]
    return median(_on_line(each, after) / _on_line(each, before) for each in lines) if lines else None


def _nearest(depths: Iterable[int], layers: int) -> list[int]:
    return sorted(depths, key=lambda depth: (abs(math.log(depth / layers)), depth))


def _on_line(times: Mapping[int, float], layers: int) -> float:
    """The time with so many layers, on the line through the two nearest depths; proportional where that falls."""
    near, *others = _nearest(times, layers)
    if others and layers != near:
        slope = (times[others[0]] - times[near]) / (others[0] - near)
        time = times[near] + slope * (layers - near)
        if slope > 0 and time > 0:
            return time
    return times[near] * layers / near


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


def _has_plain_steps(result: RunResult) -> bool:
    """Whether a run on graphs took ten times as long as it would: 0.1 captured the steps of lockstep alone."""
    return result.engine == "eager" and result.versions.get("graphprism", "").startswith("0.1.")


def _trained_epochs(result: RunResult) -> int:
    numbers = result.history.get("epoch") or [len(result.history.get("train_loss", []))]
    return int(numbers[-1] or 0)


def _node_kinds(run: Run) -> list[tuple[str, ...]]:
    """Keys of similarity for runs on nodes, the most similar first; not mixed: runs to the end and stopped early."""
    early, network = str(run.patience is not None), f"{run.model} {run.remedy}"
    return [(early, network, run.dataset), (early, network), (early,)]


def _work(run: Run) -> int:
    """Nodes times layers times epochs."""
    return _epoch_nodes(run) * run.layers


def _epoch_nodes(run: Run) -> int:
    return _NODES.get(run.dataset, _NODES["zinc12k"]) * run.epochs


def _node_work(run: Run) -> int:
    return (_size(run.dataset) if run.dataset in _GRAPH_SIZES else 0) * run.layers * run.epochs


def _kinds(run: Run) -> list[tuple[str, ...]]:
    """Keys of similarity for runs on graphs, the most similar first."""
    plus = "ffn" if run.ffn else "walks" if run.pe_encoder == "walk" else ""
    network, data = f"{run.model} {run.remedy}", (run.dataset, f"batches of {run.batch_size}")
    alone = [("alone", *data, plus)] if why_alone(run) else []
    return [(*data, network, plus), (run.dataset, network, plus), (network, plus), *alone, (plus,)]

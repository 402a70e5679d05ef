"""Trains runs: one by one, or many side by side."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from graphprism._checks import check_choice, check_function, check_positive, check_type
from graphprism.datasets import PackedDataset, leak_audit
from graphprism.nn import MODELS
from graphprism.nn.models.convolutions import is_ours
from graphprism.nn.models.gnn_options import resolved_norm
from graphprism.results import ENGINES, RunResult
from graphprism.training.captured_graphs import why_not_captured
from graphprism.training.checkpoint import Checkpoint, RunFolder
from graphprism.training.data_form import form_of
from graphprism.training.eager import EagerEngine
from graphprism.training.edge_weights import check_weights, uses_weights, warn_of_unused_weights
from graphprism.training.engine import Engine
from graphprism.training.full_graph import FullGraphEngine
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.lockstep.engine import LockstepEngine
from graphprism.training.node_data import NodeData, check_node_run
from graphprism.training.processes import (
    broadcast_from_rank0,
    check_processes,
    device_type,
    make_fabric,
    noticing_lost_processes,
)
from graphprism.training.provenance import data_identity
from graphprism.training.run import Run
from graphprism.training.run_splits import is_soft, run_splits
from graphprism.training.session import Diverged, EpochReport, Session, restore_torch_state
from graphprism.training.task import Task

if TYPE_CHECKING:
    from lightning.fabric import Fabric

OnEpoch = Callable[[EpochReport], object]

# Most neighbours of a node in lockstep: with more, a padded table is mostly empty, and runs are trained one by one.
_MOST_SLOTS = 16
# Normalisations that can mask padding.
_NORMS = (None, "batch")
# Share of the free memory that runs in lockstep use, and most runs: with more, a step does not get faster per run.
_MEMORY_SHARE = 0.8
_MOST_RUNS = 64
# On a CPU more runs at once do not make any of them faster; a few serve to test the engine.
_MOST_RUNS_ON_CPU = 8


def train(
    run: Run,
    dataset: PackedDataset,
    *,
    folder: str | Path | None = None,
    accelerator: str = "auto",
    devices: int = 1,
    nodes: int = 1,
    engine: str = "auto",
    on_epoch: OnEpoch | None = None,
) -> RunResult:
    """Trains a run to its end, from its last checkpoint if there is one.

    A run that was killed at any moment and resumed gives bitwise the same result as one without interruption; by other
    steps (captured, plain, in lockstep) or on another device the bits differ, and a warning says so. Random states and
    settings of the caller do not change. On one GPU a step is a CUDA graph: as in `train_lockstep` if
    lockstep takes the run, else a captured step of the eager engine if `why_not_captured` has no reason. On several
    devices each batch is divided among them, and the gradient is that of the whole batch.

    Args:
        run: What to train.
        dataset: Graphs, nodes or links with targets and folds.
        folder: Folder of checkpoints, which are written to ``folder / run.key``; None writes none.
        accelerator: ``"cpu"``, ``"cuda"`` or ``"auto"``, a GPU where there is one.
        devices: Devices of each machine; more than one means one process each.
        nodes: Machines; with more than one start the script by torchrun.
        engine: For targets of graphs: ``"eager"`` (steps of Python), ``"lockstep"`` (a captured step, on one device),
            or ``"auto"`` for lockstep on one GPU where `why_not_lockstep` has no reason, else eager, captured if
            possible.
        on_epoch: Called after every epoch, on rank 0 only; if it returns True the run stops.

    Raises:
        Diverged: The loss became NaN or infinite.
        CheckpointError: The checkpoint is damaged or belongs to another run or data set.
        ProcessLost: Another process was killed; started again, the run is resumed, on any number of devices.
        OSError: The folder cannot be written.

    >>> from graphprism.datasets import molecules
    >>> result = train(Run(layers=2, width=8, epochs=3), molecules(60), accelerator="cpu")
    >>> result.status, len(result.history["val"])
    ('finished', 3)
    """
    task = Task.of(dataset, run)
    task.check(run)
    check_weights(run, dataset)
    check_positive("devices", devices)
    check_positive("nodes", nodes)
    check_choice("engine", engine, ENGINES)
    _check_outputs(folder, on_epoch)
    if task.level != "graph" and run.neighbors is None:
        if devices * nodes != 1:
            where = "on the whole graph (`neighbors=None`)"
            raise ValueError(f"`devices` must be 1 for targets of {task.level}s {where}, got {devices * nodes}")
        check_node_run(run, dataset)
    warn_of_unused_weights(run, dataset)
    if task.level != "graph" and not why_not_lockstep(run, dataset):
        device = torch.device(device_type(accelerator, devices, nodes))
        with restore_torch_state(device):
            (result,) = _finish(FullGraphEngine([run], dataset, device), dataset, folder, on_epoch)
    elif engine_of(run, dataset, engine, device_type(accelerator, devices, nodes), devices * nodes) == "lockstep":
        device = torch.device(device_type(accelerator, devices, nodes))
        with restore_torch_state(device):
            (result,) = _train_graphs([run], dataset, device, folder, 1, on_epoch)
    else:
        check_processes(run, dataset, devices * nodes)
        captures = captures_steps(run, dataset, engine, device_type(accelerator, devices, nodes), devices * nodes)
        fabric = make_fabric(run, accelerator, devices, nodes)
        kept = None if folder is None else Path(folder) / run.key / "checkpoint.pt"
        with restore_torch_state(fabric.device), noticing_lost_processes(fabric, run, kept):
            (result,) = _finish(EagerEngine(fabric, run, dataset, captures), dataset, folder, on_epoch, fabric)
    if result.status == "diverged":
        epochs = len(result.history["val"])
        kept = Path(folder) / run.key / "checkpoint.pt" if folder is not None and epochs else None
        raise Diverged(run, result.extra["diverged_epoch"], result.extra["diverged_step"], kept, result)
    return result


def check_run(run: Run, dataset: PackedDataset) -> None:
    """Raises `ValueError` unless a run can be trained on a data set; plans call it before anything is trained."""
    Task.of(dataset, run).check(run)
    check_weights(run, dataset)
    resolved_norm(run.norm, channels=8)  # raises for a name that PyG does not have
    if dataset.level != "graph":
        check_node_run(run, dataset)


def engine_of(run: Run, dataset: PackedDataset, engine: str, device: str, processes: int = 1) -> str:
    """The engine that trains a run: ``"eager"`` or ``"lockstep"``.

    Args:
        run: The run.
        dataset: What it trains on.
        engine: One of `graphprism.results.ENGINES`.
        device: ``"cpu"`` or ``"cuda"``.
        processes: How many share the run.

    Raises:
        ValueError: Lockstep was asked for by name and cannot take the run.
    """
    if engine == "eager" or (engine == "auto" and (device != "cuda" or processes > 1)):
        return "eager"
    reason = f"{processes} processes share the run" if processes > 1 else why_not_lockstep(run, dataset)
    if reason and engine == "lockstep":
        raise ValueError(f"`engine` must be auto or eager, got 'lockstep': {reason}")
    return "eager" if reason else "lockstep"


def captures_steps(run: Run, dataset: PackedDataset, engine: str, device: str, processes: int = 1) -> bool:
    """Whether the eager engine captures the steps of a run.

    Args:
        run: The run, which lockstep does not take.
        dataset: What it trains on.
        engine: One of `graphprism.results.ENGINES`; ``"eager"`` captures nothing.
        device: ``"cpu"`` or ``"cuda"``.
        processes: How many share the run.
    """
    return engine != "eager" and device == "cuda" and processes == 1 and not why_not_captured(run, dataset)


def _check_outputs(folder: object, on_epoch: object) -> None:
    if folder is not None:
        check_type("folder", folder, (str, os.PathLike), "None or a path")
    if on_epoch is not None:
        check_function("on_epoch", on_epoch, "None or a function of an EpochReport")


def lockstep_key(run: Run) -> str:
    """Runs with the same key can be trained together.

    They differ in seed, learning rate and weight decay alone; runs on nodes may differ in fold and dropout, too.
    """
    check_type("run", run, Run, "a Run")
    return _graph_key(replace(run, fold=0, dropout=0.0) if run.batch_size is None else run)


def _graph_key(run: Run) -> str:
    """`lockstep_key` of runs on graphs: a step has one dropout for all runs, also if a batch has all graphs."""
    return replace(run, seed=0, lr=1.0, weight_decay=0.0).key


def train_lockstep(
    runs: Sequence[Run],
    dataset: PackedDataset,
    *,
    folder: str | Path | None = None,
    accelerator: str = "auto",
    at_once: int | None = None,
    on_epoch: OnEpoch | None = None,
) -> list[RunResult]:
    """Trains runs side by side, each as if it was alone: own weights, permutation of data and learning rate.

    On a GPU a step of all runs on graphs is one CUDA graph, and each run on nodes has its own; the data set is kept on
    the device. Runs with equal `lockstep_key` are trained together, as many as fit into memory. One that diverges does
    not disturb the others. Interrupted runs are resumed from their last checkpoints. Runs that lockstep cannot take are
    trained one by one, by `train`; `why_not_lockstep` has the reasons.

    Args:
        runs: What to train.
        dataset: Graphs or nodes with targets and folds.
        folder: Folder of checkpoints; None writes none.
        accelerator: ``"cpu"``, ``"cuda"`` or ``"auto"``, a GPU where there is one.
        at_once: Most runs to train together; None for as many as fit into memory.
        on_epoch: Called for every run after every epoch; if it returns True that run stops.

    Returns:
        A result for every run, in their order, also for those that diverged.

    >>> from graphprism.datasets import molecules
    >>> runs = [Run(layers=2, width=8, epochs=2, seed=seed) for seed in range(3)]
    >>> [result.status for result in train_lockstep(runs, molecules(60), accelerator="cpu")]
    ['finished', 'finished', 'finished']
    """
    task, device = Task.of(dataset), torch.device(device_type(accelerator))
    check_positive("at_once", 1 if at_once is None else at_once)
    _check_outputs(folder, on_epoch)
    check_type("runs", runs, Sequence, "a list of Runs")
    for run in runs:
        check_type("runs", run, Run, "a list of Runs")
        Task.of(dataset, run).check(run)
        check_weights(run, dataset)
    has_hubs = task.level == "graph" and most_neighbours(dataset) > _MOST_SLOTS
    found: dict[str, RunResult] = {}
    groups: dict[str, list[Run]] = {}
    for run in dict.fromkeys(runs):  # a run that is given twice is trained once
        if why_not_lockstep(run, dataset, has_hubs):
            found[run.key] = _train_alone(run, dataset, folder, device, on_epoch)
        else:
            warn_of_unused_weights(run, dataset)
            groups.setdefault(_graph_key(run) if task.level == "graph" else lockstep_key(run), []).append(run)
    train_group = _train_graphs if task.level == "graph" else _train_nodes
    with restore_torch_state(device):
        for group in groups.values():
            results = train_group(group, dataset, device, folder, at_once, on_epoch)
            found |= {result.key: result for result in results}
    return [found[run.key] for run in runs]


def why_not_lockstep(run: Run, dataset: PackedDataset, has_hubs: bool | None = None) -> str:
    """Why a run cannot be trained beside others, in a few words; empty where it can.

    Args:
        run: The run.
        dataset: What it trains on.
        has_hubs: Whether a node has more neighbours than a padded table takes; None to compute it.
    """
    task = Task.of(dataset, run)
    if run.neighbors is not None:
        return "lockstep takes the whole graph, not sampled neighbours"
    if task.level == "link":
        return "links are trained one by one"
    if task.level == "node":
        classes = (task.target, task.metric) == ("multiclass", "accuracy")
        return (
            "" if classes else f"on nodes lockstep knows accuracy of classes alone, not {task.target} by {task.metric}"
        )
    if reason := why_alone(run):
        return reason
    if uses_weights(run, dataset):
        return "lockstep on graphs takes edges without weights"
    if run.norm not in _NORMS:
        return f"lockstep knows batch norm alone, not {run.norm}"
    if run.jk == "lstm":  # not implemented for many runs or a padded width
        return "lockstep has no jumping knowledge by an LSTM"
    if MODELS[run.model].relational:
        splits = run_splits(run, dataset)
        if len(splits) != 1 or is_soft(splits[0]) or run.learned_split:
            return "lockstep takes one type per edge, not scores, learned or not, or a split for each layer"
    if most_neighbours(dataset) > _MOST_SLOTS if has_hubs is None else has_hubs:
        return f"a node has more than {_MOST_SLOTS} neighbours"
    return ""


def why_alone(run: Run) -> str:
    """Why lockstep takes no such run on graphs, whatever its data; empty where it may."""
    conv = MODELS[run.model]
    if run.remedy is not None:
        return "lockstep has no remedies"
    if not conv.takes_graph or conv.directed or conv.edge_norm is None:
        return f"lockstep has no {run.model} on graphs"
    if not is_ours(run.model):
        return f"lockstep knows the layers of this package alone, not {run.model}"
    return ""


def forget(folder: str | Path, runs: Iterable[Run]) -> None:
    """Removes the checkpoints of these runs from a folder, so that they start from the beginning.

    >>> forget("no such folder", [Run()])
    """
    for run in runs:
        shutil.rmtree(Path(folder) / run.key, ignore_errors=True)


def most_neighbours(dataset: PackedDataset) -> int:
    """The largest number of edges that one node sends or receives."""
    numbers = dataset.edge_index.long() + dataset.node_ptr[:-1].repeat_interleave(dataset.edge_ptr.diff())
    return max((int(torch.bincount(each).max()) for each in numbers if each.numel()), default=0)


def _finish(
    engine: Engine,
    dataset: PackedDataset,
    folder: str | Path | None,
    on_epoch: OnEpoch | None,
    fabric: Fabric | None = None,
) -> list[RunResult]:
    """Trains the runs of an engine to their end, from their checkpoints in ``folder`` if there are any."""
    data = data_identity(dataset)
    extra = _baselines(engine.runs, dataset)
    with ExitStack() as at_end:
        folders: list[RunFolder] = []

        def open_and_load() -> list[Checkpoint | None]:
            for run in engine.runs if folder is not None else ():
                folders.append(RunFolder(Path(folder or ""), run, data, form_of(dataset, run)))
                at_end.callback(folders[-1].close)
            return [each.load() for each in folders]

        checkpoints = open_and_load() if fabric is None else broadcast_from_rank0(fabric, open_and_load)
        session = Session(engine, Task.of(dataset, engine.runs[0]), data, folders or None, checkpoints, extra)
        is_rank0 = fabric is None or fabric.is_global_zero
        results = session.finish(on_epoch if is_rank0 else None)
    if is_rank0:
        _warn_without_score(engine.runs, results)
    return results


def _warn_without_score(runs: Sequence[Run], results: Sequence[RunResult]) -> None:
    """Says once that runs have no best epoch because their metric is undefined, as AUROC of a single row is."""
    pairs = zip(runs, results, strict=True)
    unscored = [run for run, result in pairs if result.history["val"] and result.best_epoch is None]
    if unscored:
        more = f" and {len(unscored) - 1} more" if len(unscored) > 1 else ""
        warnings.warn(
            f"no epoch of {unscored[0].title}{more} has a validation score: {results[0].metric} is not defined on the "
            "validation fold, so that no best.pt is written; choose another metric or a larger validation fold",
            stacklevel=2,
        )


def _baselines(runs: Sequence[Run], dataset: PackedDataset) -> list[dict[str, Any]]:
    """Accuracies in percent of two baselines without parameters, to compare runs on nodes with."""
    if (dataset.level, dataset.task) != ("node", "multiclass"):
        return [{} for _ in runs]
    # runs that differ in seed or model share an audit: it sorts all edges, seconds on a graph of millions
    kinds = [(run.fold, run.undirected, run.self_loops) for run in runs]
    audits = {
        (fold, undirected, self_loops): leak_audit(dataset, fold, undirected=undirected, self_loops=self_loops)
        for fold, undirected, self_loops in dict.fromkeys(kinds)
    }
    return [{"lookup": 100 * audits[kind].lookup, "majority": 100 * audits[kind].majority} for kind in kinds]


def _train_alone(
    run: Run, dataset: PackedDataset, folder: str | Path | None, device: torch.device, on_epoch: OnEpoch | None
) -> RunResult:
    try:
        return train(run, dataset, folder=folder, accelerator=device.type, on_epoch=on_epoch)
    except Diverged as error:
        return error.result


def _train_nodes(
    runs: list[Run],
    dataset: PackedDataset,
    device: torch.device,
    folder: str | Path | None,
    at_once: int | None,
    on_epoch: OnEpoch | None,
) -> list[RunResult]:
    """As many runs at once as the device has room for, until all are trained."""
    shared: dict[object, NodeData] = {}
    results: list[RunResult] = []
    while left := runs[len(results) :]:
        # the engine has no name, so that its memory is freed before the next one is made
        results += _finish(FullGraphEngine(left[:at_once], dataset, device, shared), dataset, folder, on_epoch)
    return results


def _train_graphs(
    runs: list[Run],
    dataset: PackedDataset,
    device: torch.device,
    folder: str | Path | None,
    at_once: int | None,
    on_epoch: OnEpoch | None,
) -> list[RunResult]:
    dtype = torch.float64 if runs[0].precision == "float64" else torch.float32
    data = TableDataset(runs[0], dataset, device, dtype)
    size = at_once or runs_at_once(runs, dataset, data, device)
    results: list[RunResult] = []
    while left := runs[len(results) :]:
        results += _finish(LockstepEngine(left[:size], dataset, data, device), dataset, folder, on_epoch)
    return results


def runs_at_once(runs: Sequence[Run], dataset: PackedDataset, data: TableDataset, device: torch.device) -> int:
    """Number of runs to train together, by the memory of one step and one evaluation of a single run.

    A grid that does not fit is divided evenly, so that no part is much smaller than the others.
    """
    most = _MOST_RUNS_ON_CPU if device.type == "cpu" else min(_MOST_RUNS, _fitting(runs[0], dataset, data, device))
    parts = -(-len(runs) // most)
    return -(-len(runs) // parts)


def _fitting(run: Run, dataset: PackedDataset, data: TableDataset, device: torch.device) -> int:
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    engine = LockstepEngine([run], dataset, data, device)
    engine.measure()
    used = torch.cuda.max_memory_allocated(device) - before
    del engine
    torch.cuda.empty_cache()
    return max(1, int(_MEMORY_SHARE * free / max(1, used)))

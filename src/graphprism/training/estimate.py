"""Memory and time of a run before it starts, extrapolated from a few of its steps."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from graphprism.datasets import PackedDataset
from graphprism.nn.models import MODELS
from graphprism.training.build_model import build_model, width_of
from graphprism.training.eager import EagerEngine
from graphprism.training.engine import Engine
from graphprism.training.full_graph import FullGraphEngine
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.lockstep.engine import LockstepEngine
from graphprism.training.node_data import check_node_run
from graphprism.training.processes import device_type, free_memory, make_fabric
from graphprism.training.run import Run
from graphprism.training.run_splits import relations_of
from graphprism.training.session import restore_torch_state
from graphprism.training.task import Task
from graphprism.training.train import captures_steps, engine_of, why_not_lockstep

# Steps on batches, and epochs on a whole graph, that are timed; the first epoch includes one-time work.
_BATCHES, _EPOCHS = 24, 4
# Share of the free memory up to which the run itself is timed; beyond, narrower runs are timed and extrapolated.
_TRIED = 0.4
_NARROW = (8, 4)
# Copies of the weights in memory: both moments, gradients, the best, and a checkpoint that is being written.
_COPIES = 6


@dataclass(frozen=True)
class Estimate:
    """Estimated time and memory of a run that has one device to itself.

    Attributes:
        run: The run.
        seconds: Time of all epochs; with early stopping, at most.
        epoch_seconds: Time of one epoch.
        peak_bytes: Largest memory: of the process on a CPU, of tensors on a GPU.
        free_bytes: Available memory.
        tried: Whether steps of this run were timed; if not, those of narrower runs were, and the estimate is rougher.
        advice: What to change if the run does not fit; empty if it does.
    """

    run: Run
    seconds: float
    epoch_seconds: float
    peak_bytes: float
    free_bytes: float
    tried: bool
    advice: str

    @property
    def fits(self) -> bool:
        """Whether the available memory suffices."""
        return self.peak_bytes <= self.free_bytes


@dataclass(frozen=True)
class _Probe:
    peak: float  # bytes above those before
    prepare: float  # seconds
    epoch: float


def estimate(run: Run, dataset: PackedDataset, *, accelerator: str = "auto") -> Estimate:
    """Estimates memory and time of a run: prepares all of its data, times a few steps and extrapolates.

    A run that may not fit into memory is not started: two narrower ones are timed, and memory and time are extrapolated
    linearly to its width.

    >>> from graphprism.datasets import molecules
    >>> found = estimate(Run(layers=2, width=8, epochs=20), molecules(60), accelerator="cpu")
    >>> found.fits, found.seconds > found.epoch_seconds
    (True, True)
    """
    Task.of(dataset, run).check(run)
    if dataset.level != "graph":
        check_node_run(run, dataset)
    device = torch.device(device_type(accelerator))
    base, free = _used(device), free_memory(device)
    width = width_of(run, dataset)
    tried = _guess(run, dataset, width) <= _TRIED * free
    if tried:
        probe = _probe(run, dataset, device)
    else:
        narrow = [max(1, width // part) for part in _NARROW]
        probes = [_probe(replace(run, width=each), dataset, device) for each in narrow]
        probe = _continued(probes, narrow, width)
    peak = base + probe.peak + _COPIES * _parameter_bytes(run, dataset)
    there = free + base
    return Estimate(
        run=run,
        seconds=probe.prepare + run.epochs * probe.epoch,
        epoch_seconds=probe.epoch,
        peak_bytes=peak,
        free_bytes=there,
        tried=tried,
        advice="" if peak <= there else _advice(run, dataset, width, base, peak, there),
    )


def _probe(run: Run, dataset: PackedDataset, device: torch.device) -> _Probe:
    """Prepares a run in full and times some of its steps and its whole evaluation."""
    part, scale = _part(run, dataset)
    begin = time.perf_counter()
    with _peak_memory(device) as memory, restore_torch_state(device):
        engine = _engine(run, part, device)
        prepared = time.perf_counter() - begin
        steps, evaluations = [], []
        for epoch in range(_EPOCHS if dataset.level != "graph" else 2):
            start = time.perf_counter()
            trained = engine.train_epoch(min(epoch, run.epochs - 1), [True])
            middle = time.perf_counter()
            for fold in ("val", "test"):
                engine.evaluate(fold)
            evaluations.append(time.perf_counter() - middle)
            steps.append(middle - start if dataset.level != "graph" else trained.steps * trained.step_ms / 1e3)
        del engine
    later = [statistics.median(times[1:] or times) for times in (steps, evaluations)]
    # the first epoch includes one-time work, which counts once, however many batches an epoch has
    once = max(0.0, steps[0] - later[0]) + max(0.0, evaluations[0] - later[1])
    return _Probe(memory[0], prepared + once, later[0] * scale + later[1])


def _part(run: Run, dataset: PackedDataset) -> tuple[PackedDataset, float]:
    """The same graphs with a smaller training fold, and the size of the full training fold relative to it."""
    if dataset.level != "graph" or dataset.split is None:
        return dataset, 1.0
    train = dataset.subset("train")
    batch = run.batch_size or train.numel()
    total = -(-train.numel() // batch)
    if total <= _BATCHES:
        return dataset, 1.0
    kept = train[torch.randperm(train.numel(), generator=torch.Generator().manual_seed(0))[: _BATCHES * batch]]
    split = dataset.split.clone()
    split[train] = 3  # in no fold
    split[kept] = 0
    return replace(dataset, split=split), train.numel() / kept.numel()


def _engine(run: Run, dataset: PackedDataset, device: torch.device) -> Engine:
    """The engine that `train` takes for a run on one device."""
    if dataset.level != "graph" and not why_not_lockstep(run, dataset):
        return FullGraphEngine([run], dataset, device)
    if engine_of(run, dataset, "auto", device.type) == "lockstep":
        dtype = torch.float64 if run.precision == "float64" else torch.float32
        return LockstepEngine([run], dataset, TableDataset(run, dataset, device, dtype), device)
    captures = captures_steps(run, dataset, "auto", device.type)
    return EagerEngine(make_fabric(run, device.type, 1, 1), run, dataset, captures)


def _continued(probes: list[_Probe], widths: list[int], width: int) -> _Probe:
    """Extrapolates two narrower runs linearly to ``width``."""
    first, second = probes
    share = (width - widths[0]) / max(1, widths[1] - widths[0])

    def line(name: str) -> float:
        low, high = getattr(first, name), getattr(second, name)
        return float(max(low, low + share * (high - low)))

    return _Probe(line("peak"), first.prepare, line("epoch"))


def _guess(run: Run, dataset: PackedDataset, width: int) -> float:
    """Upper bound on the bytes of a step: states, messages of each relation and their gradients, in every layer."""
    number = 8 if run.precision == "float64" else 4
    graphs = max(1, len(dataset))
    batch = min(graphs, run.batch_size or graphs) if dataset.level == "graph" else graphs
    share = batch / graphs
    nodes, edges = share * dataset.x.size(0), share * dataset.edge_index.size(1)
    found = relations_of(run, dataset)
    relations = found if isinstance(found, int) else max(found)
    conv = MODELS[run.model]
    per_edge = width if conv.takes_edge_attr or conv.edge_norm is None else 4
    data = dataset.x.numel() * number + 64 * dataset.edge_index.size(1)
    return float(data + run.layers * number * (nodes * width * (4 + relations) + 2 * edges * per_edge))


def _parameter_bytes(run: Run, dataset: PackedDataset) -> float:
    return 4.0 * float(sum(each.numel() for each in build_model(run, dataset).parameters()))


def _advice(run: Run, dataset: PackedDataset, width: int, base: float, peak: float, there: float) -> str:
    """Changes that make the run fit into the available memory."""
    share = 0.8 * max(0.0, there - base) / max(1.0, peak - base)
    parts = []
    if dataset.level == "graph" and (run.batch_size or 2) > 1:
        parts.append(f"--batch-size {max(1, int(share * (run.batch_size or len(dataset))))}")
    parts.append(f"--width {max(1, int(share * width))}")
    if run.layers > 1:
        parts.append(f"--layers {max(1, int(share * run.layers))}")
    return f"does not fit into {there / 1e9:.1f} GB; try {', or '.join(parts)}"


def _used(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.memory_allocated(device))
    return _status("VmRSS")


def _status(name: str) -> float:
    """A field of Linux's ``/proc/self/status`` in bytes; 0 on other systems."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text("utf-8").splitlines()
        return 1024.0 * int(next(line for line in lines if line.startswith(name)).split()[1])
    return 0.0


@contextmanager
def _peak_memory(device: torch.device) -> Iterator[list[float]]:
    """Yields a list that holds the peak growth of memory in bytes after the block."""
    found: list[float] = []
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = float(torch.cuda.memory_allocated(device))
        yield found
        found.append(torch.cuda.max_memory_allocated(device) - before)
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # else memory freed earlier would be reused without being counted
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _status("VmRSS")
    yield found
    found.append(max(0.0, _status("VmHWM") - before))

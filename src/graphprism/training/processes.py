"""Devices and processes of a run."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed
from torch import Tensor

from graphprism._checks import check_positive
from graphprism._extras import needs_extra
from graphprism._text import suggest
from graphprism.datasets import PackedDataset
from graphprism.nn.models import MODELS
from graphprism.results import ACCELERATORS
from graphprism.training.run import Run

if TYPE_CHECKING:
    from lightning.fabric import Fabric

# Fabric's own double precision rounds outputs to float32: a network of doubles does better without it.
_PRECISIONS: dict[str, Any] = {"float32": "32-true", "bf16": "bf16-mixed", "float64": "32-true"}


def make_fabric(run: Run, accelerator: str, devices: int, nodes: int) -> Fabric:
    """Lightning's Fabric on these devices, launched: from here on every process runs the same code.

    One process per device. Under torchrun they are running already; otherwise Fabric starts the script again for every
    further device.
    """
    with needs_extra("training"):
        from lightning.fabric import Fabric
        from lightning.fabric.strategies.ddp import DDPStrategy

    accelerator = device_type(accelerator, devices, nodes)
    strategy: Any = "auto"
    if devices * nodes > 1:
        # the edge features that the last layer of a gated network computes are unused
        strategy = DDPStrategy(find_unused_parameters=MODELS[run.model].takes_edge_attr)
    fabric = Fabric(
        accelerator=accelerator,
        strategy=strategy,
        devices=devices,
        num_nodes=nodes,
        precision=_PRECISIONS[run.precision],
    )
    fabric.launch()
    return fabric


def device_type(accelerator: str, devices: int = 1, nodes: int = 1) -> str:
    """``"cpu"`` or ``"cuda"``; raises if the machine has too few devices."""
    for name, value in (("devices", devices), ("nodes", nodes)):
        check_positive(name, value)
    if accelerator not in (*ACCELERATORS, "gpu"):  # what Lightning calls the devices of CUDA
        close = suggest(accelerator, ACCELERATORS) if isinstance(accelerator, str) else ""
        raise ValueError(f"`accelerator` must be one of {', '.join(ACCELERATORS)}, got {accelerator!r}{close}")
    found = torch.cuda.device_count()
    if accelerator == "cpu" or (accelerator == "auto" and not found):
        return "cpu"
    if devices > found:
        raise ValueError(f"`devices` must be at most {found}, the CUDA devices of this machine, got {devices}")
    return "cuda"


def free_memory(device: torch.device) -> float:
    """Bytes that are free on a GPU, or in the machine for a CPU; infinity where the system does not say."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable"))
        return 1024.0 * int(line.split()[1])
    return math.inf


T = TypeVar("T")


def broadcast_from_rank0(fabric: Fabric, action: Callable[[], T]) -> T:
    """Calls ``action`` on rank 0 and returns its result on every rank, or raises its error on all of them.

    Raised on rank 0 only, it would deadlock the other ranks.
    """
    outcome: tuple[T | None, Exception | None] = (None, None)
    if fabric.is_global_zero:
        try:
            outcome = (action(), None)
        except Exception as error:
            outcome = (None, error)
    if fabric.world_size > 1:
        outcome = fabric.broadcast(outcome)
    result, problem = outcome
    if problem is not None:
        raise problem
    return result  # type: ignore[return-value]  # without an error there is a result


class ProcessLost(ConnectionError):
    """Another process of a run has ended, so that this one cannot go on.

    Attributes:
        run: The run.
        checkpoint: Checkpoint of its last epoch; None if there is none.
    """

    def __init__(self, run: Run, checkpoint: Path | None) -> None:
        kept = "no checkpoint was written; start again from the beginning"
        if checkpoint is not None:
            kept = f"start again to go on from {checkpoint}"
        super().__init__(f"another process of {run.title} has ended; {kept}, on any number of devices")
        self.run, self.checkpoint = run, checkpoint

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.run, self.checkpoint)


# Messages of gloo when the process at the other end of a connection has exited; NCCL has its own error class.
_LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Read error", "Write error")


@contextmanager
def noticing_lost_processes(fabric: Fabric, run: Run, checkpoint: Path | None) -> Iterator[None]:
    """Turns connection errors into `ProcessLost`; gloo closes connections when a process exits, so all ranks raise."""
    try:
        yield
    except RuntimeError as error:
        is_lost = isinstance(error, torch.distributed.DistError) or any(word in str(error) for word in _LOST)
        if fabric.world_size == 1 or not is_lost:
            raise
        raise ProcessLost(run, checkpoint if checkpoint is not None and checkpoint.exists() else None) from error


def mean_over_processes(losses: Tensor) -> Tensor:
    """A loss whose gradients, averaged over processes as ``DistributedDataParallel`` does, are those of one process.

    It is the sum of the losses of this process, times the number of processes, divided by the number of losses of all
    processes. Averaged over processes that is the mean over the batch, however it is divided, even if a process has no
    part of it. Without ``torch.distributed`` it is the mean.

    Shapes: ``losses`` (B,) -> ()

    >>> mean_over_processes(torch.tensor([1.0, 3.0]))
    tensor(2.)
    """
    count = torch.tensor(float(losses.numel()), device=losses.device)
    ranks = 1
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(count)
        ranks = torch.distributed.get_world_size()
    return losses.sum() * (ranks / count.clamp(min=1)).to(losses.dtype)


def check_processes(run: Run, dataset: PackedDataset, count: int) -> None:
    """Raises if ``count`` processes would not compute the same as one.

    Batch normalisation is computed over all processes, each of which must have a graph in every step; PyG's other
    normalisations only see the nodes of their own process.
    """
    if count == 1:
        return
    if run.norm not in (None, "batch", "batch_norm", "BatchNorm"):
        raise ValueError(f'`norm` must be None or "batch" on {count} devices, got {run.norm!r}')
    unit = {"graph": "graph", "node": "node", "link": "pair"}[dataset.level]
    if unit == "node":
        rows = int(dataset.train_mask[:, run.fold].sum())  # type: ignore[index]
    else:  # links: as many pairs without an edge are drawn
        rows = dataset.subset("train").numel() * (2 if unit == "pair" else 1)
    batch = run.batch_size or rows
    smallest = min(batch, rows, rows % batch or batch)
    if (run.norm is not None or MODELS[run.model].has_batch_norm) and smallest < count:
        raise ValueError(
            f"`batch_size` must leave each of {count} devices a {unit} of every batch with batch normalisation, got "
            f"{run.batch_size} for {rows} {unit}s, whose smallest batch has {smallest}"
        )


class SyncedBatchNorm(torch.nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d` whose statistics in training are those of the whole batch, not of one process's part.

    `torch.nn.SyncBatchNorm` needs GPUs; this one only needs an all-reduce.

    Shapes: ``x`` (N, F) -> (N, F)
    """

    def forward(self, x: Tensor) -> Tensor:
        """The normalised rows."""
        if not self.training:
            return super().forward(x)
        total = _sum_over_processes(torch.cat([x.sum(dim=0), x.new_full((1,), x.size(0))]))
        number = total[-1].detach()
        mean = total[:-1] / number
        variance = _sum_over_processes((x - mean).square().sum(dim=0)) / number
        self._update(mean.detach(), (variance * number / (number - 1)).detach())
        out = (x - mean) * (variance + self.eps).rsqrt()
        return out * self.weight + self.bias if self.affine else out

    def _update(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        share = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)


def sync_batch_norms(network: torch.nn.Module) -> None:
    """Converts every batch norm of a network to a `SyncedBatchNorm`, in place."""
    for module in network.modules():
        if type(module) is torch.nn.BatchNorm1d:
            module.__class__ = SyncedBatchNorm  # parameters and statistics stay the same tensors, with their names


def _sum_over_processes(tensor: Tensor) -> Tensor:
    total: Tensor = _AllSum.apply(tensor)  # type: ignore[no-untyped-call]
    return total


class _AllSum(torch.autograd.Function):
    """Sum over processes; it enters the losses of all of them, so its gradient is a sum over processes as well."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        total = tensor.clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.contiguous().clone()
        torch.distributed.all_reduce(total)
        return total

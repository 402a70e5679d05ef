"""The devices of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed
from torch import Tensor

from graphprism._checks import check_positive
from graphprism._extras import needs_extra
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

    One process per device. Started by torchrun, the processes are those that it has made; else Fabric starts the script
    once more for every further device.
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
    """``"cpu"`` or ``"cuda"``, checked to be there."""
    for name, value in (("devices", devices), ("nodes", nodes)):
        check_positive(name, value)
    if accelerator not in (*ACCELERATORS, "gpu"):  # what Lightning calls the devices of CUDA
        raise ValueError(f"`accelerator` must be one of {', '.join(ACCELERATORS)}, got {accelerator!r}")
    found = torch.cuda.device_count()
    if accelerator == "cpu" or (accelerator == "auto" and not found):
        return "cpu"
    if devices > found:
        raise ValueError(f"`devices` must be at most {found}, the CUDA devices of this machine, got {devices}")
    return "cuda"


T = TypeVar("T")


def broadcast_from_rank0(fabric: Fabric, action: Callable[[], T]) -> T:
    """Calls ``action`` on rank 0 and gives every process its result, or raises its error in all.

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
        checkpoint: Where its last epoch is kept; None where nothing is.
    """

    def __init__(self, run: Run, checkpoint: Path | None) -> None:
        kept = "no checkpoint was written; start again from the beginning"
        if checkpoint is not None:
            kept = f"start again to go on from {checkpoint}"
        super().__init__(f"another process of {run.title} has ended; {kept}, on any number of devices")
        self.run, self.checkpoint = run, checkpoint

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.run, self.checkpoint)


# What gloo says when a process at the other end of a connection is gone; NCCL has an error of its own.
_LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Read error", "Write error")


@contextmanager
def noticing_lost_processes(fabric: Fabric, run: Run, checkpoint: Path | None) -> Iterator[None]:
    """Turns errors of connections into one sentence; gloo breaks them as soon as a process ends, so all of them end."""
    try:
        yield
    except RuntimeError as error:
        is_lost = isinstance(error, torch.distributed.DistError) or any(word in str(error) for word in _LOST)
        if fabric.world_size == 1 or not is_lost:
            raise
        raise ProcessLost(run, checkpoint if checkpoint is not None and checkpoint.exists() else None) from error


def mean_over_processes(losses: Tensor) -> Tensor:
    """A loss whose gradients, averaged over processes as ``DistributedDataParallel`` does, are those of one process.

    It is the sum of the losses of this process, times the number of processes, divided by the losses of all: the mean
    of a batch that was divided in any way, also where a process has none of it. Without ``torch.distributed`` it is the
    mean.

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
    """Raises where ``count`` processes would not compute what one does.

    Batch normalisation is computed over all of them; other normalisations of PyG take the nodes that they see for all
    there are. A process without a graph in some step can have no part in batch normalisation.
    """
    if count == 1:
        return
    if run.norm not in (None, "batch", "batch_norm", "BatchNorm"):
        raise ValueError(f'`norm` must be None or "batch" on {count} devices, got {run.norm!r}')
    unit = {"graph": "graph", "node": "node", "link": "pair"}[dataset.level]
    if unit == "node":
        rows = int(dataset.train_mask[:, run.fold].sum())  # type: ignore[index]
    else:  # of links there are as many pairs without an edge
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

    torch has the same for GPUs alone; this runs wherever processes can add up their tensors.

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
    """Lets every batch normalisation of a network see all processes."""
    for module in network.modules():
        if type(module) is torch.nn.BatchNorm1d:
            module.__class__ = SyncedBatchNorm  # weights and statistics stay where they are, under their names


def _sum_over_processes(tensor: Tensor) -> Tensor:
    total: Tensor = _AllSum.apply(tensor)  # type: ignore[no-untyped-call]
    return total


class _AllSum(torch.autograd.Function):
    """What each process adds counts in the losses of all, so the gradient is a sum over processes as well."""

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

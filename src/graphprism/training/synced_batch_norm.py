"""Batch normalisation over the rows of all processes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor


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

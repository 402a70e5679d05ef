"""Runs that are trained together: one epoch of all of them, and their evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.training.lockstep.captured import Captured
from graphprism.training.lockstep.data import Rows, TableDataset
from graphprism.training.lockstep.networks import Networks
from graphprism.training.lockstep.step import LockstepStep
from graphprism.training.optim import epoch_order, learning_rate, mixed_seed
from graphprism.training.run import Run

# Steps that are laid ready at once, and nodes of all runs that are evaluated at once.
_STEPS = 320
_EVALUATED = 1 << 20
# Graphs that are evaluated at once: their sums look at every row for every few of them, on a CPU by a matrix with a row
# for each.
_READ_OUT = 2048
# Batches are filled up to one of a few lengths: a tenth of the steps of the first epoch fits the first, all fit the
# last but one, and the last has room for larger ones. On ZINC this spares 9 to 15 % of the rows.
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_MARGIN = 1.05
_MULTIPLE = 16


@dataclass(frozen=True)
class LockstepEpoch:
    """What an epoch gave, a row for each run, on the CPU.

    Attributes:
        loss: (K,) mean loss over the training graphs.
        bad_step: (K,) first step whose loss is not finite, counted from 1; 0 where there is none.
        output: (K, G, T) outputs in training, where they were kept.
        target: (K, G, T) targets in the same order.
    """

    loss: Tensor
    bad_step: Tensor
    output: Tensor | None
    target: Tensor | None


class LockstepGroup:
    """K runs on one device, each with its own weights, order of data and learning rate.

    Args:
        runs: Runs that differ only in seed, learning rate and weight decay.
        dataset: What they train on.
        data: The same as tables, on the device.
        device: Where they run.
        keep_outputs: Whether to keep what the networks say in training, for scores that are not the loss.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        dataset: PackedDataset,
        data: TableDataset,
        device: torch.device,
        keep_outputs: bool = False,
    ) -> None:
        self.runs, self._dataset, self._data, self._device, self._keeps = runs, dataset, data, device, keep_outputs
        self.networks = Networks(runs, dataset, data, device)
        self._train = dataset.subset("train").cpu()
        self._sizes = data.sizes.cpu()
        self._steps = -(-self._train.numel() // runs[0].batch_size)
        self._ahead: tuple[int, Tensor] | None = None
        needed = self._sizes[self.graphs(0)].sum(-1).amax(1).tolist()
        self._step: LockstepStep
        self._captured: dict[int, Captured] = {}
        self._make_step(max(needed), needed)
        self._subsets: dict[str, tuple[list[Rows], list[Tensor], Captured]] = {}

    def state(self) -> dict[str, Tensor]:
        """All that training changes; copying into these tensors takes the group back."""
        return self._step.state()

    def train_epoch(self, epoch: int) -> LockstepEpoch:
        """One pass over the training graphs; ``epoch`` is counted from 0. The device is waited for at the end only."""
        graphs = self.graphs(epoch)
        self.begin(epoch)
        torch.manual_seed(mixed_seed("dropout", *(run.seed for run in self.runs), epoch))
        losses, outputs = [], []
        for part in graphs.split(_STEPS):
            for step in self.lay_ready(part):
                step()
            losses.append(self._step.losses[: part.size(0)].clone())
            outputs.append(None if self._step.outputs is None else self._step.outputs[: part.size(0)].clone())
        if epoch + 1 < self.runs[0].epochs:
            self._ahead = epoch + 1, self._new_graphs(epoch + 1)  # while the device is busy
        return self._epoch(graphs, torch.cat(losses).double().cpu(), outputs)

    def begin(self, epoch: int) -> None:
        """Sets the learning rates of an epoch."""
        rates = torch.tensor([learning_rate(run, epoch) for run in self.runs], dtype=torch.float64)
        self._step.lr.copy_(rates)

    def lay_ready(self, graphs: Tensor) -> list[Captured]:
        """Lays steps ready, (S, K, B) graphs on the CPU, and gives what takes each of them."""
        needed = self._sizes[graphs].sum(-1).amax(1).tolist()
        if max(needed) > self._step.length:  # rare: the shape grows, and the steps are captured again
            self._make_step(max(needed), needed)
        self._step.fill(graphs.to(self._device))
        return [next(step for length, step in self._captured.items() if length >= nodes) for nodes in needed]

    def evaluate(self, subset: str) -> tuple[Tensor, Tensor]:
        """Outputs (K, G, T) and targets (G, ...) of a subset, on the device."""
        graphs = self._dataset.subset(subset).to(self._device)
        if subset not in self._subsets:
            self._subsets[subset] = self._make_subset(graphs)
        _, outputs, captured = self._subsets[subset]
        captured()
        return torch.cat(outputs, dim=1), self._data.y[graphs]

    def measure(self) -> None:
        """One step and one evaluation, for what they take; the weights are changed."""
        self._step.fill(self.graphs(0)[: self._step.steps].to(self._device))
        self._step.step(self._step.length)
        for subset in ("val", "test"):
            self.evaluate(subset)

    def _make_step(self, longest: int, needed: list[int]) -> None:
        """A step for batches of up to ``longest`` nodes, with shorter forms for what most steps need."""
        before = {**self._step.state(), "lr": self._step.lr} if self._captured else {}
        lengths = sorted({*(_rounded(_quantile(needed, share)) for share in _SHARES), _rounded(longest * _MARGIN)})
        steps, count = min(self._steps, _STEPS), len(self.runs)
        self._step = LockstepStep(self.runs, self.networks, self._data, steps, lengths[-1], self._dataset.task)
        if self._keeps:
            shape = (steps, count, self.runs[0].batch_size, self._dataset.num_outputs)
            self._step.outputs = self._step.lr.new_zeros(shape)
        # in the middle of an epoch its learning rate counts, too
        after = {**self._step.state(), "lr": self._step.lr}
        for name, tensor in before.items():
            after[name].copy_(tensor)
        state = [*self._step.state().values(), *self._step.derived()]
        self._captured = {length: Captured(partial(self._step.step, length), state) for length in lengths}

    def _make_subset(self, graphs: Tensor) -> tuple[list[Rows], list[Tensor], Captured]:
        count = len(self.runs)
        nodes = int(self._data.sizes[graphs].sum())
        parts = graphs.split(min(_READ_OUT, max(1, graphs.numel() * _EVALUATED // max(1, nodes * count))))
        rows = []
        for part in parts:
            one = self._data.rows(part[None], int(self._data.sizes[part].sum()))
            rows.append(Rows(one.node.expand(count, -1).contiguous(), one.owner.expand(count, -1).contiguous()))
        width = self._dataset.num_outputs
        outputs = [self._step.lr.new_zeros(count, part.numel(), width) for part in parts]

        def run() -> None:
            for chosen, target in zip(rows, outputs, strict=True):
                target.copy_(self._step.evaluate(chosen, target.size(1)))

        return rows, outputs, Captured(run, outputs)

    def graphs(self, epoch: int) -> Tensor:
        """(S, K, B) graphs of every step of an epoch, on the CPU."""
        return self._ahead[1] if self._ahead and self._ahead[0] == epoch else self._new_graphs(epoch)

    def _new_graphs(self, epoch: int) -> Tensor:
        """(S, K, B) graphs of every step, on the CPU; the last batch is filled up with graphs that are none."""
        count = self._train.numel()
        orders = torch.stack([self._train[epoch_order(run.seed, epoch, count)] for run in self.runs])
        rest = self._steps * self.runs[0].batch_size - count
        full = torch.cat([orders, orders.new_full((len(self.runs), rest), self._sizes.numel() - 1)], dim=1)
        return full.view(len(self.runs), self._steps, -1).transpose(0, 1).contiguous()

    def _epoch(self, graphs: Tensor, losses: Tensor, outputs: list[Tensor | None]) -> LockstepEpoch:
        there = graphs != self._sizes.numel() - 1  # (S, K, B)
        weight = there.sum(-1).double()
        bad = ~losses.isfinite()
        first = torch.where(bad.any(0), bad.int().argmax(0) + 1, 0)
        loss = (losses * weight).sum(0) / weight.sum(0)
        if not self._keeps:
            return LockstepEpoch(loss, first, None, None)
        kept = torch.cat([each for each in outputs if each is not None]).cpu()  # (S, K, B, T)
        shape = (len(self.runs), self._train.numel(), -1)
        output = kept.transpose(0, 1)[there.transpose(0, 1)].view(shape)
        target = self._data.y.cpu()[graphs].transpose(0, 1)[there.transpose(0, 1)]
        return LockstepEpoch(loss, first, output, target.view(shape) if target.dim() > 1 else target.view(shape[:2]))


def _quantile(values: list[int], share: float) -> int:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def _rounded(length: float) -> int:
    return -(-int(length) // _MULTIPLE) * _MULTIPLE

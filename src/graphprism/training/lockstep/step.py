"""One training step of many runs, and the evaluation of all of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphprism.ops.batched.step import absolute_loss, adam_step, take_row
from graphprism.training.lockstep.data import Inputs, Rows, TableDataset
from graphprism.training.lockstep.networks import Networks
from graphprism.training.optim import IS_DECOUPLED
from graphprism.training.run import Run
from graphprism.training.task import Task


class LockstepStep:
    """Optimiser state of K runs and one training step for all of them, without host-device syncs.

    The batches of a part of an epoch are staged in tensors with one row per step; a counter on the device selects the
    row, so that one captured step serves all of them.

    Args:
        runs: The runs.
        networks: Their networks.
        data: What they train on.
        task: Defines the loss.
        steps: Steps that are staged at once, at most.
        batch_size: Graphs of a batch.
        length: Nodes of a batch, at most.

    Attributes:
        lr: (K,) learning rates of the epoch.
        losses: (S, K) mean losses of the steps.
        outputs: (S, K, B, T) outputs of the steps, if they are needed for scores.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        networks: Networks,
        data: TableDataset,
        task: Task,
        *,
        steps: int,
        batch_size: int,
        length: int,
    ) -> None:
        self._run, self._networks, self._data, self._task = runs[0], networks, data, task
        self._batch_size = batch_size
        weight = networks.parameters.flat
        device, dtype, count, batch = weight.device, weight.dtype, len(runs), batch_size
        self.length = length
        self.first, self.second = torch.zeros_like(weight), torch.zeros_like(weight)
        self.lr = torch.zeros(count, dtype=dtype, device=device)
        self._decay = torch.tensor([run.weight_decay for run in runs], dtype=dtype, device=device)
        # in one tensor, so that one kernel increments both
        self._counters = torch.zeros(2, dtype=torch.long, device=device)
        self.count, self.turn = self._counters[0], self._counters[1:]
        empty = torch.full((steps, count, batch), data.no_graph, device=device)
        self._inputs = self._lay_ready(empty)
        self._y = data.y[empty]
        self._share = torch.zeros(steps, count, batch, dtype=dtype, device=device)
        self.losses = torch.zeros(steps, count, dtype=dtype, device=device)
        self.outputs: Tensor | None = None

    @property
    def steps(self) -> int:
        """Most steps that can be staged at once."""
        return self.losses.size(0)

    def state(self) -> dict[str, Tensor]:
        """All tensors that a step changes, for saving and restoring."""
        named = {"weight": self._networks.parameters.flat, "first": self.first, "second": self.second}
        buffers = {f"buffer.{name}": buffer for name, buffer in self._networks.parameters.buffers.items()}
        return {**named, "count": self.count, "turn": self.turn, **buffers}

    def derived(self) -> list[Tensor]:
        """Tensors that a step computes from its `state`; `fill` recomputes them."""
        used = self._networks.parameters.used
        return [] if used is None else [used]

    def fill(self, graphs: Tensor) -> None:
        """Stages the batches of (S, K, B) graphs and starts at the first."""
        self._networks.parameters.refresh()
        steps = graphs.size(0)
        for target, value in zip(self._inputs.tensors(), self._lay_ready(graphs).tensors(), strict=True):
            if target is not None and value is not None:
                target[:steps] = value
        self._y[:steps] = self._data.y[graphs]
        there = (graphs != self._data.no_graph).to(self._share.dtype)
        self._share[:steps] = there / there.sum(-1, keepdim=True)
        self.turn.zero_()

    def step(self, length: int) -> None:
        """Forward, loss, backward, clipping and optimiser for the current batch, of up to ``length`` nodes."""
        parameters = self._networks.parameters
        leaves = parameters.leaves()
        inputs, target, share = self._now(length)
        output = self._networks(leaves, inputs, self._batch_size, training=True)
        grad = self._loss(output, target, share)
        found = torch.autograd.grad(output, list(leaves.values()), grad, allow_unused=True)
        if self.outputs is not None:
            self.outputs.index_copy_(0, self.turn, output.detach()[None].to(self.outputs.dtype))
        self._counters += 1
        adam_step(
            parameters.flat,
            parameters.pieces(dict(zip(leaves, found, strict=True))),
            self.first,
            self.second,
            begins=parameters.begins,
            lr=self.lr,
            decay=self._decay,
            count=self.count,
            clip=self._run.clip,
            decoupled=IS_DECOUPLED[self._run.optimizer],
            used=parameters.used,
            coordinates=parameters.coordinates,
        )

    @torch.no_grad()
    def evaluate(self, rows: Rows, num_graphs: int) -> Tensor:
        """Outputs of all runs on one batch, (K, B, T)."""
        self._networks.parameters.refresh()
        leaves = self._networks.parameters.leaves()
        return self._networks(leaves, self._data.inputs(rows), num_graphs, training=False)

    def _lay_ready(self, graphs: Tensor) -> Inputs:
        rows = self._data.together(self._data.rows(graphs.flatten(0, 1), self.length))
        return self._data.inputs(rows).unflatten(graphs.shape[:2])

    def _now(self, length: int) -> tuple[Inputs, Tensor, Tensor]:
        """Inputs, targets and shares of the current step; rows beyond ``length`` are padding."""
        inputs = self._inputs.cut(length)
        there = [each for each in inputs.tensors() if each is not None]
        rows = iter(take_row([*there, self._y, self._share], self.turn))
        return inputs.map(lambda _: next(rows)), next(rows), next(rows)

    def _loss(self, output: Tensor, target: Tensor, share: Tensor) -> Tensor:
        """Stores the mean loss of each run and returns its gradient with respect to ``output``."""
        if self._task.scores_are_losses:  # by hand: one kernel instead of ten
            return absolute_loss(output, target, share, self.losses, self.turn)
        leaf = output.detach().to(share.dtype).requires_grad_()
        each = self._task.losses(leaf.flatten(0, 1), target.flatten(0, 1)).view(share.shape)
        loss = (each * share).sum(-1)
        (grad,) = torch.autograd.grad(loss.sum(), leaf)
        self.losses.index_copy_(0, self.turn, loss.detach()[None])
        return grad.to(output.dtype)

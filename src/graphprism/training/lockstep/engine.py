"""K runs on graphs, trained in lockstep: one captured step moves all of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.training.engine import RunState, TrainedEpoch
from graphprism.training.lockstep.captured import Captured
from graphprism.training.lockstep.data import Rows, TableDataset
from graphprism.training.lockstep.networks import Networks
from graphprism.training.lockstep.step import LockstepStep
from graphprism.training.optim import epoch_order, mixed_seed
from graphprism.training.run import Run
from graphprism.training.schedule import learning_rate
from graphprism.training.task import Task

# Steps that are staged at once.
_STEPS = 320
# Numbers of one state of all runs that are evaluated at once, of slots where edges have features. Of four runs with 256
# channels on molhiv, ten slots a node, the slots of 2048 graphs would be 2.3 GB, and there are several such tensors.
_EVALUATED = 1 << 27
# Graphs that are evaluated at once: a GPU reads all rows once for every few graphs to sum them, a CPU multiplies them
# by a (graphs, rows) matrix.
_READ_OUT = 2048
# Batches are padded to one of a few lengths: quantiles of the batch sizes of the first epoch, and their maximum times a
# margin for larger ones. On ZINC this saves 9 to 15 % of the rows.
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_MARGIN = 1.05
_MULTIPLE = 16


class LockstepEngine:
    """K runs on one device, each with its own weights, permutation of data and learning rate.

    Args:
        runs: Runs that differ only in seed, learning rate and weight decay.
        dataset: What they train on.
        data: The same as tables, on the device.
        device: Where they run.
    """

    name, processes, steps = "lockstep", 1, "steps in lockstep"

    def __init__(self, runs: Sequence[Run], dataset: PackedDataset, data: TableDataset, device: torch.device) -> None:
        self.runs, self.device, self._dataset, self._data = list(runs), device, dataset, data
        self._task = Task.of(dataset, self.runs[0])
        self.networks = Networks(runs, dataset, data, device)
        self._train = dataset.subset("train").cpu()
        self._sizes = data.sizes.cpu()
        self._steps = -(-self._train.numel() // self._batch_size)
        self._ahead: tuple[int, Tensor] | None = None
        needed = self._sizes[self.graphs(0)].sum(-1).amax(1).tolist()
        self._step: LockstepStep
        self._captured: dict[int, Captured] = {}
        self._make_step(max(needed), needed)
        self._folds: dict[str, tuple[list[Rows], list[Tensor], Captured]] = {}
        self._best = {name: tensor.clone() for name, tensor in self._network_state().items()}
        self._has_best = [False for _ in runs]

    def width(self, number: int) -> int:
        """Channels of a hidden layer, without padding."""
        return self.networks.width

    def parameters(self, number: int) -> int:
        """Trained parameters of one run."""
        return self.networks.count

    def train_epoch(self, epoch: int, active: Sequence[bool] = ()) -> TrainedEpoch:
        """One pass over the training graphs; a host-device sync at the end only.

        Inactive runs are trained as well: the cost of a step does not depend on them.
        """
        begin = time.perf_counter()
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
        found = torch.cat(losses).double().cpu()
        seconds = time.perf_counter() - begin
        return self._numbers(graphs, found, [each for each in outputs if each is not None], seconds)

    def evaluate(self, fold: str) -> tuple[list[float], list[bool]]:
        """Scores of all runs on a fold, and whether all of their outputs were finite."""
        output, target = self.outputs_of(fold)
        scores = self._task.scores(output, target.expand(len(self.runs), *target.shape))
        return scores, output.isfinite().flatten(1).all(1).tolist()

    @property
    def is_current(self) -> bool:
        """Always True: `train_epoch` returns when the device has finished."""
        return True

    def keep_best(self, better: Sequence[bool]) -> None:
        """Copies the weights of the runs that are at their best so far; no host-device sync."""
        if not any(better):
            return
        self._has_best = [a or b for a, b in zip(self._has_best, better, strict=True)]
        chosen = torch.tensor(better, device=self.device)
        for name, tensor in self._network_state().items():
            here = chosen.view(-1, *[1] * (tensor.dim() - 1))
            self._best[name] = torch.where(here, tensor, self._best[name])

    def state(self, number: int) -> RunState:
        """One run at its own width, on the CPU."""
        parameters = self.networks.parameters
        buffers = {name: tensor for name, tensor in self._best.items() if name != "weight"}
        best = parameters.extract(number, self._best["weight"], buffers) if self._has_best[number] else None
        return RunState(
            model=parameters.extract(number),
            first=parameters.extract_rows(number, self._step.first),
            second=parameters.extract_rows(number, self._step.second),
            steps=int(self._step.count),
            best=best,
        )

    def load(self, number: int, state: RunState, best_score: float | None = None, since_best: int = 0) -> None:
        """Restores what `state` returned; runs that are resumed together have taken the same number of steps."""
        parameters = self.networks.parameters
        parameters.load(number, state["model"])
        parameters.load_rows(number, state["first"], self._step.first)
        parameters.load_rows(number, state["second"], self._step.second)
        self._step.count.fill_(state["steps"])
        if state["best"] is not None:
            buffers = {name: tensor for name, tensor in self._best.items() if name != "weight"}
            parameters.load(number, state["best"], self._best["weight"], buffers)
            self._has_best[number] = True

    @property
    def _batch_size(self) -> int:
        return self.runs[0].batch_size or self._train.numel()

    def _network_state(self) -> dict[str, Tensor]:
        """Weights and buffers of all networks, which change in place."""
        parameters = self.networks.parameters
        return {"weight": parameters.flat, **parameters.buffers}

    def begin(self, epoch: int) -> None:
        """Sets the learning rates of an epoch."""
        rates = torch.tensor([learning_rate(run, epoch) for run in self.runs], dtype=torch.float64)
        self._step.lr.copy_(rates)

    def lay_ready(self, graphs: Tensor) -> list[Captured]:
        """Stages the batches of (S, K, B) graphs on the CPU; returns one callable per step."""
        needed = self._sizes[graphs].sum(-1).amax(1).tolist()
        if max(needed) > self._step.length:  # rare: the shape grows, and the steps are captured again
            self._make_step(max(needed), needed)
        self._step.fill(graphs.to(self.device))
        return [next(step for length, step in self._captured.items() if length >= nodes) for nodes in needed]

    def outputs_of(self, fold: str) -> tuple[Tensor, Tensor]:
        """Outputs (K, G, T) and targets (G, ...) of a fold, on the device."""
        graphs = self._dataset.subset(fold).to(self.device)
        if fold not in self._folds:
            self._folds[fold] = self._make_fold(graphs)
        _, outputs, captured = self._folds[fold]
        captured()
        return torch.cat(outputs, dim=1), self._data.y[graphs]

    def measure(self) -> None:
        """One step and one evaluation, to measure their memory; the weights are changed."""
        self._step.fill(self.graphs(0)[: self._step.steps].to(self.device))
        self._step.step(self._step.length)
        for fold in ("val", "test"):
            self.outputs_of(fold)

    def _make_step(self, longest: int, needed: list[int]) -> None:
        """A step for batches of up to ``longest`` nodes, and shorter ones for the sizes that most batches have."""
        before = {**self._step.state(), "lr": self._step.lr} if self._captured else {}
        lengths = sorted({*(_rounded(_quantile(needed, share)) for share in _SHARES), _rounded(longest * _MARGIN)})
        steps, count = min(self._steps, _STEPS), len(self.runs)
        self._step = LockstepStep(
            self.runs,
            self.networks,
            self._data,
            self._task,
            steps=steps,
            batch_size=self._batch_size,
            length=lengths[-1],
        )
        if not self._task.scores_are_losses:  # outputs are kept for scores that are not the loss
            shape = (steps, count, self._batch_size, self._dataset.num_outputs)
            self._step.outputs = self._step.lr.new_zeros(shape)
        # the learning rate too: an epoch may be under way
        after = {**self._step.state(), "lr": self._step.lr}
        for name, tensor in before.items():
            after[name].copy_(tensor)
        state = [*self._step.state().values(), *self._step.derived()]
        self._captured = {length: Captured(partial(self._step.step, length), state) for length in lengths}

    def _make_fold(self, graphs: Tensor) -> tuple[list[Rows], list[Tensor], Captured]:
        count = len(self.runs)
        numbers = int(self._data.sizes[graphs].sum()) * count * self._data.rows_a_node * self.networks.width
        parts = graphs.split(min(_READ_OUT, max(1, graphs.numel() * _EVALUATED // max(1, numbers))))
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
        """(S, K, B) graphs of every step, on the CPU; the last batch is padded with graphs without nodes."""
        count = self._train.numel()
        orders = torch.stack([self._train[epoch_order(run.seed, epoch, count)] for run in self.runs])
        rest = self._steps * self._batch_size - count
        full = torch.cat([orders, orders.new_full((len(self.runs), rest), self._sizes.numel() - 1)], dim=1)
        return full.view(len(self.runs), self._steps, -1).transpose(0, 1).contiguous()

    def _numbers(self, graphs: Tensor, losses: Tensor, outputs: list[Tensor], seconds: float) -> TrainedEpoch:
        """Results of an epoch from (S, K) losses and, where they were kept, (S, K, B, T) outputs."""
        there = graphs != self._sizes.numel() - 1  # (S, K, B)
        weight = there.sum(-1).double()
        bad = ~losses.isfinite()
        loss = (losses * weight).sum(0) / weight.sum(0)
        score = loss.tolist()
        if not self._task.scores_are_losses:
            kept = torch.cat(outputs).cpu()
            shape = (len(self.runs), self._train.numel(), -1)
            output = kept.transpose(0, 1)[there.transpose(0, 1)].view(shape)
            target = self._data.y.cpu()[graphs].transpose(0, 1)[there.transpose(0, 1)]
            score = self._task.scores(output, target.view(shape) if target.dim() > 1 else target.view(shape[:2]))
        return TrainedEpoch(
            loss=loss.tolist(),
            score=score,
            bad_step=torch.where(bad.any(0), bad.int().argmax(0) + 1, 0).tolist(),
            steps=self._steps,
            step_ms=1e3 * seconds / self._steps / len(self.runs),
            seconds=seconds,
        )


def _quantile(values: list[int], share: float) -> int:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def _rounded(length: float) -> int:
    return -(-int(length) // _MULTIPLE) * _MULTIPLE

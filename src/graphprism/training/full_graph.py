"""Runs on the nodes of one graph: every step takes the whole graph, and many runs share one device."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.training.build_model import build_model, width_of
from graphprism.training.engine import RunState, TrainedEpoch
from graphprism.training.lockstep.captured import recording
from graphprism.training.node_data import NodeData, input_dropout
from graphprism.training.optim import (
    load_moments,
    make_optimizer,
    mixed_seed,
    moments,
    names_of,
    parameter_groups,
    set_learning_rate,
)
from graphprism.training.run import Run
from graphprism.training.schedule import learning_rate
from graphprism.training.task import Task

# Epochs that a GPU runs before their results are read, which is a host-device sync.
_EPOCHS_AHEAD = 32
# Most runs on a device: with more its utilisation would not rise, and each takes seconds to capture.
_MOST_RUNS = 40
_WARM_UPS = 3
_FOLDS = {"train": 1, "val": 2, "test": 3}


class FullGraphEngine:
    """K runs on the nodes of one graph, which may differ in fold, seed, learning rate or model.

    Each has its own weights and gives the same results as alone. The graph is split and sorted once. On a GPU every run
    is a captured step on its own stream, and epochs run ahead of the session, which reads their results later: the
    best weights are therefore selected on the device.

    Args:
        runs: What to train; the engine takes as many of the first ones as fit into memory, at least one.
        dataset: Their data set.
        device: Where to train.
        shared: Prepared graphs by `NodeData.key`; further engines may be given the same dictionary.
    """

    processes = 1

    def __init__(
        self,
        runs: Sequence[Run],
        dataset: PackedDataset,
        device: torch.device,
        shared: dict[object, NodeData] | None = None,
    ) -> None:
        self.device = device
        self._steps: list[FullGraphStep] = []
        self._block: list[dict[int, tuple[float, ...]]] = []
        self._last: dict[int, tuple[float, ...]] = {}
        self._seconds = 0.0
        shared = {} if shared is None else shared
        free, largest = _free_bytes(device), 0.0
        for run in runs[:_MOST_RUNS]:
            key = NodeData.key(run)
            if key not in shared:
                shared[key] = NodeData.prepare(run, dataset, device)
            make = CapturedFullGraphStep if device.type == "cuda" else FullGraphStep
            self._steps.append(make(run, build_model(run, dataset), shared[key], Task.of(dataset, run).weights))
            left = _free_bytes(device)
            largest, free = max(largest, free - left if left < free else 0.0), left
            if left < 2 * largest:
                break
        self.runs = list(runs[: len(self._steps)])
        self._widths = [width_of(run, dataset) for run in self.runs]
        self.name = "eager" if len(self.runs) == 1 else "lockstep"
        self.steps = "captured steps" if device.type == "cuda" else "plain steps"

    def width(self, number: int) -> int:
        """Channels of a hidden layer of a run."""
        return self._widths[number]

    def parameters(self, number: int) -> int:
        """Trained parameters of a run."""
        return sum(weight.numel() for weight in self._steps[number].model.parameters())

    def train_epoch(self, epoch: int, active: Sequence[bool]) -> TrainedEpoch:
        """One step on all nodes for every active run; the device may already be working on later epochs."""
        chosen = [number for number, is_active in enumerate(active) if is_active]
        if not self._block:
            ahead = _EPOCHS_AHEAD if self.device.type == "cuda" else 1
            left = min(self.runs[number].epochs for number in chosen) - epoch
            self._block = [{} for _ in range(min(ahead, left))]
        if missing := [number for number in chosen if number not in self._block[0]]:
            self._run_block(epoch, missing)
        self._last = self._block.pop(0)
        rows = [self._last.get(number, (math.nan,) * 5) for number in range(len(self.runs))]
        return TrainedEpoch(
            loss=[row[0] for row in rows],
            score=[row[_FOLDS["train"]] for row in rows],
            bad_step=[int(not math.isfinite(row[0])) for row in rows],
            steps=1,
            step_ms=1e3 * self._seconds / max(1, len(chosen)),
            seconds=self._seconds,
        )

    def evaluate(self, fold: str) -> tuple[list[float], list[bool]]:
        """Accuracies after the last epoch that `train_epoch` returned, which has computed them."""
        rows = [self._last.get(number, (math.nan,) * 5) for number in range(len(self.runs))]
        return [row[_FOLDS[fold]] for row in rows], [row[4] > 0 for row in rows]

    @property
    def is_current(self) -> bool:
        """Whether no run is ahead of the last epoch that was returned."""
        return not self._block

    def keep_best(self, better: Sequence[bool]) -> None:
        """No-op: the step selects the best weights on the device, by the same rule."""

    def state(self, number: int) -> RunState:
        """Copies of weights, moments of the optimiser and best weights, on the CPU."""
        step = self._steps[number]
        step.wait()
        first, second, steps = moments(step.model, step.optimizer)
        model = {name: value.to("cpu", copy=True) for name, value in step.model.state_dict().items()}
        best = {name: value.to("cpu", copy=True) for name, value in step.best.items()}
        has_best = int(step.best_count) >= 0
        return RunState(model=model, first=first, second=second, steps=steps, best=best if has_best else None)

    def load(self, number: int, state: RunState, best_score: float | None = None, since_best: int = 0) -> None:
        """Restores what `state` returned."""
        self._steps[number].load(state, best_score, since_best)

    def _run_block(self, epoch: int, chosen: Sequence[int]) -> None:
        """Trains these runs side by side for the epochs of the block, and reads their results."""
        begin = time.perf_counter()
        for later in range(len(self._block)):
            for number in chosen:
                self._steps[number](epoch + later)
        for number in chosen:
            for row, numbers in zip(self._block, self._steps[number].read(), strict=True):
                row[number] = numbers
        self._seconds = (time.perf_counter() - begin) / len(self._block)


class FullGraphStep:
    """Trains one network on all nodes, one epoch per call, without host-device syncs.

    Dropout depends only on the seed of the run and the epoch: a run that is resumed, or trained beside others, drops
    the same entries.

    Args:
        run: What to train.
        model: Its network.
        data: Its graph, on the device to train on.
        weights: Weight of each class in the loss; None weighs all nodes equally.
    """

    def __init__(
        self, run: Run, model: torch.nn.Module, data: NodeData, weights: Sequence[float] | None = None
    ) -> None:
        device = data.x.device
        self.run, self.data = run, data
        self.model = model.to(device, data.x.dtype)
        self.masks = data.masks[:, :, run.fold].contiguous()  # (3, N)
        self.totals: list[int] = self.masks.sum(1).tolist()
        self.share = self.masks[0].to(data.x.dtype) / max(1, self.totals[0])  # of each node in the loss
        if weights is not None:
            self.share = self.share * torch.tensor(weights, dtype=data.x.dtype, device=device)[data.y]
        self.optimizer = make_optimizer(run, parameter_groups(run, self.model), capturable=device.type == "cuda")
        # a captured step reads a varying learning rate from the device, in float32; a constant one stays in float64
        self._rates: list[Tensor] = []
        if device.type == "cuda" and (run.schedule != "constant" or run.warmup):
            self._rates = [torch.zeros((), device=device) for _ in self.optimizer.param_groups]
            for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
                group["lr"] = rate
        self.generator = torch.Generator(device)
        self.log = torch.zeros(_EPOCHS_AHEAD, 5, dtype=torch.float64, device=device)
        self.slot = torch.zeros(1, dtype=torch.long, device=device)
        # the best epoch so far: its weights, how many validation nodes were right, and how many epochs ago it was
        self.best = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.best_count = torch.full((), -1, device=device)
        self.since_best = torch.zeros((), dtype=torch.long, device=device)
        self.is_good = torch.ones((), dtype=torch.bool, device=device)

    def __call__(self, epoch: int) -> None:
        """Trains for one epoch, counted from 0, and logs its results on the device."""
        self.begin(epoch)
        self.step()

    def begin(self, epoch: int) -> None:
        """Sets the dropout seed and the learning rate of an epoch."""
        self.generator.manual_seed(mixed_seed("dropout", self.run.seed, epoch + 1))
        rate = learning_rate(self.run, epoch)
        for group, own in zip(self.optimizer.param_groups, self._rates, strict=bool(self._rates)):
            own.fill_(rate * group.get("lr_factor", 1.0))
        if self.data.x.device.type == "cpu":
            set_learning_rate(self.optimizer, rate)

    def step(self) -> None:
        """The work on the device: the same operations on the same memory in every epoch."""
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._loss(self._outputs())
        loss.backward()
        if self.run.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.run.clip)
        self.optimizer.step()
        self.model.eval()
        with torch.no_grad():
            out = self._outputs()
            # integers: two epochs with the same number of correct nodes must not differ by rounding
            counts = (self.masks & (out.argmax(dim=-1) == self.data.y)).sum(1)
            is_finite = out.isfinite().all()
            self._choose_best(counts[1], loss.detach().isfinite() & is_finite)
        numbers = torch.cat([loss.detach().double()[None], counts.double(), is_finite.double()[None]])
        self.log.index_copy_(0, self.slot, numbers[None])
        self.slot.add_(1)

    def _choose_best(self, count: Tensor, is_finite: Tensor) -> None:
        """Keeps the weights if the session will call this epoch the best so far; see `Progress.add`."""
        self.is_good.logical_and_(is_finite)
        # without validation nodes no epoch is the best
        better = self.is_good & (count > self.best_count) & bool(self.totals[1])
        if self.run.patience is not None:  # the session stops earlier; this epoch ran ahead of it
            better = better & (self.since_best < self.run.patience)
        self.best_count.copy_(torch.where(better, count, self.best_count))
        self.since_best.copy_(torch.where(better, 0, self.since_best + 1))
        for name, value in self.model.state_dict().items():
            torch.where(better, value, self.best[name], out=self.best[name])

    def _outputs(self) -> Tensor:
        device = self.data.x.device.type
        drops = self.run.input_dropout and self.model.training
        x = input_dropout(self.data.x, self.run.dropout, self.generator) if drops else self.data.x
        # without the autocast cache: a captured step would treat the cast weights in it as constants
        with torch.autocast(device, torch.bfloat16, enabled=self.run.precision == "bf16", cache_enabled=False):
            out: Tensor = self.model(x, self.data.adj, generator=self.generator)
        return out.to(self.data.x.dtype)

    def _loss(self, out: Tensor) -> Tensor:
        # PyTorch's mean over selected rows runs in a single warp of a GPU: 45 ms for 2.9M nodes
        correct = out.log_softmax(dim=-1).gather(1, self.data.y[:, None]).squeeze(1)
        return -(correct * self.share).sum()

    def read(self) -> list[tuple[float, ...]]:
        """Loss, accuracies in percent and whether outputs are finite, per epoch since the last call; syncs."""
        rows = self.log[: int(self.slot)].tolist()
        self.slot.zero_()
        scale = [100 / total if total else math.nan for total in self.totals]  # a fold without nodes has no accuracy
        return [(loss, a * scale[0], b * scale[1], c * scale[2], good) for loss, a, b, c, good in rows]

    def wait(self) -> None:
        """No-op: without a capture every epoch is finished when its call returns."""

    @torch.no_grad()
    def load(self, state: RunState, best_score: float | None, since_best: int) -> None:
        """Restores a checkpoint in place, since a captured step reads fixed addresses."""
        self.model.load_state_dict(state["model"])
        if existing := self.optimizer.state_dict()["state"]:
            names = names_of(self.model, self.optimizer)
            for number, parts in existing.items():
                parts["step"].fill_(state["steps"])
                parts["exp_avg"].copy_(state["first"][names[number]])
                parts["exp_avg_sq"].copy_(state["second"][names[number]])
        else:
            load_moments(self.model, self.optimizer, state)
        if state["best"] is not None and best_score is not None:
            for name, value in state["best"].items():
                self.best[name].copy_(value)
            self.best_count.fill_(round(best_score * self.totals[1] / 100))
        self.since_best.fill_(since_best)


class CapturedFullGraphStep(FullGraphStep):
    """The same step, captured once in a CUDA graph and replayed for every epoch, on its own stream.

    Several of them may be in flight at once: each has its own memory, and they share only read-only tensors.
    """

    def __init__(
        self, run: Run, model: torch.nn.Module, data: NodeData, weights: Sequence[float] | None = None
    ) -> None:
        super().__init__(run, model, data, weights)
        self.stream = torch.cuda.Stream(data.x.device)
        self.graph = torch.cuda.CUDAGraph()
        before = [tensor.clone() for tensor in self._changed()]
        self._warm_up()
        self.graph.register_generator_state(self.generator)
        with recording(self.graph, self.stream):
            self.step()
        torch.cuda.synchronize()
        self._rewind(before)

    def __call__(self, epoch: int) -> None:
        """Launches one epoch."""
        with torch.cuda.stream(self.stream):
            self.begin(epoch)
            self.graph.replay()

    def read(self) -> list[tuple[float, ...]]:
        """As without a capture, on the stream of the step."""
        with torch.cuda.stream(self.stream):
            return super().read()

    def wait(self) -> None:
        """Waits until all launched epochs are finished."""
        self.stream.synchronize()

    def load(self, state: RunState, best_score: float | None, since_best: int) -> None:
        """As without a capture, on the stream of the step; returns when it is done."""
        with torch.cuda.stream(self.stream):
            super().load(state, best_score, since_best)
        self.wait()

    def _changed(self) -> list[Tensor]:
        """Tensors that a step changes, without the state of the optimiser."""
        noted = (self.slot, self.best_count, self.since_best, self.is_good)
        return [*self.model.state_dict().values(), *self.best.values(), *noted]

    def _warm_up(self) -> None:
        """Does one-time work: sorts edges, compiles kernels, allocates the state of the optimiser."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(_WARM_UPS):
                super().__call__(0)
            self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()

    @torch.no_grad()
    def _rewind(self, before: list[Tensor]) -> None:
        """Undoes the warm-up in place: the CUDA graph refers to these addresses."""
        for tensor, value in zip(self._changed(), before, strict=True):
            tensor.copy_(value)
        parts: dict[str, Any]
        for parts in self.optimizer.state_dict()["state"].values():
            for value in parts.values():
                value.zero_()  # a fresh optimiser starts from zeros
        torch.cuda.synchronize()


def _free_bytes(device: torch.device) -> float:
    if device.type != "cuda":  # on a CPU memory is not checked
        return math.inf
    torch.cuda.empty_cache()
    free: int = torch.cuda.mem_get_info(device)[0]
    return float(free)

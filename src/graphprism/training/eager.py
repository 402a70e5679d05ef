"""The eager engine: one run on graphs, nodes or links, on the devices of a Fabric."""

from __future__ import annotations

import gc
import statistics
import time
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.nn import GNN
from graphprism.training.build_model import build_model, width_of
from graphprism.training.captured_graphs import CapturedGraphs
from graphprism.training.engine import RunState, TrainedEpoch
from graphprism.training.node_data import input_dropout
from graphprism.training.optim import (
    load_moments,
    make_optimizer,
    mixed_seed,
    moments,
    parameter_groups,
    set_learning_rate,
)
from graphprism.training.prepared_data import GraphBatch, GraphReadout, PreparedDataset, readout_is_mean
from graphprism.training.processes import sync_batch_norms
from graphprism.training.run import Run
from graphprism.training.sampled_graph import SampledBatch, SampledGraph
from graphprism.training.schedule import learning_rate
from graphprism.training.task import Task
from graphprism.training.whole_graph import WholeGraph, WholeGraphBatch

if TYPE_CHECKING:
    from lightning.fabric import Fabric

# Graphs that are evaluated at once: a GPU waits for launches, whose number does not depend on it.
_EVALUATED_AT_ONCE = {"cpu": 512, "cuda": 1024}


AnyBatch: TypeAlias = GraphBatch | SampledBatch | WholeGraphBatch


def _data_source(run: Run, dataset: PackedDataset, device: torch.device) -> PreparedDataset | SampledGraph | WholeGraph:
    """The data of a run, prepared once: batches of graphs, of nodes or links with sampled neighbours, or one graph."""
    if run.neighbors is not None:
        return SampledGraph(run, dataset, device)
    return (PreparedDataset if dataset.level == "graph" else WholeGraph)(run, dataset, device)


def install_readout(network: torch.nn.Module) -> None:
    """Replaces the readout of a network, if it has one, by a `GraphReadout`; networks of baselines have none."""
    if isinstance(network, GNN) and network.readout is not None:
        network.readout = GraphReadout(readout_is_mean(network))


def outputs_of_batch(model: torch.nn.Module, batch: AnyBatch, dropped: float = 0.0) -> Tensor:
    """Outputs for the graphs, nodes or pairs of a batch.

    Args:
        model: The module to call: the network or its Fabric wrapper.
        batch: The batch.
        dropped: Dropout probability of the input features.
    """
    inputs = batch.inputs
    if dropped and not isinstance(batch, GraphBatch):
        inputs = {**inputs, "x": input_dropout(inputs["x"], dropped)}
    return batch.read(model(**inputs))


class EagerEngine:
    """The network, the optimiser and the data of one run on the devices of a Fabric.

    A batch of graphs, or of nodes or links with sampled neighbours, is divided among the processes; the gradient is
    that of one process with the whole batch. Without ``run.neighbors`` nodes and links are trained on the whole graph,
    by one process.

    With ``captures`` the step is a `CapturedStep`: on a GPU one CUDA graph, a tenth of the time of a deep network. A
    step that cannot be captured is found in a trial before the first epoch; a warning says why, and the run is trained
    by plain steps.

    Args:
        fabric: Lightning's Fabric, launched.
        run: The run.
        dataset: Graphs, nodes or links with targets.
        captures: Whether to capture the step; for one process and runs without a reason of `why_not_captured`. On a
            CPU the same padded steps run without a capture.
    """

    name = "eager"

    def __init__(self, fabric: Fabric, run: Run, dataset: PackedDataset, captures: bool = False) -> None:
        self.fabric, self.run, self.task, self.outputs = fabric, run, Task.of(dataset, run), dataset.num_outputs
        self.runs, self.device, self.processes = [run], fabric.device, fabric.world_size
        self._width = width_of(run, dataset)
        self.data = _data_source(run, dataset, fabric.device)
        self._dtype = torch.float64 if run.precision == "float64" else torch.float32
        self.network: GNN = build_model(run, dataset).to(self._dtype)
        install_readout(self.network)
        if fabric.world_size > 1:
            sync_batch_norms(self.network)
        on_gpu = fabric.device.type == "cuda"
        optimizer = make_optimizer(run, parameter_groups(run, self.network), capturable=captures and on_gpu)
        self.model, self.optimizer = fabric.setup(self.network, optimizer)
        self._parameters = list(self.network.parameters())
        self._captured: CapturedGraphs | None = None
        self._is_tried = False
        if captures and isinstance(self.data, PreparedDataset):
            self._captured = CapturedGraphs(run, self.task, self.network, optimizer, self.data)
        self._kept: dict[str, list[GraphBatch | WholeGraphBatch]] = {}
        self._of_nodes: Tensor | None = None  # outputs of all nodes, cached until the next step
        self._best: dict[str, Tensor] | None = None

    @property
    def steps(self) -> str:
        """``"captured steps"``, padded ones on a CPU included, or ``"plain steps"``."""
        return "plain steps" if self._captured is None else "captured steps"

    def width(self, number: int) -> int:
        """Channels of a hidden layer."""
        return self._width

    def parameters(self, number: int) -> int:
        """Trained parameters."""
        return sum(each.numel() for each in self._parameters)

    def train_epoch(self, epoch: int, active: Sequence[bool] = (True,)) -> TrainedEpoch:
        """One pass over the training graphs, nodes or links; no host-device sync between steps."""
        order = self.data.training_rows(epoch)
        self._begin(epoch)
        output, losses, sizes = self._empty(order), [], []
        if self._captured is not None and not self._is_tried:
            self._try_capture(self._captured, order, epoch)
        clock = StepClock(self.fabric.device)
        for batch in self._batches(order, self._batch_size, epoch):
            losses.append(self._step(batch, output))
            sizes.append(batch.total)
            clock.tick()
        total = self._sum(torch.stack(losses)).cpu().double()
        seconds = clock.stop()
        rows = torch.tensor(sizes)
        bad = (~total.isfinite()).nonzero().view(-1)
        return TrainedEpoch(
            loss=[float((total * rows).sum() / rows.sum())],
            score=[self.task.score(self._sum(output).cpu().nan_to_num(), self.data.targets(order).cpu())],
            bad_step=[int(bad[0]) + 1 if bad.numel() else 0],
            steps=len(sizes),
            step_ms=clock.step_ms,
            seconds=seconds,
        )

    def evaluate(self, fold: str) -> tuple[list[float], list[bool]]:
        """The score of a fold, and whether all outputs were finite."""
        output, target = self.outputs_of(fold)
        return [self.task.score(output.nan_to_num(), target)], [bool(output.isfinite().all())]

    def outputs_of(self, fold: str) -> tuple[Tensor, Tensor]:
        """Outputs and targets of a fold, without gradients, on the CPU."""
        graphs = self.data.subset(fold)
        if isinstance(self.data, SampledGraph):
            return self.data.outputs_of_rows(self._states(self.data), graphs), self.data.targets(graphs)
        if fold not in self._kept:
            at_once = _EVALUATED_AT_ONCE[self.fabric.device.type]
            found = self.data.batches(graphs, at_once, self.fabric.global_rank, self.fabric.world_size)
            self._kept[fold] = [batch for batch in found if batch.y.size(0)]
        self.model.eval()
        output = self._empty(graphs)
        # without the wrapper for several processes, which would wait for ranks that have nothing to evaluate
        with torch.no_grad(), self.fabric.autocast():
            for batch in self._kept[fold]:
                output[batch.rows] = self._forward(batch, self.network).to(output.dtype)
        return self._sum(output).cpu(), self.data.targets(graphs).cpu()

    def _states(self, data: SampledGraph) -> Tensor:
        """Outputs of all nodes with all their neighbours; computed once for all folds."""
        if self._of_nodes is None:
            self.model.eval()
            with self.fabric.autocast():
                found = data.outputs(self.network, self.fabric.global_rank, self.fabric.world_size, self._sum)
            self._of_nodes = found.to(self._dtype)
        return self._of_nodes

    @property
    def is_current(self) -> bool:
        """Always True: `train_epoch` returns when the device has finished."""
        return True

    def keep_best(self, better: Sequence[bool]) -> None:
        """Copies the weights if they are the best so far."""
        if better[0]:
            self._best = _copy(self.network.state_dict())

    def state(self, number: int = 0) -> RunState:
        """Copies of weights, moments of the optimiser and best weights, on the CPU."""
        first, second, steps = moments(self.network, self.optimizer)
        model = _copy(self.network.state_dict())
        return RunState(model=model, first=first, second=second, steps=steps, best=self._best)

    def load(self, number: int, state: RunState, best_score: float | None = None, since_best: int = 0) -> None:
        """Restores what `state` returned."""
        self.network.load_state_dict(state["model"])
        load_moments(self.network, self.optimizer, state)
        self._best, self._of_nodes = state["best"], None

    @property
    def _batch_size(self) -> int:
        return self.run.batch_size or self.data.subset("train").numel()

    def _begin(self, epoch: int) -> None:
        self._of_nodes = None
        self.model.train()
        set_learning_rate(self.optimizer, learning_rate(self.run, epoch))
        # dropout depends on seed, epoch and rank only: a resumed run needs no stored random state
        seed = mixed_seed("dropout", self.run.seed, epoch, self.fabric.global_rank)
        torch.default_generator.manual_seed(seed)
        if self.fabric.device.type == "cuda":
            torch.cuda.default_generators[self.fabric.device.index or 0].manual_seed(seed)

    def _try_capture(self, captured: CapturedGraphs, order: Tensor, epoch: int) -> None:
        """Tries the captured step on the first batch, and restores the state before it."""
        self._is_tried = True
        before = self.state()
        try:
            captured.try_on(next(iter(self._batches(order, self._batch_size, epoch))), self._empty(order))
        except (RuntimeError, ValueError) as error:
            self._captured = None
            if self.fabric.device.type == "cuda":  # the stream of the capture may still write buffers of the network
                torch.cuda.synchronize(self.fabric.device)
            warnings.warn(f"{self.run.title} is trained by plain steps, not captured ones: {error}", stacklevel=2)
        if self._captured is None:  # autograd's nodes of the trial would expect the gradients of its stream
            del captured
            gc.collect()
        self.load(0, before)
        self.optimizer.zero_grad()  # plain steps begin without gradients
        self._begin(epoch)

    def _step(self, batch: AnyBatch, output: Tensor) -> Tensor:
        """One step on one batch; returns this process's part of the mean loss."""
        if self._captured is not None and isinstance(batch, GraphBatch):
            return self._captured(batch, output)
        found = self._forward(batch, self.model)
        loss = self.task.losses(found, batch.y).sum() / batch.total
        # gradients are averaged over processes, and each has only a part of the sum
        self.fabric.backward(loss * self.fabric.world_size)
        if self.run.clip:
            torch.nn.utils.clip_grad_norm_(self._parameters, self.run.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        output[batch.rows] = found.detach().to(output.dtype)
        return loss.detach()

    def _forward(self, batch: AnyBatch, model: torch.nn.Module) -> Tensor:
        share = self.run.dropout if self.run.input_dropout and model.training else 0.0
        return outputs_of_batch(model, batch, share)

    def _batches(self, graphs: Tensor, batch_size: int, epoch: int) -> Any:
        division = (self.fabric.global_rank, self.fabric.world_size)
        if isinstance(self.data, SampledGraph):
            return self.data.batches(graphs, batch_size, *division, epoch)
        return self.data.batches(graphs, batch_size, *division)

    def _empty(self, graphs: Tensor) -> Tensor:
        return torch.zeros(graphs.numel(), self.outputs, dtype=self._dtype, device=self.fabric.device)

    def _sum(self, tensor: Tensor) -> Tensor:
        """Sum over processes, each of which has filled its own rows."""
        summed: Any = self.fabric.all_reduce(tensor, reduce_op="sum")
        found: Tensor = summed
        return found


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    return {key: _copy(each) for key, each in value.items()} if isinstance(value, dict) else value


class StepClock:
    """Times the steps of an epoch; call `tick` after each and `stop` when the device has finished them.

    On a CPU ``step_ms`` is the median of the steps. GPU work is asynchronous, so there it is the time of all
    steps divided by their number.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_cpu = device.type == "cpu"
        self._times = [time.perf_counter()]

    def tick(self) -> None:
        """Marks the end of a step; on a GPU, of its launch."""
        self._times.append(time.perf_counter())

    def stop(self) -> float:
        """Returns the seconds since the start; the device must have finished."""
        seconds = time.perf_counter() - self._times[0]
        steps = [end - begin for begin, end in pairwise(self._times)]
        self.step_ms = 1e3 * (statistics.median(steps) if self._on_cpu else seconds / max(1, len(steps)))
        return seconds

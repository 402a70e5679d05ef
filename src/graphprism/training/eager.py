"""One run on the devices of a Fabric: an epoch of training, and evaluation."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.nn import MeanAggregation

from graphprism.datasets import PackedDataset
from graphprism.nn import GNN
from graphprism.training.build_model import build_model, width_of
from graphprism.training.optim import epoch_order, learning_rate, make_optimizer, mixed_seed
from graphprism.training.prepared_data import GraphBatch, GraphReadout, PreparedDataset
from graphprism.training.processes import sync_batch_norms
from graphprism.training.run import Run
from graphprism.training.task import loss_sum

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class StepClock:
    """Times the steps of an epoch; call `tick` after each and `stop` when the device has finished them.

    On a CPU ``step_ms`` is the median of the steps. A GPU works behind the back of Python, so there it is the time of
    all steps divided by their number.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_cpu = device.type == "cpu"
        self._times = [time.perf_counter()]

    def tick(self) -> None:
        """A step is over, or handed to the device."""
        self._times.append(time.perf_counter())

    def stop(self) -> float:
        """The device has finished; gives the seconds since the beginning."""
        seconds = time.perf_counter() - self._times[0]
        steps = [end - begin for begin, end in pairwise(self._times)]
        self.step_ms = 1e3 * (statistics.median(steps) if self._on_cpu else seconds / max(1, len(steps)))
        return seconds


_EVALUATED_AT_ONCE = 512


@dataclass(frozen=True)
class TrainedEpoch:
    """What an epoch of training gave, on the CPU.

    Attributes:
        losses: (S,) mean loss of every step, over all of its graphs.
        sizes: (S,) graphs of every step.
        output: (G, T) outputs in the order of the epoch.
        target: (G, T) or (G,) targets in the same order.
        step_ms: Time of a step.
        seconds: Time of all steps.
    """

    losses: Tensor
    sizes: Tensor
    output: Tensor
    target: Tensor
    step_ms: float
    seconds: float

    @property
    def loss(self) -> float:
        """Mean over graphs."""
        return float((self.losses * self.sizes).sum() / self.sizes.sum())

    @property
    def bad_step(self) -> int | None:
        """First step whose loss is not finite, counted from 1."""
        bad = (~self.losses.isfinite()).nonzero().view(-1)
        return int(bad[0]) + 1 if bad.numel() else None


class Engine:
    """The network, the optimiser and the data of a run on the devices of a Fabric.

    A batch is divided among the processes; the gradient is that of one process with the whole batch.
    """

    def __init__(self, fabric: Fabric, run: Run, dataset: PackedDataset) -> None:
        self.fabric, self.run, self.task, self.outputs = fabric, run, dataset.task, dataset.num_outputs
        self.width = width_of(run, dataset)
        self.data = PreparedDataset(run, dataset, fabric.device)
        self._dtype = torch.float64 if run.precision == "float64" else torch.float32
        self.network: GNN = build_model(run, dataset).to(self._dtype)
        self._readout = self.network.readout = GraphReadout(isinstance(self.network.readout, MeanAggregation))
        if fabric.world_size > 1:
            sync_batch_norms(self.network)
        self.model, self.optimizer = fabric.setup(self.network, make_optimizer(run, self.network.parameters()))
        self._parameters = list(self.network.parameters())
        self._kept: dict[str, list[GraphBatch]] = {}

    def train_epoch(self, epoch: int) -> TrainedEpoch:
        """One pass over the training graphs; ``epoch`` is counted from 0. No step waits for the device."""
        graphs = self.data.subset("train")
        order = graphs[epoch_order(self.run.seed, epoch, graphs.numel())]
        self._begin(epoch)
        output, losses, sizes = self._empty(order), [], []
        clock = StepClock(self.fabric.device)
        for batch in self._batches(order, self.run.batch_size):
            losses.append(self._step(batch, output))
            sizes.append(batch.total)
            clock.tick()
        total = self._sum(torch.stack(losses)).cpu().double()
        seconds = clock.stop()
        found = self._sum(output).cpu(), self.data.targets(order).cpu()
        return TrainedEpoch(total, torch.tensor(sizes), *found, clock.step_ms, seconds)

    def evaluate(self, subset: str) -> tuple[Tensor, Tensor]:
        """Outputs and targets of a subset, without gradients, on the CPU."""
        graphs = self.data.subset(subset)
        if subset not in self._kept:
            found = self._batches(graphs, _EVALUATED_AT_ONCE)
            self._kept[subset] = [batch for batch in found if batch.y.size(0)]
        self.model.eval()
        output = self._empty(graphs)
        # without the wrapper for several processes, which waits for those that have nothing to evaluate
        with torch.no_grad(), self.fabric.autocast():
            for batch in self._kept[subset]:
                output[batch.rows] = self._forward(batch, self.network).to(output.dtype)
        return self._sum(output).cpu(), self.data.targets(graphs).cpu()

    def state(self) -> dict[str, Any]:
        """Copies of weights and state of the optimiser, on the CPU."""
        optimizer = self.optimizer.state_dict()["state"]
        return {"model": _copy(self.network.state_dict()), "optimizer": _copy(optimizer)}

    def load(self, model: dict[str, Tensor], optimizer: dict[int, dict[str, Any]]) -> None:
        """Takes what `state` gave."""
        self.network.load_state_dict(model)
        # settings of the optimiser are those of the run, and of this device
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": optimizer})

    def _begin(self, epoch: int) -> None:
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.run, epoch)
        # dropout follows from seed, epoch and process alone: a resumed run needs no stored random state
        seed = mixed_seed("dropout", self.run.seed, epoch, self.fabric.global_rank)
        torch.default_generator.manual_seed(seed)
        if self.fabric.device.type == "cuda":
            torch.cuda.default_generators[self.fabric.device.index or 0].manual_seed(seed)

    def _step(self, batch: GraphBatch, output: Tensor) -> Tensor:
        """One step on one batch; gives this process's part of the mean loss."""
        found = self._forward(batch, self.model)
        loss = loss_sum(self.task, found, batch.y) / batch.total
        # gradients are averaged over processes, and each has only a part of the sum
        self.fabric.backward(loss * self.fabric.world_size)
        if self.run.clip:
            torch.nn.utils.clip_grad_norm_(self._parameters, self.run.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        output[batch.rows] = found.detach().to(output.dtype)
        return loss.detach()

    def _forward(self, batch: GraphBatch, model: torch.nn.Module) -> Tensor:
        self._readout.ptr = batch.ptr
        output: Tensor = model(**batch.inputs)
        return output

    def _batches(self, graphs: Tensor, batch_size: int) -> Any:
        return self.data.batches(graphs, batch_size, self.fabric.global_rank, self.fabric.world_size)

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

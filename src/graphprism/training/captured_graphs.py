"""Captured training steps on batches of graphs, for networks that lockstep does not take."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphprism.datasets import PackedDataset
from graphprism.nn import GNN, MODELS
from graphprism.ops import RelationalAdj
from graphprism.training.captured_step import CapturedStep
from graphprism.training.prepared_data import GraphBatch, PreparedDataset
from graphprism.training.run import Run
from graphprism.training.run_splits import run_splits
from graphprism.training.task import Task

# Three warm-up steps of `CapturedStep`, and one that is captured and replayed.
_TRIAL = 4


def why_not_captured(run: Run, dataset: PackedDataset) -> str:
    """Why the eager engine cannot capture the steps of a run, in a few words; empty where it can.

    Args:
        run: The run.
        dataset: What it trains on.
    """
    if dataset.level != "graph":
        return "captured steps of the eager engine take batches of graphs"
    conv = MODELS[run.model]
    if conv.edge_norm is None:
        return f"{run.model} selects edges by masks, which is a host-device sync"
    if run.norm not in (None, "batch"):
        return f"padding cannot be masked in {run.norm} norm, whose statistics are those of all rows"
    if run.jk == "lstm":
        return "jumping knowledge by an LSTM is a call of cuDNN with workspaces of its own"
    if conv.relational and len(run_splits(run, dataset)) != 1:
        return "batches are padded for one split, not for one of each layer"
    return ""


class CapturedGraphs:
    """The step of `CapturedStep` on a `GraphBatch`; it replaces the plain step of the eager engine.

    Buffers hold the largest batch of all epochs of the run, so that sizes, and with them random numbers and the order
    of sums, do not depend on the epoch in which a run is resumed.

    Args:
        run: The run.
        task: Defines the loss.
        network: Its network, with a `GraphReadout`, on the device.
        optimizer: Its optimiser, capturable where the device is a GPU.
        data: Its graphs.
        capture: As in `CapturedStep`.
    """

    def __init__(
        self,
        run: Run,
        task: Task,
        network: GNN,
        optimizer: torch.optim.Optimizer,
        data: PreparedDataset,
        capture: bool | None = None,
    ) -> None:
        self._losses = _Losses(task, torch.float64 if run.precision == "float64" else torch.float32)
        self._step = CapturedStep(
            network,
            optimizer,
            self._losses,
            num_relations=network.num_relations,
            clip=run.clip or None,
            autocast=torch.bfloat16 if run.precision == "bf16" else None,
            room=1.0,
            sizes=largest_batch(run, data),
            capture=capture,
        )

    def __call__(self, batch: GraphBatch, output: Tensor) -> Tensor:
        """Takes one step, writes the outputs of the graphs into rows of ``output`` and returns the mean loss."""
        loss = self._step(_to_data(batch))
        assert self._losses.output is not None  # set by the step
        output[batch.rows] = self._losses.output[: batch.y.size(0)].to(output.dtype)
        return loss

    def try_on(self, batch: GraphBatch, output: Tensor) -> None:
        """Takes steps until one is captured; weights, optimiser and random states change.

        Raises:
            ValueError: The loss depends on padding, or a batch cannot be padded.
            RuntimeError: The step cannot be captured: it waits for the device, or needs too much memory.
        """
        for _ in range(_TRIAL):
            loss = self(batch, output)
        loss.item()  # errors of the device are raised at a sync


class _Losses:
    """The loss of each graph, and the outputs that it was computed from.

    Not a method of `CapturedGraphs`: its step would refer back to it, and only a garbage collection free both.
    """

    def __init__(self, task: Task, dtype: torch.dtype) -> None:
        self._task, self._dtype = task, dtype
        self.output: Tensor | None = None

    def __call__(self, network: torch.nn.Module, data: Data) -> Tensor:
        names = ("batch", "edge_attr", "pe", "edge_pe")
        inputs = {name: getattr(data, name, None) for name in names}
        found: Tensor = network(data.x, data.adj, batch_size=data.num_graphs, **inputs).to(self._dtype)
        # a captured step writes into this very tensor at every replay
        self.output = found.detach()
        return self._task.losses(found, data.y)


def largest_batch(run: Run, data: PreparedDataset) -> tuple[int, int, int]:
    """Most nodes, edges and graphs of a training batch in any epoch of a run."""
    dataset = data.dataset
    sizes = torch.stack([dataset.node_ptr.diff(), dataset.edge_ptr.diff()], 1).cpu()  # (G, 2)
    count = data.subset("train").numel()
    batch_size = min(run.batch_size or count, count)
    ends = torch.tensor([*range(batch_size, count, batch_size), count]) - 1
    most = torch.zeros(2, dtype=torch.long)
    # an epoch of 10,000 graphs takes half a millisecond
    for epoch in range(run.epochs):
        totals = sizes[data.training_rows(epoch)].cumsum(0)[ends]
        most = torch.maximum(most, totals.diff(dim=0, prepend=torch.zeros(1, 2, dtype=torch.long)).amax(0))
    return int(most[0]), int(most[1]), batch_size


def _to_data(batch: GraphBatch) -> Data:
    if not isinstance(batch.adj, RelationalAdj):
        raise ValueError(f"a captured step needs batches with one RelationalAdj, got {type(batch.adj).__name__}")
    adj = batch.adj
    tensors = {
        "x": batch.x,
        "edge_index": adj.edge_index,
        "edge_type": adj.edge_type,
        "edge_weight": adj.edge_weight,
        "edge_attr": batch.edge_attr,
        "batch": batch.owner,
        "y": batch.y,
        "pe": batch.pe,
        "edge_pe": batch.edge_pe,
    }
    data = Data.from_dict({name: value for name, value in tensors.items() if value is not None})
    data.num_graphs = batch.ptr.numel() - 1
    return data

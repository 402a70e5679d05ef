"""One epoch of one run on nodes: forward, backward, Adam, and the scores after it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism.nn import GNN
from graphprism.training.node.input_dropout import input_dropout
from graphprism.training.node.node_data import NodeData
from graphprism.training.node.node_run import NodeRun
from graphprism.training.optim import mixed_seed

# Epochs whose numbers stay on the device until they are asked for.
SLOTS = 32


class NodeStep:
    """Trains one network on all nodes, an epoch at a call, without ever waiting for the device.

    What is dropped depends on the seed of the run and the number of the epoch alone: a run that goes on from a
    checkpoint, or beside others, drops the same.

    Args:
        run: What to train.
        model: Its network.
        data: Its graph, on the device to train on.
    """

    def __init__(self, run: NodeRun, model: GNN, data: NodeData) -> None:
        device = data.x.device
        self.run, self.data = run, data
        self.model = model.to(device, data.x.dtype)
        self.masks = data.masks[:, :, run.fold].contiguous()  # (3, N)
        self.totals: list[int] = self.masks.sum(1).tolist()
        self.share = self.masks[0].to(data.x.dtype) / max(1, self.totals[0])  # of each node in the loss
        on_gpu: dict[str, Any] = {"fused": True, "capturable": True} if device.type == "cuda" else {}
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=run.lr, weight_decay=run.weight_decay, **on_gpu)
        self.generator = torch.Generator(device)
        self.log = torch.zeros(SLOTS, 4, dtype=torch.float64, device=device)
        self.slot = torch.zeros(1, dtype=torch.long, device=device)

    def __call__(self, epoch: int) -> None:
        """Runs one epoch and notes its numbers."""
        self.seed(epoch)
        self.step()

    def seed(self, epoch: int) -> None:
        """Makes the next step the one of this epoch."""
        self.generator.manual_seed(mixed_seed("dropout", self.run.seed, epoch))

    def step(self) -> None:
        """All that is to be done on the device: the same operations on the same memory in every epoch."""
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._loss(self._outputs())
        loss.backward()
        self.optimizer.step()
        self.model.eval()
        with torch.no_grad():
            correct = self._outputs().argmax(dim=-1) == self.data.y
        # whole numbers: two epochs that are right equally often must not differ by rounding
        numbers = torch.cat([loss.detach().double()[None], (self.masks & correct).sum(1).double()])
        self.log.index_copy_(0, self.slot, numbers[None])
        self.slot.add_(1)

    def _outputs(self) -> Tensor:
        device = self.data.x.device.type
        drops = self.run.input_dropout and self.model.training
        x = input_dropout(self.data.x, self.run.dropout, self.generator) if drops else self.data.x
        # without its cache, whose casts of weights a captured step would take for constants
        with torch.autocast(device, torch.bfloat16, enabled=self.run.precision == "bf16", cache_enabled=False):
            out: Tensor = self.model(x, self.data.adj, generator=self.generator)
        return out.to(self.data.x.dtype)

    def _loss(self, out: Tensor) -> Tensor:
        # PyTorch's mean over chosen rows is one warp's work on a GPU: 45 ms for 2.9M nodes
        correct = out.log_softmax(dim=-1).gather(1, self.data.y[:, None]).squeeze(1)
        return -(correct * self.share).sum()

    def read(self) -> list[tuple[float, ...]]:
        """Loss and accuracies in percent of the epochs since the last call; waits for the device."""
        rows = self.log[: int(self.slot)].tolist()
        self.slot.zero_()
        scale = [100 / max(1, total) for total in self.totals]
        return [(loss, a * scale[0], b * scale[1], c * scale[2]) for loss, a, b, c in rows]

    def state(self) -> dict[str, Any]:
        """Weights and state of the optimiser."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        """Goes on from `state`; before the step is captured."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

"""A step as one CUDA graph: launched at once instead of kernel by kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism.training.lockstep.captured import recording
from graphprism.training.node.node_step import NodeStep

_WARM_UPS = 3


class CapturedStep:
    """The step of a `NodeStep`, recorded once and replayed for every epoch, on a stream of its own.

    A full batch has the same shapes in every epoch, so that nothing has to be decided on the host. Several of them may
    be in flight at once: each has its own memory, and they share only what none of them writes.

    Args:
        inner: The step, with the state to start from, on a CUDA device.
    """

    def __init__(self, inner: NodeStep) -> None:
        self.inner = inner
        self.stream = torch.cuda.Stream(inner.data.x.device)
        self.graph = torch.cuda.CUDAGraph()
        before = [_clone(inner.model.state_dict()), _clone(inner.optimizer.state_dict()["state"])]
        self._warm_up()
        self.graph.register_generator_state(inner.generator)
        with recording(self.graph, self.stream):
            inner.step()
        torch.cuda.synchronize()
        _rewind(inner, *before)

    def _warm_up(self) -> None:
        """Lets everything that is built once be built: sorted edges, kernels, state of the optimiser."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(_WARM_UPS):
                self.inner(0)
            self.inner.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()

    def __call__(self, epoch: int) -> None:
        """Runs one epoch and notes its numbers."""
        self.inner.seed(epoch)
        with torch.cuda.stream(self.stream):
            self.graph.replay()

    def read(self) -> list[tuple[float, ...]]:
        """Loss and accuracies in percent of the epochs since the last call; waits for the device."""
        with torch.cuda.stream(self.stream):
            return self.inner.read()

    def state(self) -> dict[str, Any]:
        """Weights and state of the optimiser, after all epochs so far."""
        self.stream.synchronize()
        return self.inner.state()


def _clone(values: Any) -> Any:
    if isinstance(values, Tensor):
        return values.detach().clone()
    return {key: _clone(value) for key, value in values.items()} if isinstance(values, dict) else values


def _rewind(step: NodeStep, model: dict[str, Tensor], optimizer: dict[int, dict[str, Tensor]]) -> None:
    """Undoes the warm-up in place: the graph has the addresses of what is there now."""
    with torch.no_grad():
        for name, value in step.model.state_dict().items():
            value.copy_(model[name])
        for number, parts in step.optimizer.state_dict()["state"].items():
            for name, value in parts.items():
                # a fresh optimiser has no state, and starts from zeros
                value.copy_(optimizer[number][name]) if number in optimizer else value.zero_()
        step.slot.zero_()
    torch.cuda.synchronize()

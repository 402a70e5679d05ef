"""A function that is recorded once and then replayed."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def recording(
    graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream | None = None, error_mode: str = "global"
) -> Iterator[None]:
    """What runs inside becomes part of the graph; ``error_mode`` says whose calls may spoil it, see `torch.cuda.graph`.

    No garbage is collected meanwhile: an older graph that happens to be freed in the middle gives memory back to the
    driver, which spoils the recording.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, stream=stream, capture_error_mode=error_mode):
            yield
    finally:
        if collects:
            gc.enable()


# Kernels are compiled and libraries open their workspaces in the first calls, which cannot be recorded.
_WARM_UP = 3


class Captured:
    """Calls a function that works on tensors in place; on a GPU it is captured in a CUDA graph by the first call.

    A replay starts all kernels at once: what a step of small kernels costs Python is gone.

    Args:
        function: It may read and write only tensors that stay where they are, and may not wait for the device.
        state: Tensors that it changes, which the first calls must leave as they were.
    """

    def __init__(self, function: Callable[[], None], state: Iterable[Tensor] = ()) -> None:
        self._function, self._state = function, list(state)
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Does what the function does."""
        if self._graph is None and torch.cuda.is_available() and any(each.is_cuda for each in self._state):
            self._capture()
        if self._graph is None:
            self._function()
        else:
            self._graph.replay()

    def _capture(self) -> None:
        kept = [each.clone() for each in self._state]
        random = torch.cuda.get_rng_state()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._function()
                for tensor, value in zip(self._state, kept, strict=True):
                    tensor.copy_(value)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with recording(graph):
            self._function()
        # what the first calls drew must not move what the replays draw: a resumed run is captured in another epoch
        torch.cuda.set_rng_state(random)
        self._graph = graph

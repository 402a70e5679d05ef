"""A function that is captured in a CUDA graph once and then replayed."""

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
    """Captures the kernels that are launched inside; for ``error_mode`` see `torch.cuda.graph`.

    Garbage collection is off meanwhile: an older graph that is freed during the capture returns memory to the driver,
    which invalidates the capture.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, stream=stream, capture_error_mode=error_mode):
            yield
    finally:
        if collects:
            gc.enable()


# Kernels are compiled and libraries allocate their workspaces in the first calls, which cannot be captured.
_WARM_UP = 3


class Captured:
    """Calls a function that works on tensors in place; on a GPU the first call captures it in a CUDA graph.

    A replay launches all kernels at once, without the overhead of Python.

    Args:
        function: Reads and writes only tensors at fixed addresses, without a host-device sync.
        state: Tensors that it changes; they are restored after the warm-up.
    """

    def __init__(self, function: Callable[[], None], state: Iterable[Tensor] = ()) -> None:
        self._function, self._state = function, list(state)
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Calls the function, or replays it."""
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
        # the warm-up must not shift the random numbers of later calls: a resumed run is captured in another epoch
        torch.cuda.set_rng_state(random)
        self._graph = graph

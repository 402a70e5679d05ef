"""Recording a CUDA graph without being disturbed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def recording(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream | None = None) -> Iterator[None]:
    """What runs inside becomes part of the graph.

    No garbage is collected meanwhile: an older graph that happens to be freed in the middle gives memory back to the
    driver, which spoils the recording.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, stream=stream):
            yield
    finally:
        if collects:
            gc.enable()

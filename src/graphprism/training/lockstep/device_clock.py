"""A queue of a device with marks of time in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch


class DeviceClock:
    """What runs inside ``with clock:`` goes into its `queue`, and its time is taken there.

    On a GPU nothing waits until a time is asked for, and what several clocks have in their queues runs side by side; on
    a CPU the queue is the program itself.

    Args:
        device: Where things run.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._marks: list[Any] = []
        self._inside: AbstractContextManager[Any] = nullcontext()

    @contextmanager
    def queue(self) -> Iterator[None]:
        """What runs inside goes into the queue, after all that was made elsewhere before."""
        if self._stream is None:
            yield
            return
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))
        with torch.cuda.stream(self._stream):
            yield

    def __enter__(self) -> DeviceClock:
        self._inside = self.queue()
        self._inside.__enter__()
        self._marks = [self._mark()]
        return self

    def __exit__(self, *error: Any) -> None:
        self._marks.append(self._mark())
        self._inside.__exit__(*error)

    def lap(self) -> None:
        """Marks this moment in the queue."""
        self._marks.append(self._mark())

    def seconds(self) -> float:
        """From the beginning to the end; waits for the end."""
        return self._between(self._marks[0], self._marks[-1])

    def seconds_to_lap(self) -> float:
        """From the beginning to the first mark; waits for it."""
        return self._between(self._marks[0], self._marks[1])

    def _mark(self) -> Any:
        if self._stream is None:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _between(self, first: Any, second: Any) -> float:
        if self._stream is None:
            return float(second - first)
        second.synchronize()
        return float(first.elapsed_time(second)) / 1e3

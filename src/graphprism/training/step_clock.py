"""How long a step takes."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise

import torch


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

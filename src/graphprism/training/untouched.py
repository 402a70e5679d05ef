"""Training that leaves the settings of its caller as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def untouched(device: torch.device) -> Iterator[None]:
    """Products of float32 are in TF32 on a GPU; afterwards that and random states are what they were."""
    on_gpu, before = device.type == "cuda", torch.get_float32_matmul_precision()
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        try:
            if on_gpu:
                torch.set_float32_matmul_precision("high")
            yield
        finally:
            torch.set_float32_matmul_precision(before)

"""Reading what a run has left in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphprism.training import Run

TIMES = ("seconds", "step_ms")


def parts_of(folder: Path, run: Run, name: str = "checkpoint.pt") -> dict[str, Any]:
    """The parts of a checkpoint without what was timed."""
    parts = torch.load(folder / run.key / name, weights_only=True)["parts"]
    history = {name: values for name, values in parts.get("history", {}).items() if name not in TIMES}
    return {**{name: value for name, value in parts.items() if name not in TIMES}, "history": history}


def same_bits(a: Any, b: Any) -> bool:
    """Whether two nested structures hold the same, tensors bit by bit."""
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and a.equal(b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same_bits(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same_bits, a, b))
    return bool(a == b)

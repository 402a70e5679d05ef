"""How close is equal, by dtype: one table for all comparisons."""

from __future__ import annotations

import torch

TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2}


def tolerance(dtype: torch.dtype) -> dict[str, float]:
    """The keywords that `torch.testing.assert_close` takes; relative and absolute alike, for values near one."""
    return {"rtol": TOLERANCES[dtype], "atol": TOLERANCES[dtype]}

"""The definition of `relu_normalize` and of its gradients, step by step and, where nobody else looks, in place."""

from __future__ import annotations

import torch
from torch import Tensor

_EPS = 1e-12  # the shortest length that is divided by, as in PyTorch


def forward(
    x: Tensor,
    second: Tensor | None,
    bias: Tensor | None,
    kept: Tensor | None,
    largest: Tensor | None,
    *,
    keep: bool,
    overwrite: bool,
) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
    """Adds, drops, cuts, divides and compares; also gives lengths and where the new rows are larger."""
    out = x
    for other, change in ((bias, torch.add), (second, torch.add), (kept, torch.mul)):
        if other is not None:
            out = change(out, other, out=out if overwrite or out is not x else None)
    out = torch.clamp(out, min=0, out=out if overwrite or out is not x else None)
    length = out.norm(dim=-1, keepdim=True)
    out /= length.clamp(min=_EPS)
    if largest is None:
        return out, None, length, None
    return out, torch.maximum(largest, out), length, out > largest if keep else None


def backward(
    grad: Tensor | None,
    grad_larger: Tensor | None,
    out: Tensor,
    length: Tensor,
    is_larger: Tensor | None,
    dtype: torch.dtype,
    need_bias: bool,
    need_largest: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients of the summed rows, of the bias and of the largest states before."""
    total, to_largest = grad, None
    if grad_larger is not None and is_larger is not None:
        total = grad_larger * is_larger
        to_largest = grad_larger - total if need_largest else None
        total = total if grad is None else total.add_(grad)
    if total is None:
        raise ValueError("a gradient must be given, of the rows or of the largest states")
    # a length that is not divided by has no gradient
    along = (total * out).sum(dim=-1, keepdim=True) * (length >= _EPS)
    found = torch.addcmul(total, out, along, value=-1, out=None if total is grad else total)
    found.div_(length.clamp(min=_EPS)).masked_fill_(out <= 0, 0)  # what was dropped is zero as well
    return found.to(dtype), found.flatten(0, -2).sum(dim=0) if need_bias else None, to_largest

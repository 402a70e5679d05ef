"""The definition of a linear layer of many runs: products and a sum, in float32 at least."""

from __future__ import annotations

import torch
from torch import Tensor


def linear_rows(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """One product for all runs."""
    dtype = torch.promote_types(x.dtype, weight.dtype)
    wide = torch.promote_types(dtype, torch.float32)
    out = torch.bmm(x.to(wide), weight.to(wide).transpose(1, 2))
    return (out if bias is None else out + bias[:, None].to(wide)).to(dtype)


def linear_gradients(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Two products and a sum over the rows."""
    wide = torch.promote_types(torch.promote_types(x.dtype, weight.dtype), torch.float32)
    grad = grad.to(wide)
    grad_x = torch.bmm(grad, weight.to(wide))
    grad_weight = torch.bmm(grad.transpose(1, 2), x.to(wide))
    return grad_x.to(x.dtype), grad_weight.to(weight.dtype), grad.sum(dim=1).to(weight.dtype)

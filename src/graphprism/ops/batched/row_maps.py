"""One linear map per relation of the rows of K runs at once, each run with its own weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphprism.ops.backends import Backends, is_batched
from graphprism.ops.batched.slot_sum import gated_column_sum
from graphprism.ops.batched.vmap import for_all_runs

# Side of the output block of one GPU program, programs that keep a GPU busy, and fewest rows per program.
_SIDE, _PROGRAMS, _FEWEST_ROWS = 128, 100, 512


def map_rows_reference(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    """The definition: one product per run and relation, in float32 at least."""
    wide = torch.promote_types(x.dtype, torch.float32)
    out = torch.einsum("knf,krfo->knro", x.to(wide), weight.to(wide)).flatten(2)
    out = out if bias is None else out + bias[:, None].to(wide)
    return (out.relu() if relu else out).to(x.dtype)


def map_gradients_reference(
    grad: Tensor, x: Tensor, weight: Tensor, gate: Tensor | None, needs_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Two products and a sum over the rows."""
    wide = torch.promote_types(x.dtype, torch.float32)
    grad = grad.to(wide) if gate is None else torch.where(gate > 0, grad.to(wide), 0)
    by_relation = grad.unflatten(2, (weight.size(1), weight.size(3)))
    grad_x = torch.einsum("knro,krfo->knf", by_relation, weight.to(wide)).to(x.dtype)
    grad_weight = torch.einsum("knf,knro->krfo", x.to(wide), by_relation).to(weight.dtype)
    return grad_x, grad_weight, grad.sum(dim=1).to(weight.dtype) if needs_bias else None


def map_rows_bmm(x: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    """One product for all runs in the common type, for matrix units, which accumulate in float32."""
    out = torch.bmm(x, weight.transpose(1, 2).flatten(2))
    out = out if bias is None else out.add_(bias[:, None])
    return out.relu_() if relu else out


def map_gradients_bmm(
    grad: Tensor, x: Tensor, weight: Tensor, gate: Tensor | None, needs_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Two products for all runs, that of the weights in parts of the rows, and a column sum."""
    grad = grad if gate is None else torch.where(gate > 0, grad, 0)
    flat = weight.transpose(1, 2).flatten(2)
    num_runs, num_relations, channels, outputs = weight.shape
    # not `unflatten`, which batched gradients do not have
    grad_weight = product_of_rows(x, grad).view(num_runs, channels, num_relations, outputs).transpose(1, 2)
    return torch.bmm(grad, flat.transpose(1, 2)), grad_weight, gated_column_sum(grad) if needs_bias else None


def product_of_rows(left: Tensor, right: Tensor) -> Tensor:
    """Sums over rows of outer products, (K, N, T), (K, N, F) -> (K, T, F), in parts that keep a GPU busy."""
    num_runs, num_rows, channels = left.shape
    programs, parts = num_runs * -(-channels // _SIDE) * -(-right.size(2) // _SIDE), 1
    while programs * parts < _PROGRAMS and num_rows % (2 * parts) == 0 and num_rows // (2 * parts) >= _FEWEST_ROWS:
        parts *= 2
    if parts == 1 or not left.is_cuda:
        return torch.bmm(left.transpose(1, 2), right)
    left, right = (each.reshape(num_runs * parts, num_rows // parts, -1) for each in (left, right))
    products = torch.bmm(left.transpose(1, 2), right)
    return products.view(num_runs, parts, *products.shape[1:]).sum(dim=1)


FORWARD = Backends(
    automatic="bmm",
    reference=map_rows_reference,
    bmm=map_rows_bmm,
    triton="graphprism.ops.kernels.row_maps:map_rows",
)
BACKWARD = Backends(
    automatic="bmm",
    reference=map_gradients_reference,
    bmm=map_gradients_bmm,
    triton="graphprism.ops.kernels.row_maps:map_gradients",
)


def has_kernel(x: Tensor, weight: Tensor) -> bool:
    """Whether kernels take rows (K, N, F) and weights (K, R, F, O); not under autocast, which casts for products."""
    if torch.is_autocast_enabled(x.device.type):
        return False
    return FORWARD.kernel_fits(x.device, lambda kernels: kernels.takes(x, weight))


def row_maps(x: Tensor, weight: Tensor) -> Tensor:
    r"""Computes :math:`\mathbf{W}_r^\top \mathbf{x}_j` for all rows and relations under `torch.vmap`.

    Every run has its own weights.

    Shapes: ``x`` (N, F), ``weight`` (R, F, O) -> (N, R * O)
    """
    out: Tensor = for_all_runs(_RowMaps, x, weight)
    return out


def add_row(x: Tensor, row: Tensor) -> Tensor:
    """``x + row`` under `torch.vmap`, with a gradient of ``row`` that is one kernel: (N, F), (F,) -> (N, F)."""
    out: Tensor = for_all_runs(_AddRow, x, row)
    return out


class _RowMaps(torch.autograd.Function):
    """K runs side by side."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        out: Tensor = FORWARD.choose("triton" if has_kernel(x, weight) else "bmm", x.device)(x, weight, None, False)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        # for second derivatives and batched gradients, which kernels do not have
        is_plain = torch.is_grad_enabled() or is_batched(grad)
        backward = BACKWARD.choose("bmm" if is_plain or not has_kernel(x, weight) else "triton", x.device)
        grad_x, grad_weight, _ = backward(grad.to(x.dtype), x, weight, None, False)
        return grad_x, grad_weight


class _AddRow(torch.autograd.Function):
    """K runs side by side."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, row: Tensor) -> Tensor:
        ctx.dtype = row.dtype
        return x + row[:, None]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        # for second derivatives and batched gradients, which kernels do not have
        impl = "reference" if torch.is_grad_enabled() or is_batched(grad) else None
        return grad, gated_column_sum(grad, dtype=ctx.dtype, impl=impl)

"""`relu_sum` on the padded layout as Triton kernels: a program computes a few rows of the result, without atomics."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.kernels import ceil_div, power_of_2_from

# Numbers that one program holds of a row of messages, and channels side by side.
_TILE = 512
_BLOCK = 64


@triton.jit
def _sum_kernel(
    rows, edges, place, weight, relation, out, num_rows, num_out, channels,
    place_stride, weight_stride, relation_stride,
    SLOTS: tl.constexpr, SUMS: tl.constexpr, HAS_EDGES: tl.constexpr, SUM: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    rows, out = rows + run * num_rows * channels, out + run * num_out * channels * SUMS
    if HAS_EDGES:
        edges += run * num_out * SLOTS * channels
    place, weight = place + run * num_out * place_stride, weight + run * num_out * weight_stride
    relation += run * num_out * relation_stride
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    there = row < num_out
    for r in tl.static_range(SUMS):
        total = tl.zeros((ROWS, BLOCK), dtype=SUM)
        for slot in tl.static_range(SLOTS):
            w = tl.load(weight + row * weight_stride + slot, mask=there, other=0.0).to(SUM)
            counts = w != 0
            if SUMS > 1:
                kind = tl.load(relation + row * relation_stride + slot, mask=there, other=-1)
                counts = counts & (kind == r)
            source = tl.load(place + row * place_stride + slot, mask=there, other=0)
            # an empty slot costs no read
            wanted = counts[:, None] & inside[None, :]
            message = tl.load(rows + source[:, None] * channels + channel[None, :], mask=wanted, other=0.0).to(SUM)
            if HAS_EDGES:
                entry = (row * SLOTS + slot)[:, None] * channels + channel[None, :]
                message += tl.load(edges + entry, mask=wanted, other=0.0).to(SUM)
            # a comparison, so that NaN stays NaN
            total += tl.where(wanted, w[:, None] * tl.where(message < 0, 0.0, message), 0.0)
        target = (row * SUMS + r)[:, None] * channels + channel[None, :]
        tl.store(out + target, total.to(out.dtype.element_ty), mask=there[:, None] & inside[None, :])


@triton.jit
def _gradient_kernel(
    rows, edges, place, weight, relation, grad, out, num_rows, num_out, channels,
    place_stride, weight_stride, relation_stride,
    SLOTS: tl.constexpr, SUMS: tl.constexpr, HAS_EDGES: tl.constexpr, SUM: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    rows, grad = rows + run * num_rows * channels, grad + run * num_out * channels * SUMS
    out += run * num_out * SLOTS * channels
    if HAS_EDGES:
        edges += run * num_out * SLOTS * channels
    place, weight = place + run * num_out * place_stride, weight + run * num_out * weight_stride
    relation += run * num_out * relation_stride
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = channel < channels
    there = row < num_out
    for slot in tl.static_range(SLOTS):
        w = tl.load(weight + row * weight_stride + slot, mask=there, other=0.0).to(SUM)
        wanted = (w != 0)[:, None] & inside[None, :]
        source = tl.load(place + row * place_stride + slot, mask=there, other=0)
        entry = (row * SLOTS + slot)[:, None] * channels + channel[None, :]
        message = tl.load(rows + source[:, None] * channels + channel[None, :], mask=wanted, other=0.0).to(SUM)
        if HAS_EDGES:
            message += tl.load(edges + entry, mask=wanted, other=0.0).to(SUM)
        received = row * SUMS
        if SUMS > 1:
            received += tl.load(relation + row * relation_stride + slot, mask=there, other=0)
        g = tl.load(grad + received[:, None] * channels + channel[None, :], mask=wanted, other=0.0).to(SUM)
        g = tl.where(message > 0, w[:, None] * g, 0.0)
        tl.store(out + entry, g.to(out.dtype.element_ty), mask=there[:, None] & inside[None, :])


def relu_sum(
    rows: Tensor, edge_rows: Tensor | None, place: Tensor, weight: Tensor, relation: Tensor, num_sums: int
) -> Tensor:
    """Launches one program per run and few nodes."""
    out = rows.new_empty(*place.shape[:2], num_sums * rows.size(2))
    _launch(_sum_kernel, rows, edge_rows, place, weight, relation, num_sums, out)
    return out


def relu_gradient(
    rows: Tensor,
    edge_rows: Tensor | None,
    place: Tensor,
    weight: Tensor,
    relation: Tensor,
    num_sums: int,
    grad: Tensor,
) -> Tensor:
    """Launches one program per run and the slots of a few nodes."""
    num_runs, num_out, slots = place.shape
    out = rows.new_empty(num_runs, num_out * slots, rows.size(2))
    _launch(_gradient_kernel, rows, edge_rows, place, weight, relation, num_sums, grad, out)
    return out


def _launch(
    kernel: triton.JITFunction,
    rows: Tensor,
    edge_rows: Tensor | None,
    place: Tensor,
    weight: Tensor,
    relation: Tensor,
    num_sums: int,
    *tensors: Tensor,
) -> None:
    num_runs, num_out, slots = place.shape
    channels = rows.size(2)
    rows, edge_rows = rows.contiguous(), None if edge_rows is None else edge_rows.contiguous()
    block = min(_BLOCK, power_of_2_from(channels))
    side = max(1, _TILE // block)
    kernel[(ceil_div(num_out, side), num_runs, ceil_div(channels, block))](
        rows, edge_rows, place, weight, relation, *tensors, rows.size(1), num_out, channels,
        _stride(place), _stride(weight), _stride(relation),
        SLOTS=slots, SUMS=num_sums, HAS_EDGES=edge_rows is not None,
        SUM=tl.float64 if rows.dtype == torch.float64 else tl.float32, ROWS=side, BLOCK=block, num_warps=4,
    )  # fmt: skip


def _stride(table: Tensor) -> int:
    """Stride between nodes; slots must be contiguous, and runs consecutive."""
    num_runs, num_rows, slots = table.shape
    if (table.stride(2) != 1 and slots > 1) or (num_runs > 1 and table.stride(0) != num_rows * table.stride(1)):
        raise ValueError(f"a table must have its slots side by side and its runs in a row, got {table.stride()}")
    return table.stride(1)

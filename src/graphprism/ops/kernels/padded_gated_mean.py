"""`batched.gated_mean` as Triton kernels: one on the way forward, two back; nothing is added by atomics.

A program has a few channels of a few nodes of one run. On the way back the first kernel goes by receivers and leaves
the gradient of every gate, which the second one adds up by senders.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.kernels import ceil_div, packed_runs, power_of_2_from

# Numbers of a row that one program holds, and channels side by side.
_TILE = 512
_BLOCK = 32


@triton.jit
def _sum_kernel(
    rows, edges, root_bias, dst_bias, edge_bias, src_bias, message_bias, numbers, weights, out, edge_out, ratio, scale,
    num_rows, channels, root_stride, dst_stride, edge_stride, src_stride, message_stride,
    EPS: tl.constexpr, SLOTS: tl.constexpr, RELATIONS: tl.constexpr, GATES: tl.constexpr, HAS_EDGES: tl.constexpr,
    HAS_EDGE_BIAS: tl.constexpr, SUM: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    maps: tl.constexpr = 2 + GATES + RELATIONS
    run = tl.program_id(1).to(tl.int64)
    rows += run * num_rows * maps * channels
    numbers, weights = numbers + run * num_rows * 5 * SLOTS, weights + run * num_rows * 2 * SLOTS
    edge_out += run * num_rows * SLOTS * channels
    if HAS_EDGES:
        edges += run * num_rows * SLOTS * channels
    src_bias, message_bias = src_bias + run * src_stride, message_bias + run * message_stride
    row = tl.program_id(0).to(COUNT) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    there, inside = row < num_rows, channel < channels
    both = there[:, None] & inside[None, :]
    own = row[:, None] * maps * channels + channel[None, :]
    shift = tl.load(dst_bias + run * dst_stride + channel, mask=inside, other=0.0).to(SUM)
    if HAS_EDGE_BIAS:
        shift += tl.load(edge_bias + run * edge_stride + channel, mask=inside, other=0.0).to(SUM)
    receiver = tl.load(rows + own + channels, mask=both, other=0.0).to(SUM) + shift[None, :]
    total = tl.zeros((ROWS, BLOCK), dtype=SUM)
    gates = tl.zeros((ROWS, BLOCK), dtype=SUM)
    for slot in tl.static_range(SLOTS):
        w = tl.load(weights + row * 2 * SLOTS + slot, mask=there, other=0.0)
        pair = tl.load(numbers + row * 5 * SLOTS + slot, mask=there, other=0).to(COUNT)
        # an empty slot costs no read
        wanted = (w != 0)[:, None] & inside[None, :]
        sender, kind = pair // RELATIONS, pair % RELATIONS
        which = kind if GATES > 1 else kind * 0
        edge = receiver + tl.load(
            rows + ((sender * maps + 2 + which) * channels)[:, None] + channel[None, :], mask=wanted, other=0.0
        ).to(SUM)  # fmt: skip
        edge += tl.load(src_bias + (which * channels)[:, None] + channel[None, :], mask=wanted, other=0.0).to(SUM)
        entry = (row * SLOTS + slot)[:, None] * channels + channel[None, :]
        if HAS_EDGES:
            edge += tl.load(edges + entry, mask=wanted, other=0.0).to(SUM)
        # rounded first: the way back knows no other
        edge = tl.where(wanted, edge, 0.0).to(edge_out.dtype.element_ty)
        tl.store(edge_out + entry, edge, mask=both)
        gate = tl.where(wanted, tl.sigmoid(edge.to(SUM)), 0.0)
        message = _message(rows, message_bias, sender, kind, channel, channels, wanted, maps, GATES, SUM)
        gates += gate
        total += gate * message
    factor = 1.0 / (gates + tl.full((), EPS, SUM))
    total *= factor
    at = (run * num_rows + row)[:, None] * channels + channel[None, :]
    tl.store(ratio + at, total, mask=both)
    tl.store(scale + at, factor, mask=both)
    root = tl.load(rows + own, mask=both, other=0.0).to(SUM)
    root += tl.load(root_bias + run * root_stride + channel, mask=inside, other=0.0).to(SUM)[None, :]
    tl.store(out + at, (root + total).to(out.dtype.element_ty), mask=both)


@triton.jit
def _message(rows, bias, sender, kind, channel, channels, wanted, maps: tl.constexpr, GATES: tl.constexpr,
             SUM: tl.constexpr):  # fmt: skip
    address = ((sender * maps + 2 + GATES + kind) * channels)[:, None] + channel[None, :]
    found = tl.load(rows + address, mask=wanted, other=0.0).to(SUM)
    return found + tl.load(bias + (kind * channels)[:, None] + channel[None, :], mask=wanted, other=0.0).to(SUM)


@triton.jit
def _receiver_kernel(
    grad, grad_edge, rows, edge, ratio, scale, message_bias, numbers, weights, back, of_edges, scaled,
    num_rows, channels, message_stride,
    SLOTS: tl.constexpr, RELATIONS: tl.constexpr, GATES: tl.constexpr, HAS_GRAD: tl.constexpr, SUM: tl.constexpr,
    COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    maps: tl.constexpr = 2 + GATES + RELATIONS
    run = tl.program_id(1).to(tl.int64)
    rows, back = rows + run * num_rows * maps * channels, back + run * num_rows * maps * channels
    numbers, weights = numbers + run * num_rows * 5 * SLOTS, weights + run * num_rows * 2 * SLOTS
    edge, of_edges = edge + run * num_rows * SLOTS * channels, of_edges + run * num_rows * SLOTS * channels
    if HAS_GRAD:
        grad_edge += run * num_rows * SLOTS * channels
    message_bias += run * message_stride
    row = tl.program_id(0).to(COUNT) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    there, inside = row < num_rows, channel < channels
    both = there[:, None] & inside[None, :]
    at = (run * num_rows + row)[:, None] * channels + channel[None, :]
    own = row[:, None] * maps * channels + channel[None, :]
    g = tl.load(grad + at, mask=both, other=0.0)
    tl.store(back + own, g, mask=both)
    g = g.to(SUM) * tl.load(scale + at, mask=both, other=0.0)
    tl.store(scaled + at, g, mask=both)
    mean = tl.load(ratio + at, mask=both, other=0.0)
    total = tl.zeros((ROWS, BLOCK), dtype=SUM)
    for slot in tl.static_range(SLOTS):
        w = tl.load(weights + row * 2 * SLOTS + slot, mask=there, other=0.0)
        pair = tl.load(numbers + row * 5 * SLOTS + slot, mask=there, other=0).to(COUNT)
        wanted = (w != 0)[:, None] & inside[None, :]
        sender, kind = pair // RELATIONS, pair % RELATIONS
        message = _message(rows, message_bias, sender, kind, channel, channels, wanted, maps, GATES, SUM)
        entry = (row * SLOTS + slot)[:, None] * channels + channel[None, :]
        gate = tl.sigmoid(tl.load(edge + entry, mask=wanted, other=0.0).to(SUM))
        slope = g * (message - mean) * gate * (1.0 - gate)
        if HAS_GRAD:
            slope += tl.load(grad_edge + entry, mask=wanted, other=0.0).to(SUM)
        slope = tl.where(wanted, slope, 0.0)
        tl.store(of_edges + entry, slope.to(of_edges.dtype.element_ty), mask=both)
        total += slope
    tl.store(back + own + channels, total.to(back.dtype.element_ty), mask=both)


@triton.jit
def _sender_kernel(
    edge, of_edges, scaled, numbers, weights, back, num_rows, channels,
    SLOTS: tl.constexpr, RELATIONS: tl.constexpr, GATES: tl.constexpr, SUM: tl.constexpr,
    COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    maps: tl.constexpr = 2 + GATES + RELATIONS
    run = tl.program_id(1).to(tl.int64)
    scaled, back = scaled + run * num_rows * channels, back + run * num_rows * maps * channels
    numbers, weights = numbers + run * num_rows * 5 * SLOTS, weights + run * num_rows * 2 * SLOTS
    edge, of_edges = edge + run * num_rows * SLOTS * channels, of_edges + run * num_rows * SLOTS * channels
    row = tl.program_id(0).to(COUNT) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    there, inside = row < num_rows, channel < channels
    both = there[:, None] & inside[None, :]
    own = row[:, None] * maps * channels + channel[None, :]
    source = tl.zeros((ROWS, BLOCK), dtype=SUM)
    for r in range(RELATIONS):
        message = tl.zeros((ROWS, BLOCK), dtype=SUM)
        if GATES > 1:
            source = tl.zeros((ROWS, BLOCK), dtype=SUM)
        for slot in tl.static_range(SLOTS):
            w = tl.load(weights + row * 2 * SLOTS + SLOTS + slot, mask=there, other=0.0)
            chosen = w != 0
            if RELATIONS > 1:
                chosen = chosen & (tl.load(numbers + row * 5 * SLOTS + 3 * SLOTS + slot, mask=there, other=-1) == r)
            wanted = chosen[:, None] & inside[None, :]
            receiver = tl.load(numbers + row * 5 * SLOTS + SLOTS + slot, mask=there, other=0).to(COUNT)
            entry = tl.load(numbers + row * 5 * SLOTS + 2 * SLOTS + slot, mask=there, other=0).to(COUNT)
            at = entry[:, None] * channels + channel[None, :]
            source += tl.load(of_edges + at, mask=wanted, other=0.0).to(SUM)
            gate = tl.where(wanted, tl.sigmoid(tl.load(edge + at, mask=wanted, other=0.0).to(SUM)), 0.0)
            message += gate * tl.load(scaled + receiver[:, None] * channels + channel[None, :], mask=wanted, other=0.0)
        tl.store(back + own + (2 + GATES + r) * channels, message.to(back.dtype.element_ty), mask=both)
        if GATES > 1:
            tl.store(back + own + (2 + r) * channels, source.to(back.dtype.element_ty), mask=both)
    if GATES == 1:
        tl.store(back + own + 2 * channels, source.to(back.dtype.element_ty), mask=both)


def gated_mean(
    rows: Tensor,
    edge_rows: Tensor | None,
    biases: tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor],
    numbers: Tensor,
    weights: Tensor,
    num_relations: int,
    num_gates: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One program for a few nodes and channels of one run."""
    (num_runs, num_rows), slots, channels = rows.shape[:2], weights.size(2) // 2, biases[0].size(1)
    wide = torch.promote_types(rows.dtype, torch.float32)
    out = rows.new_empty(num_runs, num_rows, channels)
    edge = rows.new_empty(num_runs, num_rows * slots, channels)
    ratio, scale = (rows.new_empty(num_runs, num_rows, channels, dtype=wide) for _ in range(2))
    packed = [None if each is None else packed_runs(each) for each in biases]
    side, block = _tile(channels)
    _sum_kernel[(ceil_div(num_rows, side), num_runs, ceil_div(channels, block))](
        rows.contiguous(), None if edge_rows is None else edge_rows.contiguous(), *packed,
        numbers.contiguous(), weights.contiguous(), out, edge, ratio, scale,
        num_rows, channels, *(0 if each is None else each.stride(0) for each in packed),
        EPS=eps, SLOTS=slots, RELATIONS=num_relations, GATES=num_gates, HAS_EDGES=edge_rows is not None,
        HAS_EDGE_BIAS=biases[2] is not None, SUM=_wide(rows), COUNT=_count(rows, edge), ROWS=side, BLOCK=block,
        num_warps=4,
    )  # fmt: skip
    return out, edge, ratio, scale


def gated_gradients(
    grad: Tensor,
    grad_edge: Tensor | None,
    rows: Tensor,
    edge: Tensor,
    ratio: Tensor,
    scale: Tensor,
    biases: tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor],
    numbers: Tensor,
    weights: Tensor,
    num_relations: int,
    num_gates: int,
) -> tuple[Tensor, Tensor]:
    """Programs for a few nodes and channels of one run: first as receivers, then as senders."""
    (num_runs, num_rows, channels), slots = grad.shape, weights.size(2) // 2
    numbers, weights, rows, bias = (
        numbers.contiguous(),
        weights.contiguous(),
        rows.contiguous(),
        packed_runs(biases[-1]),
    )
    back, of_edges, scaled = torch.empty_like(rows), torch.empty_like(edge), torch.empty_like(ratio)
    side, block = _tile(channels)
    grid = ceil_div(num_rows, side), num_runs, ceil_div(channels, block)
    sizes = {
        "SLOTS": slots, "RELATIONS": num_relations, "GATES": num_gates, "SUM": _wide(rows),
        "COUNT": _count(rows, edge), "ROWS": side, "BLOCK": block, "num_warps": 4,
    }  # fmt: skip
    _receiver_kernel[grid](
        grad.contiguous(), None if grad_edge is None else grad_edge.contiguous(), rows, edge, ratio, scale, bias,
        numbers, weights, back, of_edges, scaled, num_rows, channels, bias.stride(0),
        HAS_GRAD=grad_edge is not None, **sizes,
    )  # fmt: skip
    _sender_kernel[grid](edge, of_edges, scaled, numbers, weights, back, num_rows, channels, **sizes)
    return back, of_edges


def _tile(channels: int) -> tuple[int, int]:
    block = min(_BLOCK, power_of_2_from(channels))
    return max(1, _TILE // block), block


def _count(rows: Tensor, edge: Tensor) -> tl.dtype:
    """What can count the numbers of one run: a wide integer costs instructions."""
    most = max(tensor.size(1) * tensor.size(2) for tensor in (rows, edge))
    return tl.int32 if most < 1 << 31 else tl.int64


def _wide(rows: Tensor) -> tl.dtype:
    return tl.float64 if rows.dtype == torch.float64 else tl.float32

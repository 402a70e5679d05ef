"""Attention over entries as Triton kernels: three on the way forward, three back; nothing is added by atomics.

Forward: scores of the pairs (node, relation), coefficients, sums. Back: gradients of the coefficients and of the
logits by receivers, then everything that senders get. A softmax runs over the slots of a node, which a program has side
by side.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.batched.slot_sum import gated_column_sum
from graphprism.ops.kernels import ceil_div, packed_runs, power_of_2_from

# Channels side by side, at most, and numbers of a row that one program holds: of a whole row, and of a part of it.
_WHOLE, _WHOLE_TILE = 256, 2048
_BLOCK, _TILE = 32, 512
# Entries of a program that makes coefficients.
_ENTRIES = 256


@triton.jit
def _score_kernel(
    h, att_src, att_dst, score, num_rows, channels, src_stride, dst_stride,
    HEADS: tl.constexpr, SUM: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Rows are triples (node, relation, head)."""
    run = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0).to(COUNT) * ROWS + tl.arange(0, ROWS)
    there = row < num_rows
    h, att_src, att_dst = h + run * num_rows * channels, att_src + run * src_stride, att_dst + run * dst_stride
    head = row % HEADS
    as_sender = tl.zeros((ROWS,), dtype=SUM)
    as_receiver = tl.zeros((ROWS,), dtype=SUM)
    for first in range(0, channels, BLOCK):
        channel = first + tl.arange(0, BLOCK)
        wanted = there[:, None] & (channel < channels)[None, :]
        part = tl.load(h + row[:, None] * channels + channel[None, :], mask=wanted, other=0.0).to(SUM)
        place = (head * channels)[:, None] + channel[None, :]
        as_sender += tl.sum(part * tl.load(att_src + place, mask=wanted, other=0.0).to(SUM), axis=1)
        as_receiver += tl.sum(part * tl.load(att_dst + place, mask=wanted, other=0.0).to(SUM), axis=1)
    target = score + (run * num_rows + row) * 2
    tl.store(target, as_sender, mask=there)
    tl.store(target + 1, as_receiver, mask=there)


@triton.jit
def _alpha_kernel(
    score, edge_logit, numbers, weights, alpha, logit, num_rows,
    SLOPE: tl.constexpr, MOST: tl.constexpr, SLOTS: tl.constexpr, PADDED: tl.constexpr, RELATIONS: tl.constexpr,
    HEADS: tl.constexpr, HAS_LOGIT: tl.constexpr, SUM: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0).to(COUNT) * ROWS + tl.arange(0, ROWS)
    slot = tl.arange(0, PADDED)
    there = (row < num_rows)[:, None] & (slot < SLOTS)[None, :]
    score += run * num_rows * RELATIONS * HEADS * 2
    numbers, weights = numbers + run * num_rows * 5 * SLOTS, weights + run * num_rows * 2 * SLOTS
    w = tl.load(weights + row[:, None] * 2 * SLOTS + slot[None, :], mask=there, other=0.0).to(SUM)
    pair = tl.load(numbers + row[:, None] * 5 * SLOTS + slot[None, :], mask=there, other=0).to(COUNT)
    own = row[:, None] * RELATIONS + pair % RELATIONS
    counts = there & (w != 0)
    for head in tl.static_range(HEADS):
        found = tl.load(score + (pair * HEADS + head) * 2, mask=counts, other=0.0)
        found += tl.load(score + (own * HEADS + head) * 2 + 1, mask=counts, other=0.0)
        place = ((run * num_rows + row)[:, None] * SLOTS + slot[None, :]) * HEADS + head
        if HAS_LOGIT:
            found += tl.load(edge_logit + place, mask=counts, other=0.0).to(SUM)
        tl.store(logit + place, found, mask=there)
        passed = tl.where(found > 0, found, tl.full((), SLOPE, SUM) * found)
        # where NaN is, a comparison below keeps it
        largest = tl.max(tl.where(counts & (w > 0), passed, -float("inf")), axis=1)
        largest = tl.where(largest == -float("inf"), 0.0, largest)
        apart = passed - largest[:, None]
        mass = tl.where(w < 0, float("nan"), w) * tl.exp(tl.where(apart > MOST, MOST, apart))
        mass = tl.where(counts, mass, 0.0)
        total = tl.sum(mass, axis=1)
        share = mass / tl.where(total == 0, float("inf"), total)[:, None]
        tl.store(alpha + place, share, mask=there)


@triton.jit
def _sum_kernel(
    h, alpha, bias, numbers, weights, out, num_rows, channels, bias_stride,
    SLOTS: tl.constexpr, RELATIONS: tl.constexpr, HEADS: tl.constexpr, MEAN: tl.constexpr, HAS_BIAS: tl.constexpr,
    SUM: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(1).to(tl.int64)
    h, alpha = h + run * num_rows * RELATIONS * HEADS * channels, alpha + run * num_rows * SLOTS * HEADS
    numbers, weights = numbers + run * num_rows * 5 * SLOTS, weights + run * num_rows * 2 * SLOTS
    row = tl.program_id(0).to(COUNT) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    there, inside = row < num_rows, channel < channels
    both = there[:, None] & inside[None, :]
    total = tl.zeros((ROWS, BLOCK), dtype=SUM)
    width = channels if MEAN else HEADS * channels
    target = out + (run * num_rows + row)[:, None] * width + channel[None, :]
    for head in tl.static_range(HEADS):
        if not MEAN:
            total = tl.zeros((ROWS, BLOCK), dtype=SUM)
        for slot in tl.static_range(SLOTS):
            w = tl.load(weights + row * 2 * SLOTS + slot, mask=there, other=0.0)
            pair = tl.load(numbers + row * 5 * SLOTS + slot, mask=there, other=0).to(COUNT)
            share = tl.load(alpha + (row * SLOTS + slot) * HEADS + head, mask=there, other=0.0)
            # an empty slot costs no read
            wanted = (w != 0)[:, None] & inside[None, :]
            message = tl.load(
                h + ((pair * HEADS + head) * channels)[:, None] + channel[None, :], mask=wanted, other=0.0
            )
            total += share[:, None] * message.to(SUM)
        if not MEAN:
            if HAS_BIAS:
                added = bias + run * bias_stride + head * channels + channel
                total += tl.load(added, mask=inside, other=0.0).to(SUM)[None, :]
            tl.store(target + head * channels, total.to(out.dtype.element_ty), mask=both)
    if MEAN:
        total = total / HEADS
        if HAS_BIAS:
            total += tl.load(bias + run * bias_stride + channel, mask=inside, other=0.0).to(SUM)[None, :]
        tl.store(target, total.to(out.dtype.element_ty), mask=both)


@triton.jit
def _dot_kernel(
    grad, h, numbers, weights, of_alpha, num_rows, channels,
    SLOTS: tl.constexpr, RELATIONS: tl.constexpr, HEADS: tl.constexpr, MEAN: tl.constexpr,
    SUM: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of the coefficients: a receiver's gradient times what the sender sent."""
    run = tl.program_id(1).to(tl.int64)
    h, of_alpha = h + run * num_rows * RELATIONS * HEADS * channels, of_alpha + run * num_rows * SLOTS * HEADS
    numbers, weights = numbers + run * num_rows * 5 * SLOTS, weights + run * num_rows * 2 * SLOTS
    row = tl.program_id(0).to(COUNT) * ROWS + tl.arange(0, ROWS)
    there = row < num_rows
    width = channels if MEAN else HEADS * channels
    for slot in tl.static_range(SLOTS):
        w = tl.load(weights + row * 2 * SLOTS + slot, mask=there, other=0.0)
        pair = tl.load(numbers + row * 5 * SLOTS + slot, mask=there, other=0).to(COUNT)
        for head in tl.static_range(HEADS):
            dot = tl.zeros((ROWS,), dtype=SUM)
            for first in range(0, channels, BLOCK):
                channel = first + tl.arange(0, BLOCK)
                inside = channel < channels
                wanted = (w != 0)[:, None] & inside[None, :]
                received = grad + (run * num_rows + row)[:, None] * width + channel[None, :]
                received += 0 if MEAN else head * channels
                g = tl.load(received, mask=wanted, other=0.0).to(SUM)
                sent = h + ((pair * HEADS + head) * channels)[:, None] + channel[None, :]
                dot += tl.sum(g * tl.load(sent, mask=wanted, other=0.0).to(SUM), axis=1)
            dot = dot / HEADS if MEAN else dot
            tl.store(of_alpha + (row * SLOTS + slot) * HEADS + head, dot, mask=there)


@triton.jit
def _logit_kernel(
    of_alpha, alpha, logit, numbers, of_logit, received, num_rows,
    SLOPE: tl.constexpr, SLOTS: tl.constexpr, PADDED: tl.constexpr, RELATIONS: tl.constexpr, HEADS: tl.constexpr,
    SUM: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Gradients of the logits, and their sums for each pair (receiver, relation)."""
    run = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0).to(COUNT) * ROWS + tl.arange(0, ROWS)
    slot = tl.arange(0, PADDED)
    there = (row < num_rows)[:, None] & (slot < SLOTS)[None, :]
    numbers += run * num_rows * 5 * SLOTS
    kind = tl.load(numbers + row[:, None] * 5 * SLOTS + slot[None, :], mask=there, other=0) % RELATIONS
    received += run * num_rows * RELATIONS * HEADS
    for head in tl.static_range(HEADS):
        place = ((run * num_rows + row)[:, None] * SLOTS + slot[None, :]) * HEADS + head
        share = tl.load(alpha + place, mask=there, other=0.0)
        found = tl.load(of_alpha + place, mask=there, other=0.0)
        found = share * (found - tl.sum(share * found, axis=1)[:, None])
        found = tl.where(tl.load(logit + place, mask=there, other=0.0) > 0, found, tl.full((), SLOPE, SUM) * found)
        tl.store(of_logit + place, found, mask=there)
        for r in range(RELATIONS):
            total = tl.sum(tl.where(kind == r, found, 0.0), axis=1)
            tl.store(received + (row * RELATIONS + r) * HEADS + head, total, mask=row < num_rows)


@triton.jit
def _sender_kernel(
    grad, h, att_src, att_dst, alpha, of_logit, received, numbers, weights, back, parts, num_rows, channels,
    src_stride, dst_stride,
    SLOTS: tl.constexpr, RELATIONS: tl.constexpr, HEADS: tl.constexpr, MEAN: tl.constexpr,
    SUM: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of what was sent, and sums over a few nodes of those of the attention vectors."""
    run = tl.program_id(1).to(tl.int64)
    h, back = h + run * num_rows * RELATIONS * HEADS * channels, back + run * num_rows * RELATIONS * HEADS * channels
    numbers, weights = numbers + run * num_rows * 5 * SLOTS, weights + run * num_rows * 2 * SLOTS
    alpha, of_logit = alpha + run * num_rows * SLOTS * HEADS, of_logit + run * num_rows * SLOTS * HEADS
    received += run * num_rows * RELATIONS * HEADS
    width = channels if MEAN else HEADS * channels
    grad += run * num_rows * width
    att_src, att_dst = att_src + run * src_stride, att_dst + run * dst_stride
    row = tl.program_id(0).to(COUNT) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    there, inside = row < num_rows, channel < channels
    both = there[:, None] & inside[None, :]
    part = parts + (run * tl.num_programs(0) + tl.program_id(0)) * 2 * HEADS * channels + channel
    for head in tl.static_range(HEADS):
        as_sender = tl.load(att_src + head * channels + channel, mask=inside, other=0.0).to(SUM)
        as_receiver = tl.load(att_dst + head * channels + channel, mask=inside, other=0.0).to(SUM)
        of_sender = tl.zeros((ROWS, BLOCK), dtype=SUM)
        of_receiver = tl.zeros((ROWS, BLOCK), dtype=SUM)
        for r in range(RELATIONS):
            total = tl.zeros((ROWS, BLOCK), dtype=SUM)
            sent = tl.zeros((ROWS,), dtype=SUM)
            for slot in tl.static_range(SLOTS):
                chosen = tl.load(weights + row * 2 * SLOTS + SLOTS + slot, mask=there, other=0.0) != 0
                if RELATIONS > 1:
                    chosen = chosen & (tl.load(numbers + row * 5 * SLOTS + 3 * SLOTS + slot, mask=there, other=-1) == r)
                receiver = tl.load(numbers + row * 5 * SLOTS + SLOTS + slot, mask=there, other=0).to(COUNT)
                entry = tl.load(numbers + row * 5 * SLOTS + 2 * SLOTS + slot, mask=there, other=0).to(COUNT)
                sent += tl.load(of_logit + entry * HEADS + head, mask=chosen, other=0.0)
                share = tl.load(alpha + entry * HEADS + head, mask=chosen, other=0.0)
                source = grad + receiver[:, None] * width + channel[None, :]
                source += 0 if MEAN else head * channels
                g = tl.load(source, mask=chosen[:, None] & inside[None, :], other=0.0).to(SUM)
                total += share[:, None] * g
            total = total / HEADS if MEAN else total
            pair = (row * RELATIONS + r) * HEADS + head
            own = tl.load(received + pair, mask=there, other=0.0)
            total += sent[:, None] * as_sender[None, :] + own[:, None] * as_receiver[None, :]
            at = pair[:, None] * channels + channel[None, :]
            tl.store(back + at, total.to(back.dtype.element_ty), mask=both)
            mine = tl.load(h + at, mask=both, other=0.0).to(SUM)
            of_sender += sent[:, None] * mine
            of_receiver += own[:, None] * mine
        tl.store(part + head * channels, tl.sum(of_sender, axis=0), mask=inside)
        tl.store(part + (HEADS + head) * channels, tl.sum(of_receiver, axis=0), mask=inside)


def attention_sum(
    h: Tensor,
    att_src: Tensor,
    att_dst: Tensor,
    edge_logit: Tensor | None,
    bias: Tensor | None,
    numbers: Tensor,
    weights: Tensor,
    negative_slope: float,
    mean: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Three kernels."""
    num_runs, num_rows, relations, heads, channels = h.shape
    slots, wide = weights.size(2) // 2, torch.promote_types(h.dtype, torch.float32)
    h, numbers, weights = h.contiguous(), numbers.contiguous(), weights.contiguous()
    att_src, att_dst = packed_runs(att_src), packed_runs(att_dst)
    alpha = h.new_empty(num_runs, num_rows, slots, heads, dtype=wide)
    logit, score = torch.empty_like(alpha), h.new_empty(num_runs, num_rows * relations * heads, 2, dtype=wide)
    out = h.new_empty(num_runs, num_rows, channels if mean else heads * channels)
    types = {"SUM": _wide(h), "COUNT": _count(h)}
    block = min(_WHOLE, power_of_2_from(channels))
    side = max(1, _WHOLE_TILE // block)
    _score_kernel[(ceil_div(score.size(1), side), num_runs)](
        h, att_src, att_dst, score, score.size(1), channels, att_src.stride(0), att_dst.stride(0),
        HEADS=heads, ROWS=side, BLOCK=block, **types, num_warps=4,
    )  # fmt: skip
    sizes = {"SLOTS": slots, "RELATIONS": relations, "HEADS": heads, **types, "num_warps": 4}
    side, padded = _entries(slots)
    _alpha_kernel[(ceil_div(num_rows, side), num_runs)](
        score, None if edge_logit is None else edge_logit.contiguous(), numbers, weights, alpha, logit,
        num_rows, SLOPE=negative_slope, MOST=_most(wide), HAS_LOGIT=edge_logit is not None,
        PADDED=padded, ROWS=side, **sizes,
    )  # fmt: skip
    side, block = _tile(channels)
    bias = None if bias is None else packed_runs(bias)
    _sum_kernel[(ceil_div(num_rows, side), num_runs, ceil_div(channels, block))](
        h, alpha, bias, numbers, weights, out, num_rows, channels, 0 if bias is None else bias.stride(0),
        MEAN=mean, HAS_BIAS=bias is not None, ROWS=side, BLOCK=block, **sizes,
    )  # fmt: skip
    return out, alpha, logit


def attention_gradients(
    grad: Tensor,
    h: Tensor,
    att_src: Tensor,
    att_dst: Tensor,
    alpha: Tensor,
    logit: Tensor,
    numbers: Tensor,
    weights: Tensor,
    negative_slope: float,
    mean: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Three kernels, and one for sums of columns."""
    num_runs, num_rows, relations, heads, channels = h.shape
    slots = weights.size(2) // 2
    h, numbers, weights = h.contiguous(), numbers.contiguous(), weights.contiguous()
    att_src, att_dst = packed_runs(att_src), packed_runs(att_dst)
    grad, of_alpha, of_logit = grad.contiguous(), torch.empty_like(alpha), torch.empty_like(alpha)
    received = alpha.new_empty(num_runs, num_rows, relations, heads)
    types = {"SUM": _wide(h), "COUNT": _count(h)}
    sizes = {"SLOTS": slots, "RELATIONS": relations, "HEADS": heads, **types, "num_warps": 4}
    block = min(_WHOLE, power_of_2_from(channels))
    side = max(1, _WHOLE_TILE // block)
    _dot_kernel[(ceil_div(num_rows, side), num_runs)](
        grad, h, numbers, weights, of_alpha, num_rows, channels, MEAN=mean, ROWS=side, BLOCK=block, **sizes
    )
    side, padded = _entries(slots)
    _logit_kernel[(ceil_div(num_rows, side), num_runs)](
        of_alpha, alpha, logit, numbers, of_logit, received, num_rows,
        SLOPE=negative_slope, PADDED=padded, ROWS=side, **sizes,
    )  # fmt: skip
    side, block = _tile(channels)
    count = ceil_div(num_rows, side)
    back, parts = torch.empty_like(h), alpha.new_empty(num_runs, count, 2 * heads * channels)
    _sender_kernel[(count, num_runs, ceil_div(channels, block))](
        grad, h, att_src, att_dst, alpha, of_logit, received, numbers, weights, back, parts, num_rows, channels,
        att_src.stride(0), att_dst.stride(0), MEAN=mean, ROWS=side, BLOCK=block, **sizes,
    )  # fmt: skip
    sums = gated_column_sum(parts, dtype=att_src.dtype, impl="triton").view(num_runs, 2, heads, channels)
    return back, sums[:, 0], sums[:, 1], of_logit


def _tile(channels: int) -> tuple[int, int]:
    block = min(_BLOCK, power_of_2_from(channels))
    return max(1, _TILE // block), block


def _entries(slots: int) -> tuple[int, int]:
    """Nodes and slots of a program, both powers of two."""
    padded = power_of_2_from(slots)
    return max(1, _ENTRIES // padded), padded


def _most(dtype: torch.dtype) -> float:
    """The largest logit beside the maximum of those that count, as in `graphprism.ops.edge_softmax`."""
    largest: float = torch.tensor(torch.finfo(dtype).max, dtype=torch.float64).log().item() / 2
    return largest


def _count(h: Tensor) -> tl.dtype:
    """What can count the numbers of one run: a wide integer costs instructions."""
    return tl.int32 if h[0].numel() < 1 << 31 else tl.int64


def _wide(h: Tensor) -> tl.dtype:
    return tl.float64 if h.dtype == torch.float64 else tl.float32

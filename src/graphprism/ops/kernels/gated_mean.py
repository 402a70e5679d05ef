"""`gated_mean` as Triton kernels: one forward by receivers, one backward by senders; no atomics, no rows of entries.

A program processes the entries of a few nodes for some channels; a hub is cut into `Segments`, whose sums a second
launch adds. A channel of a gate depends on one channel of its receiver and one of its sender, so the derivative of the
mean by the receiver's row, the *slope*, is a row as well. It is computed forward, and only the gradients of the senders
need a second pass over the entries, which computes the gates again. Three rows per receiver are saved. The rows of
senders are computed again, too, a block of nodes at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.backends import is_batched, plain_gradients
from graphprism.ops.gated_mean import GateMaps, LinearMap, Pair, reference, without_autocast
from graphprism.ops.kernels import ceil_div, device_of, power_of_2_from
from graphprism.ops.kernels.csr_sum import add_further

if TYPE_CHECKING:
    from graphprism.ops.csr import Csr
    from graphprism.ops.relational_adj import RelationalAdj

# Numbers that one program holds of each sum, and channels side by side.
_TILE = 512
_BLOCK = 64
# Entries of a node that are read at once: 64 registers a thread in float32 on an H200, none spilled.
_UNROLL = 2
# Bytes of the senders' rows of one block in backward: blocks only bound the memory of large graphs.
_BLOCK_BYTES = 256 << 20


@triton.jit
def _sum_kernel(
    begin_of, end_of, hub, hub_begin, hub_end, pair_col, value, dst_rows, src_rows, pieces, mean, scale, slope,
    num_programs, num_rows, channels,
    EPS: tl.constexpr, IS_HUB: tl.constexpr, HAS_HUBS: tl.constexpr, HAS_SLOPE: tl.constexpr,
    HAS_VALUE: tl.constexpr, RELATIONS: tl.constexpr, GATES: tl.constexpr, SUM: tl.constexpr,
    UNROLL: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    maps: tl.constexpr = GATES + RELATIONS
    number = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there, inside = number < num_programs, channel < channels
    node = number.to(tl.int64)
    segment, is_row = node, there & (number < num_rows)
    if IS_HUB:  # the first segment once more, and the sums of the further ones
        first_piece = tl.load(hub_begin + number, mask=there, other=0).to(tl.int64)
        num_pieces = tl.load(hub_end + number, mask=there, other=0).to(tl.int64) - first_piece
        there = there & (num_pieces > 0)
        node = tl.load(hub + number, mask=there, other=0).to(tl.int64)
        segment, is_row = node, there
    elif HAS_HUBS:
        further = there & (number >= num_rows)
        node = tl.where(further, tl.load(hub + number - num_rows, mask=further, other=0).to(tl.int64), node)
    begin = tl.load(begin_of + segment, mask=there, other=0)
    count = tl.load(end_of + segment, mask=there, other=0) - begin
    own = node[:, None] * channels + channel[None, :]
    receiver = tl.load(dst_rows + own, mask=(there & (count > 0))[:, None] & inside[None, :], other=0.0).to(SUM)
    total = tl.zeros((ROWS, BLOCK), dtype=SUM)
    gates, steep, steep_total = total, total, total
    for begin_k in range(0, tl.max(count, axis=0), UNROLL):
        for step in tl.static_range(UNROLL):
            k = begin_k + step
            here = k < count
            wanted = here[:, None] & inside[None, :]
            pair = tl.load(pair_col + begin + k, mask=here, other=0).to(tl.int64)
            sender, kind = pair // RELATIONS, pair % RELATIONS
            place = (sender * maps)[:, None] * channels + channel[None, :]
            which = kind[:, None] * channels
            of_gate = place + which if GATES > 1 else place
            edge = receiver + tl.load(src_rows + of_gate, mask=wanted, other=0.0).to(SUM)
            message = tl.load(src_rows + place + GATES * channels + which, mask=wanted, other=0.0).to(SUM)
            sigmoid = tl.sigmoid(edge)
            gate = tl.where(wanted, sigmoid, 0.0)
            if HAS_VALUE:
                weight = tl.load(value + begin + k, mask=here, other=0.0).to(SUM)
                gate = tl.where(wanted, weight[:, None] * sigmoid, 0.0)
            gates += gate
            total += gate * message
            if HAS_SLOPE:
                change = gate * (1.0 - sigmoid)
                steep += change
                steep_total += change * message
    if IS_HUB:
        for p in range(0, tl.max(num_pieces, axis=0)):
            found = (p < num_pieces)[:, None] & inside[None, :]
            piece = pieces + ((first_piece + p) * 4)[:, None] * channels + channel[None, :]
            total += tl.load(piece, mask=found, other=0.0)
            gates += tl.load(piece + channels, mask=found, other=0.0)
            if HAS_SLOPE:
                steep_total += tl.load(piece + 2 * channels, mask=found, other=0.0)
                steep += tl.load(piece + 3 * channels, mask=found, other=0.0)
    wanted = is_row[:, None] & inside[None, :]
    divisor = gates + tl.full((), EPS, SUM)
    ratio = total / divisor
    tl.store(mean + own, ratio.to(mean.dtype.element_ty), mask=wanted)
    if HAS_SLOPE:
        tl.store(scale + own, 1.0 / divisor, mask=wanted)
        # no gate, no slope, also where the mean of nothing is 0 / 0
        change = tl.where((count > 0)[:, None], (steep_total - ratio * steep) / divisor, 0.0)
        tl.store(slope + own, change, mask=wanted)
    if HAS_HUBS and not IS_HUB:
        found = (there & (number >= num_rows))[:, None] & inside[None, :]
        piece = pieces + ((number.to(tl.int64) - num_rows) * 4)[:, None] * channels + channel[None, :]
        tl.store(piece, total, mask=found)
        tl.store(piece + channels, gates, mask=found)
        if HAS_SLOPE:
            tl.store(piece + 2 * channels, steep_total, mask=found)
            tl.store(piece + 3 * channels, steep, mask=found)


@triton.jit
def _gradient_kernel(
    begin_of, end_of, hub, rowptr, col, value, dst_rows, src_rows, scaled, mean, back, of_entries,
    num_programs, num_rows, num_entries, channels,
    HAS_HUBS: tl.constexpr, HAS_ENTRIES: tl.constexpr, HAS_VALUE: tl.constexpr, RELATIONS: tl.constexpr,
    GATES: tl.constexpr, SUM: tl.constexpr, UNROLL: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    maps: tl.constexpr = GATES + RELATIONS
    number = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there, inside = number < num_programs, channel < channels
    node = number.to(tl.int64)
    if HAS_HUBS:
        further = there & (number >= num_rows)
        node = tl.where(further, tl.load(hub + number - num_rows, mask=further, other=0).to(tl.int64), node)
    first = tl.load(begin_of + number, mask=there, other=0)
    last = tl.load(end_of + number, mask=there, other=0)
    both = there[:, None] & inside[None, :]
    some = (first < last)[:, None] & both
    own = src_rows + (node * maps)[:, None] * channels + channel[None, :]
    target = back + (number.to(tl.int64) * maps)[:, None] * channels + channel[None, :]
    sender = tl.load(own, mask=some, other=0.0).to(SUM)
    of_gate = tl.zeros((ROWS, BLOCK), dtype=SUM)
    for r in range(RELATIONS):
        begin = tl.maximum(first, tl.load(rowptr + node * RELATIONS + r, mask=there, other=0))
        end = tl.minimum(last, tl.load(rowptr + node * RELATIONS + r + 1, mask=there, other=0))
        count = tl.maximum(end - begin, 0)
        some = (count > 0)[:, None] & both
        message = tl.load(own + (GATES + r) * channels, mask=some, other=0.0).to(SUM)
        if GATES > 1:
            sender = tl.load(own + r * channels, mask=some, other=0.0).to(SUM)
            of_gate = tl.zeros((ROWS, BLOCK), dtype=SUM)
        of_message = tl.zeros((ROWS, BLOCK), dtype=SUM)
        for begin_k in range(0, tl.max(count, axis=0), UNROLL):
            for step in tl.static_range(UNROLL):
                k = begin_k + step
                here = k < count
                wanted = here[:, None] & inside[None, :]
                receiver = tl.load(col + begin + k, mask=here, other=0).to(tl.int64)
                place = receiver[:, None] * channels + channel[None, :]
                edge = sender + tl.load(dst_rows + place, mask=wanted, other=0.0).to(SUM)
                given = tl.load(scaled + place, mask=wanted, other=0.0)
                ratio = tl.load(mean + place, mask=wanted, other=0.0).to(SUM)
                sigmoid = tl.sigmoid(edge)
                gate = sigmoid * given
                change = gate * (message - ratio)
                if HAS_ENTRIES:
                    at = of_entries + tl.program_id(1).to(tl.int64) * num_entries + begin + k
                    tl.store(at, tl.sum(tl.where(wanted, change, 0.0), axis=1), mask=here)
                if HAS_VALUE:
                    weight = tl.load(value + begin + k, mask=here, other=0.0).to(SUM)[:, None]
                    gate, change = weight * gate, weight * change
                of_message += tl.where(wanted, gate, 0.0)
                of_gate += tl.where(wanted, change * (1.0 - sigmoid), 0.0)
        tl.store(target + (GATES + r) * channels, of_message.to(back.dtype.element_ty), mask=both)
        if GATES > 1:
            tl.store(target + r * channels, of_gate.to(back.dtype.element_ty), mask=both)
    if GATES == 1:
        tl.store(target, of_gate.to(back.dtype.element_ty), mask=both)


def gated_mean(x: Pair, adj: RelationalAdj, maps: GateMaps, edge_rows: Tensor | None, eps: float) -> Tensor:
    """All maps and the mean, with their own backward pass."""
    if edge_rows is not None:
        raise ValueError("`edge_rows` must be `None` with `impl='triton'`, got a tensor")
    receivers, num_gates = maps.receivers, maps.num_gates
    # gates, then messages, side by side: one product
    senders = LinearMap(*(torch.cat(both, dim=-1) for both in zip(maps.gates, maps.messages, strict=True)))
    if not torch.is_grad_enabled():
        return _forward(*x, adj, receivers, senders, num_gates, eps, needs_slope=False)[0]
    tensors = (*receivers, *senders)
    out: Tensor = _GatedMean.apply(*x, adj.weight, *tensors, adj, num_gates, eps)  # type: ignore[no-untyped-call]
    return out


class _GatedMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_src: Tensor, x_dst: Tensor, weight: Tensor | None, *more: Any) -> Tensor:
        maps, (adj, num_gates, eps) = more[:4], more[4:]
        receivers, senders = LinearMap(*maps[:2]), LinearMap(*maps[2:])
        found = _forward(x_src, x_dst, adj, receivers, senders, num_gates, eps, needs_slope=True)
        ctx.save_for_backward(x_src, x_dst, weight, *maps, *found)
        ctx.rest = adj, num_gates, eps
        return found[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, mean, scale, slope = ctx.saved_tensors
        adj, num_gates, eps = ctx.rest
        with without_autocast(grad.device):
            if torch.is_grad_enabled() or is_batched(grad):
                found = _plain_backward(grad, inputs, adj, num_gates, eps, ctx.needs_input_grad)
            else:
                found = _backward(grad, inputs, (mean, scale, slope), adj, num_gates, ctx.needs_input_grad)
        return *found, None, None, None


def _forward(
    x_src: Tensor,
    x_dst: Tensor,
    adj: RelationalAdj,
    receivers: LinearMap,
    senders: LinearMap,
    num_gates: int,
    eps: float,
    *,
    needs_slope: bool,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    value = adj.values(adj.incoming.order, adj.weight, x_dst.dtype)
    return mean_and_slope(receivers.rows(x_dst), senders.rows(x_src), adj.incoming, value, num_gates, eps, needs_slope)


def _plain_backward(
    grad: Tensor, inputs: list[Any], adj: RelationalAdj, num_gates: int, eps: float, needed: tuple[bool, ...]
) -> list[Tensor | None]:
    """The same gradients by plain operations: for second derivatives and batched gradients."""

    def mean(x_src: Tensor, x_dst: Tensor, weight: Tensor | None, *tensors: Tensor) -> Tensor:
        receivers, width = LinearMap(*tensors[:2]), num_gates * tensors[1].numel()
        gates, messages = zip(*(each.tensor_split([width], dim=-1) for each in tensors[2:]), strict=True)
        maps = GateMaps(receivers, LinearMap(*gates), LinearMap(*messages))
        return reference((x_src, x_dst), adj.with_weight(weight), maps, None, eps)

    return plain_gradients(mean, inputs, grad, needed)


def _backward(
    grad: Tensor,
    inputs: list[Any],
    saved: tuple[Tensor, Tensor, Tensor],
    adj: RelationalAdj,
    num_gates: int,
    needed: tuple[bool, ...],
) -> list[Tensor | None]:
    x_src, x_dst, weight, *maps = inputs
    receivers, senders = LinearMap(*maps[:2]), LinearMap(*maps[2:])
    mean, scale, slope = saved
    found: list[Tensor | None] = [None] * len(inputs)
    if needed[1] or needed[3] or needed[4]:
        back = slope.mul(grad).to(x_dst.dtype)
        found[1] = back @ receivers.weight.t() if needed[1] else None
        found[3] = x_dst.t() @ back if needed[3] else None
        found[4] = back.sum(dim=0) if needed[4] else None
        del back
    if not (needed[0] or needed[2] or needed[5] or needed[6]):
        return found
    csr = adj.outgoing
    dst_rows, scaled = receivers.rows(x_dst), scale.mul(grad).contiguous()
    value = adj.values(csr.order, adj.weight, x_src.dtype)
    of_x = torch.empty_like(x_src, memory_format=torch.contiguous_format) if needed[0] else None
    of_entries = scale.new_zeros(csr.col.numel()) if needed[2] else None
    of_weight, of_bias = [], []
    step = max(1, _BLOCK_BYTES // max(1, senders.weight.size(1) * x_src.element_size()))
    for begin in range(0, max(1, csr.num_rows), step):
        rows = x_src[begin : begin + step]
        block = (begin, begin + rows.size(0))
        back = gated_gradients(dst_rows, senders.rows(rows), scaled, mean, csr, value, num_gates, block, of_entries)
        if of_x is not None:
            torch.mm(back, senders.weight.t(), out=of_x[begin : begin + step])
        if needed[5]:
            of_weight.append(rows.t() @ back)
        if needed[6]:
            of_bias.append(back.sum(dim=0))
        del back  # before the next block
    found[0], found[5], found[6] = of_x, _total(of_weight), _total(of_bias)
    if of_entries is not None:
        found[2] = torch.empty_like(of_entries).index_copy_(0, csr.order.long(), of_entries).to(weight.dtype)
    return found


def _total(parts: list[Tensor]) -> Tensor | None:
    if len(parts) > 1:
        return torch.stack(parts).sum(dim=0)
    return parts[0] if parts else None


def mean_and_slope(
    dst_rows: Tensor, src_rows: Tensor, csr: Csr, value: Tensor | None, num_gates: int, eps: float, needs_slope: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The mean, 1 / (sum of gates + eps) and the slope; a second launch for hubs."""
    num_rows, channels = dst_rows.shape
    wide = torch.promote_types(dst_rows.dtype, torch.float32)
    mean = torch.empty_like(dst_rows)
    scale, slope = (torch.empty_like(dst_rows, dtype=wide) if needs_slope else None for _ in range(2))
    if mean.numel() == 0:
        return mean, scale, slope
    segments = csr.node_segments()
    num_pieces = segments.hub.numel()
    pieces = dst_rows.new_empty(num_pieces, 4, channels, dtype=wide)
    meta = _meta(dst_rows, csr, value, num_gates, num_pieces)
    with device_of(dst_rows):
        for is_hub in (False, True) if num_pieces else (False,):
            programs = num_pieces if is_hub else num_rows + num_pieces
            _sum_kernel[_grid(programs, channels, meta)](
                segments.begin, segments.end, segments.hub, segments.hub_begin, segments.hub_end, csr.pair_col, value,
                dst_rows, src_rows, pieces, mean, scale, slope, programs, num_rows, channels,
                EPS=eps, IS_HUB=is_hub, HAS_SLOPE=needs_slope, **meta,
            )  # fmt: skip
    return mean, scale, slope


def gated_gradients(
    dst_rows: Tensor,
    src_rows: Tensor,
    scaled: Tensor,
    mean: Tensor,
    csr: Csr,
    value: Tensor | None,
    num_gates: int,
    block: tuple[int, int],
    of_entries: Tensor | None,
) -> Tensor:
    """Gradients of the rows of the senders ``block``; those of the weights of their entries go to ``of_entries``."""
    (begin, end), channels = block, dst_rows.size(1)
    segments = csr.node_segments(begin, end)
    num_rows, num_pieces = end - begin, segments.hub.numel()
    back = src_rows.new_empty(num_rows + num_pieces, src_rows.size(1))
    if back.numel() == 0:
        return back[:num_rows]
    meta = _meta(dst_rows, csr, value, num_gates, num_pieces)
    grid = _grid(num_rows + num_pieces, channels, meta)
    # several programs have channels of one entry: each leaves its sum
    parts = of_entries if of_entries is None or grid[1] == 1 else of_entries.new_zeros(grid[1], of_entries.numel())
    with device_of(dst_rows):
        _gradient_kernel[grid](
            segments.begin, segments.end, segments.hub, csr.rowptr[begin * csr.num_relations :], csr.col, value,
            dst_rows, src_rows, scaled, mean, back, parts, num_rows + num_pieces, num_rows, csr.col.numel(), channels,
            HAS_ENTRIES=of_entries is not None, **meta,
        )  # fmt: skip
        back = add_further(segments, back, num_rows)
    if of_entries is not None and parts is not None and parts is not of_entries:
        of_entries += parts.sum(dim=0)
    return back


def _grid(num_programs: int, channels: int, meta: dict[str, Any]) -> tuple[int, int]:
    return ceil_div(num_programs, meta["ROWS"]), ceil_div(channels, meta["BLOCK"])


def _meta(dst_rows: Tensor, csr: Csr, value: Tensor | None, num_gates: int, num_pieces: int) -> dict[str, Any]:
    block = min(power_of_2_from(dst_rows.size(1)), _BLOCK)
    return {
        "HAS_HUBS": num_pieces > 0,
        "HAS_VALUE": value is not None,
        "RELATIONS": csr.num_relations,
        "GATES": num_gates,
        "SUM": tl.float64 if dst_rows.dtype == torch.float64 else tl.float32,
        "UNROLL": _UNROLL,
        "ROWS": _TILE // block,
        "BLOCK": block,
        "num_warps": 4,
    }

"""`relational_linear` as two fused Triton kernels (gather, sum, multiply) that write no sums to memory.

A program processes a tile of nodes. It sums the rows of their neighbours in registers, one sum per relation, and
multiplies the sums there. One loop over the entries of a node covers all relations: the position of an entry gives its
relation. The gradient of the weights is accumulated by a fixed number of programs, each over many tiles, without
atomics.

Nodes of few entries are processed in the order of their number of entries, so that the nodes of a tile finish together.
The sums of the few hubs are written and multiplied as the backend ``all_pairs`` does for all nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.csr import Csr, Segments, trusted_csr_sum
from graphprism.ops.kernels import csr_sum as csr_sum_kernel
from graphprism.ops.kernels import device_of, dot_precision
from graphprism.ops.row_orders import node_order

if TYPE_CHECKING:
    from graphprism.ops.relational_adj import RelationalAdj


class Tile(NamedTuple):
    """Nodes of a tile, entries of each that are read at once, warps for 32 channels; more channels take twice those."""

    rows: int
    unroll: int
    warps: int


# What a multiprocessor waits for is memory. With 16 nodes by 4 entries it runs 8 programs forward, of 64 registers a
# thread, and 4 backward, of 128: at least 32 kB are on their way. Tiles of 32 nodes take more than twice the registers.
FORWARD = Tile(rows=16, unroll=4, warps=4)
BACKWARD = Tile(rows=16, unroll=4, warps=4)
# Programs that add up the gradient of the weights, for each multiprocessor: those that run at once.
PROGRAMS = 4
# How float32 is multiplied where PyTorch is told to keep all of it: by three products of parts, which are as exact as
# "ieee" (2e-7) and, measured on 2.9M nodes of 32 channels, take 3.6 instead of 10 ms forward and backward.
HIGHEST = "tf32x3"
# Relations that one loop sums side by side.
GROUP = 4


@triton.jit
def _sums(
    rowptr, col, value, dense, node, there, first, num_relations,
    GROUP: tl.constexpr, HAS_VALUE: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
    ROWS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    channel = tl.arange(0, BLOCK)
    pair = node.to(tl.int64) * num_relations
    begin = tl.load(rowptr + pair + first, mask=there, other=0)
    # how many entries the first relation has, the first two, the first three, all of them
    end0 = tl.load(rowptr + pair + tl.minimum(first + 1, num_relations), mask=there, other=0) - begin
    end1, end2, end3 = end0, end0, end0
    if GROUP > 1:
        end1 = tl.load(rowptr + pair + tl.minimum(first + 2, num_relations), mask=there, other=0) - begin
        end2, end3 = end1, end1
    if GROUP > 2:
        end2 = tl.load(rowptr + pair + tl.minimum(first + 3, num_relations), mask=there, other=0) - begin
        end3 = end2
    if GROUP > 3:
        end3 = tl.load(rowptr + pair + tl.minimum(first + 4, num_relations), mask=there, other=0) - begin
    sum0 = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    sum1, sum2, sum3 = sum0, sum0, sum0
    for begin_k in range(0, tl.max(end3, axis=0), UNROLL):
        for step in tl.static_range(UNROLL):
            k = begin_k + step  # counted from the first: with places in `col` instead Triton 3.6 does not compile
            here = k < end3
            source = tl.load(col + begin + k, mask=here, other=0)
            wanted = here[:, None] & (channel < CHANNELS)[None, :]
            # int64 addresses: a table of 2^31 numbers is an everyday graph
            address = source.to(tl.int64)[:, None] * CHANNELS + channel[None, :]
            entry = tl.load(dense + address, mask=wanted, other=0.0).to(tl.float32)
            if HAS_VALUE:
                entry = tl.load(value + begin + k, mask=here, other=0.0).to(tl.float32)[:, None] * entry
            # a choice and no product: zero times infinity is not zero
            sum0 += tl.where((k < end0)[:, None], entry, 0.0)
            if GROUP > 1:
                sum1 += tl.where(((k >= end0) & (k < end1))[:, None], entry, 0.0)
            if GROUP > 2:
                sum2 += tl.where(((k >= end1) & (k < end2))[:, None], entry, 0.0)
            if GROUP > 3:
                sum3 += tl.where((k >= end2)[:, None], entry, 0.0)
    return sum0, sum1, sum2, sum3


@triton.jit
def _matrix(
    weight, relation, num_relations, TURNED: tl.constexpr,
    F_IN: tl.constexpr, F_OUT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    f, o = tl.arange(0, IN)[:, None], tl.arange(0, OUT)[None, :]
    place = o * F_IN + f if TURNED else f * F_OUT + o
    inside = (f < F_IN) & (o < F_OUT) & (relation < num_relations)
    return tl.load(weight + relation * (F_IN * F_OUT) + place, mask=inside, other=0.0)


@triton.jit
def _forward_kernel(
    nodes, rowptr, col, value, dense, weight, bias, out, num_nodes, num_relations,
    GROUP: tl.constexpr, TURNED: tl.constexpr, HAS_BIAS: tl.constexpr,
    HAS_VALUE: tl.constexpr, PRECISION: tl.constexpr,
    F_IN: tl.constexpr, F_OUT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
    ROWS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = row < num_nodes
    node = tl.load(nodes + row, mask=there, other=0)
    y = tl.zeros((ROWS, OUT), dtype=tl.float32)
    for first in range(0, num_relations, GROUP):
        sums = _sums(rowptr, col, value, dense, node, there, first, num_relations,
                     GROUP, HAS_VALUE, F_IN, IN, ROWS, UNROLL)  # fmt: skip
        for r in tl.static_range(GROUP):
            matrix = _matrix(weight, first + r, num_relations, TURNED, F_IN, F_OUT, IN, OUT)
            y = tl.dot(sums[r].to(matrix.dtype), matrix, y, input_precision=PRECISION)
    o = tl.arange(0, OUT)[None, :]
    if HAS_BIAS:
        y += tl.load(bias + o, mask=o < F_OUT, other=0.0).to(tl.float32)
    place = out + node.to(tl.int64)[:, None] * F_OUT + o
    tl.store(place, y.to(out.dtype.element_ty), mask=there[:, None] & (o < F_OUT))


@triton.jit
def _backward_kernel(
    nodes, rowptr, col, value, grad, x, weight, grad_x, partial, num_nodes, first, num_relations,
    GROUP: tl.constexpr, NEED_X: tl.constexpr, HAS_VALUE: tl.constexpr, PRECISION: tl.constexpr,
    F_IN: tl.constexpr, F_OUT: tl.constexpr, IN: tl.constexpr, OUT: tl.constexpr,
    ROWS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    f = tl.arange(0, IN)
    part0 = tl.zeros((IN, OUT), dtype=tl.float32)
    part1, part2, part3 = part0, part0, part0
    for tile in range(tl.program_id(0), tl.cdiv(num_nodes, ROWS), tl.num_programs(0)):
        row = tile * ROWS + tl.arange(0, ROWS)
        there = row < num_nodes
        node = tl.load(nodes + row, mask=there, other=0)
        own = node.to(tl.int64)[:, None] * F_IN + f[None, :]
        wanted = there[:, None] & (f < F_IN)[None, :]
        turned = tl.trans(tl.load(x + own, mask=wanted, other=0.0))
        back = _sums(rowptr, col, value, grad, node, there, first, num_relations,
                     GROUP, HAS_VALUE, F_OUT, OUT, ROWS, UNROLL)  # fmt: skip
        part0 = tl.dot(turned, back[0].to(turned.dtype), part0, input_precision=PRECISION)
        if GROUP > 1:
            part1 = tl.dot(turned, back[1].to(turned.dtype), part1, input_precision=PRECISION)
        if GROUP > 2:
            part2 = tl.dot(turned, back[2].to(turned.dtype), part2, input_precision=PRECISION)
        if GROUP > 3:
            part3 = tl.dot(turned, back[3].to(turned.dtype), part3, input_precision=PRECISION)
        if NEED_X:
            y = tl.zeros((ROWS, IN), dtype=tl.float32)
            for r in tl.static_range(GROUP):
                matrix = _matrix(weight, first + r, num_relations, True, F_OUT, F_IN, OUT, IN)
                y = tl.dot(back[r].to(matrix.dtype), matrix, y, input_precision=PRECISION)
            tl.store(grad_x + own, y.to(grad_x.dtype.element_ty), mask=wanted)
    parts = (part0, part1, part2, part3)
    o = tl.arange(0, OUT)
    for r in tl.static_range(GROUP):
        place = partial + (tl.program_id(0) * GROUP + r).to(tl.int64) * (F_IN * F_OUT)
        place += f[:, None] * F_OUT + o[None, :]
        tl.store(place, parts[r], mask=(f < F_IN)[:, None] & (o < F_OUT)[None, :])


def sum_and_multiply(
    nodes: Tensor,
    csr: Csr,
    value: Tensor | None,
    dense: Tensor,
    weight: Tensor,
    turned: bool,
    out: Tensor,
    bias: Tensor | None = None,
) -> None:
    """Writes the rows ``nodes`` of ``out``; with ``turned`` the matrices of ``weight`` are read transposed."""
    if nodes.numel() == 0:
        return
    _forward_kernel[(triton.cdiv(nodes.numel(), FORWARD.rows),)](
        nodes, csr.rowptr, csr.col, value, dense, weight, bias, out, nodes.numel(), csr.num_relations,
        GROUP=min(GROUP, csr.num_relations), TURNED=turned, HAS_BIAS=bias is not None,
        **_meta(value, dense, dense.size(1), out.size(1), FORWARD),
    )  # fmt: skip


def weight_gradient(
    nodes: Tensor,
    csr: Csr,
    value: Tensor | None,
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    first: int = 0,
    grad_x: Tensor | None = None,
) -> Tensor:
    """What ``nodes`` add to the gradient of up to four matrices from ``first`` on: (at most 4, F_in, F_out).

    Writes the rows ``nodes`` of ``grad_x`` as well, where it is given: then there are no more relations than these.
    """
    group = min(GROUP, csr.num_relations)
    tiles = triton.cdiv(nodes.numel(), BACKWARD.rows)
    partial = x.new_empty(min(_num_programs(x.device), tiles), group, *weight.shape[1:], dtype=torch.float32)
    if partial.size(0) > 0:
        _backward_kernel[(partial.size(0),)](
            nodes, csr.rowptr, csr.col, value, grad, x, weight, grad_x, partial, nodes.numel(), first,
            csr.num_relations, GROUP=group, NEED_X=grad_x is not None, maxnreg=_most_registers(x),
            **_meta(value, grad, x.size(1), grad.size(1), BACKWARD),
        )  # fmt: skip
    return partial.sum(0)[: csr.num_relations - first]


def _meta(value: Tensor | None, dense: Tensor, in_channels: int, out_channels: int, tile: Tile) -> dict[str, object]:
    block = [max(16, triton.next_power_of_2(channels)) for channels in (in_channels, out_channels)]
    return {
        "HAS_VALUE": value is not None,
        "PRECISION": _precision(dense),
        "F_IN": in_channels,
        "F_OUT": out_channels,
        "IN": block[0],
        "OUT": block[1],
        "ROWS": tile.rows,
        "UNROLL": tile.unroll,
        "num_warps": tile.warps * (2 if max(block) > 32 else 1),
    }


def _precision(dense: Tensor) -> str:
    if dense.dtype != torch.float32:  # there is only one way to multiply them
        return "ieee"
    return dot_precision(HIGHEST)


def _most_registers(dense: Tensor) -> int | None:
    """Registers of a thread, so that two programs fit where one would take just more than half; none are spilled."""
    return None if dense.dtype == torch.float32 and _precision(dense) != "tf32" else 128


def _num_programs(device: torch.device) -> int:
    if device.type != "cuda":  # the interpreter: a few, so that each has several tiles
        return 3
    return PROGRAMS * torch.cuda.get_device_properties(device).multi_processor_count


def forward(x: Tensor, weight: Tensor, entry_weight: Tensor | None, bias: Tensor | None, adj: RelationalAdj) -> Tensor:
    """Sums the neighbours of every node and multiplies the sums, all relations at once; adds a bias."""
    x, weight = x.contiguous(), weight.contiguous()
    with device_of(x):
        out = x.new_empty(adj.size[1], weight.size(2))
        value = adj.values(adj.incoming.order, entry_weight, x.dtype)
        sum_and_multiply(node_order(adj.incoming).light, adj.incoming, value, x, weight, False, out, bias)
        hub = node_order(adj.incoming).hub
        if hub.numel() > 0:
            sums, stacked = _hub_sums(adj.incoming, adj, entry_weight, x), weight.flatten(0, 1)
            out[hub] = sums @ stacked if bias is None else torch.addmm(bias, sums, stacked)
    return out


def backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    entry_weight: Tensor | None,
    adj: RelationalAdj,
    need_x: bool,
    need_weight: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of ``x`` and ``weight`` from one pass over the reversed edges; more than four relations take more."""
    grad, x, weight = grad.contiguous(), x.contiguous(), weight.contiguous()
    csr = adj.outgoing
    hub = node_order(csr).hub
    with device_of(x):
        value = adj.values(csr.order, entry_weight, grad.dtype)
        grad_x, total = _light_gradients(csr, value, grad, x, weight, need_x, need_weight)
        if hub.numel() > 0:
            h = _hub_sums(csr, adj, entry_weight, grad)  # (H, R * F_out)
            if grad_x is not None:
                grad_x[hub] = h @ weight.transpose(1, 2).flatten(0, 1)
            if total is not None:
                total += (x[hub].t() @ h).view(x.size(1), *weight.shape[::2]).transpose(0, 1)
    return grad_x, None if total is None else total.to(weight.dtype)


def _light_gradients(
    csr: Csr, value: Tensor | None, grad: Tensor, x: Tensor, weight: Tensor, need_x: bool, need_weight: bool
) -> tuple[Tensor | None, Tensor | None]:
    nodes, relations = node_order(csr).light, range(0, csr.num_relations, GROUP)
    grad_x = torch.empty_like(x) if need_x else None
    at_once = need_weight and len(relations) == 1
    if grad_x is not None and not at_once:
        sum_and_multiply(nodes, csr, value, grad, weight, True, grad_x)
    if not need_weight:
        return grad_x, None
    target = grad_x if at_once else None
    parts = [weight_gradient(nodes, csr, value, grad, x, weight, first, target) for first in relations]
    return grad_x, torch.cat(parts)


def _hub_sums(csr: Csr, adj: RelationalAdj, entry_weight: Tensor | None, dense: Tensor) -> Tensor:
    """The sums of the hubs, concatenated over relations: (H, R * F)."""
    hubs = node_order(csr).hub_csr
    value = adj.values(hubs.order, entry_weight, dense.dtype)
    if dense.is_cuda:  # whatever their number: only this kernel cuts long rows
        if "segments" not in hubs.cache:
            hubs.cache["segments"] = Segments.cut(hubs.rowptr, hubs.col.numel())
        sums = csr_sum_kernel.csr_sum(hubs.cache["segments"], hubs.col, value, dense, hubs.rowptr.numel() - 1)
    else:
        sums = trusted_csr_sum(hubs.rowptr, hubs.col, value, dense)
    return sums.view(hubs.num_rows, hubs.num_relations * dense.size(1))

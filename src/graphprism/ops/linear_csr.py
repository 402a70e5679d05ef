r"""The ``csr`` backend of `relational_linear`: a sparse and a dense product, block by block.

With :math:`\mathbf{M}_r` the weighted adjacency matrix of relation :math:`r`, the output is
:math:`\sum_r \mathbf{M}_r \mathbf{X} \mathbf{W}_r`. A block of rows of :math:`\mathbf{M}_r \mathbf{X}` is summed,
multiplied by :math:`\mathbf{W}_r` while it is in the cache, and discarded; the backward pass does the same with
:math:`\mathbf{M}_r^\top \mathbf{G}`, which gives both gradients. Only ``x`` is saved for backward, and no (N, R, F)
tensor exists, unless it is cheaper to multiply by the weights first, or the graph is so small that launches cost most.

A *pair* is a node and a relation; it is active if the node has an entry in that relation, else empty. The cheapest of
five algorithms is chosen: all pairs, active pairs only, weights first, or on a GPU one Triton kernel for both products
or, for a small graph, all pairs with their sums kept for backward.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphprism._checks import check_channels, check_dtype, check_shape, check_tensor
from graphprism.ops.aggregate import aggregate_csr
from graphprism.ops.backends import Backends, is_batched, is_captured
from graphprism.ops.batched.row_maps import row_maps
from graphprism.ops.batched.vmap import only_vmap
from graphprism.ops.csr import Csr
from graphprism.ops.entries import entry_dot
from graphprism.ops.mix_rows import mix_rows, product
from graphprism.ops.row_orders import TILE_RELATIONS, active_rows, relation_products
from graphprism.ops.sums_kept import sums_kept_backward, sums_kept_forward

if TYPE_CHECKING:
    from graphprism.ops.relational_adj import RelationalAdj

# Multiply-adds of a matrix product in the time of moving one number through memory. Measured on two CPU cores at 64
# channels: 0.5 ns per gathered number, 0.02 ns per multiply-add; an H200 has about the same ratio in float32.
_MULTIPLY_ADDS_PER_MOVE = 25
# Skipping an empty pair saves three products of F multiply-adds per channel, and costs every active pair about five
# moves per channel: with a share a of active pairs it pays if F (1 - a) > 42 a. On a GPU a move is slower relative to
# a product. Measured, forward and backward, skipping and not skipping: two cores, 64 channels, 108 and 153 ms at
# a = 0.5, 186 and 125 ms at a = 0.72; H200 at a = 0.5, 256 channels, 2.9 and 5.0 ms, 32 channels, 6.2 and 4.6 ms.
_CHANNELS_THAT_PAY_CPU = 42
_CHANNELS_THAT_PAY_GPU = 160
# Most channels for which a program of the fused kernel holds its sums and, in backward, the gradients of four matrices
# in registers. Measured on an H200, fused and in blocks, forward and backward: 2.9M nodes, 14M entries, 32 channels 2.1
# and 5.6 ms; with 64 channels and hubs (169k nodes, 1.2M entries) 0.48 and 0.68 ms.
_MOST_FUSED_CHANNELS = 64
# On a small graph more: blocks of 64 outputs compute the same sums, but there launches cost more than sums. A step of
# eight layers of 143 channels on 32 molecules took 5.8 ms, 7.5 in several kernels (H200, PyG's GCN 7.2).
_MOST_WIDE_CHANNELS = 256
# With more relations than a program of the fused kernel sums side by side: gathered numbers below which the passes over
# further relations take longer than the products of the other algorithms.
_FEWEST_FUSED_NUMBERS = 1 << 24
# Products after which a graph that was made of tensors in a forward pass gets the fused kernel: sorting its nodes takes
# as long as some of them. Most networks have fewer layers, so that graphs that serve one batch are not sorted.
_USES_THAT_PAY = 8
# Gathered or summed numbers below which the host takes longer to launch the kernels than a GPU to run them: 16 MB.
_MOST_KEPT_NUMBERS = 1 << 22
_FUSED_TYPES = (torch.float32, torch.bfloat16, torch.float16)

# Of the input, the weights and the bias.
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


def relational_transform(x: Tensor, weight: Tensor) -> Tensor:
    r"""Computes :math:`\mathbf{h}_{j, r} = \mathbf{W}_r^\top \mathbf{x}_j` for all nodes and relations in one product.

    Shapes: ``x`` (N, F_in), ``weight`` (R, F_in, F_out) -> (N, R, F_out)
    """
    check_tensor("x", x)
    check_shape("weight", weight, ["R", "F_in", "F_out"])
    num_relations, in_channels, out_channels = weight.shape
    check_channels("x", x, in_channels)
    check_dtype("x", x, weight.dtype, "`weight`")
    if x.dim() == 2 and only_vmap():
        flat = row_maps(x, weight)
    else:
        flat = x @ weight.transpose(0, 1).reshape(in_channels, num_relations * out_channels)
    # explicit sizes: -1 is ambiguous if there are no channels
    return flat.view(math.prod(x.shape[:-1]), num_relations, out_channels)


def csr(x: Tensor, adj: RelationalAdj, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Both products, and a bias, with their own backward pass."""
    return _apply(x, weight, adj.weight, bias, adj)


def _apply(x: Tensor, weight: Tensor, entry_weight: Tensor | None, bias: Tensor | None, adj: RelationalAdj) -> Tensor:
    out: Tensor = _RelationalLinear.apply(x, weight, entry_weight, bias, adj)  # type: ignore[no-untyped-call]
    return out


class _RelationalLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, entry_weight: Tensor | None, bias: Tensor | None, adj: RelationalAdj
    ) -> Tensor:
        out, sums = linear_forward(x, weight, entry_weight, bias, adj)
        ctx.save_for_backward(x, weight, entry_weight, sums)
        ctx.adj = adj
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, entry_weight, sums = ctx.saved_tensors
        return *linear_backward(grad, x, weight, entry_weight, sums, ctx.adj, ctx.needs_input_grad), None


def linear_forward(
    x: Tensor, weight: Tensor, entry_weight: Tensor | None, bias: Tensor | None, adj: RelationalAdj
) -> tuple[Tensor, Tensor | None]:
    """Both products, without autograd, and for a small graph on a GPU the sums that `linear_backward` starts from."""
    small = ("small", weight.shape, x.dtype)
    if small in adj.products:
        return sums_kept_forward(x, weight, entry_weight, bias, adj)
    name = _forward_name(x, weight, adj)
    if name == "sums_kept":
        if adj.one_pass:  # however often it is used: all its layers of this size need not ask again
            adj.products[small] = True
        return sums_kept_forward(x, weight, entry_weight, bias, adj)
    out: Tensor = FORWARD.choose(name, x.device)(x, weight, entry_weight, bias, adj)
    return out, None


def linear_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    entry_weight: Tensor | None,
    sums: Tensor | None,
    adj: RelationalAdj,
    needed: tuple[bool, ...],
    adjoint: Tensor | None = None,
) -> tuple[Tensor | None, ...]:
    """Those gradients of ``x``, ``weight``, ``entry_weight`` and the bias that are needed.

    That of ``weight`` is multiplied by ``adjoint`` (S, R), for weights that are mixtures of others.
    """
    if torch.is_grad_enabled():  # a gradient of this gradient is wanted
        grad_x, grad_weight, grad_entry_weight = _differentiable_backward(grad, x, weight, entry_weight, adj, needed)
        if adjoint is not None and grad_weight is not None:
            grad_weight = product(adjoint, grad_weight)
        return grad_x, grad_weight, grad_entry_weight, _grad_bias(grad, needed[3])
    need_x, need_weight, need_entry_weight, need_bias = needed[:4]
    grad = grad.contiguous()
    grad_x = grad_weight = grad_entry_weight = None
    if sums is not None:
        grad_x, grad_weight = sums_kept_backward(grad, weight, entry_weight, sums, adj, need_x, need_weight)
        grad_weight, grad_bias = _mixed(adjoint, grad_weight), _grad_bias(grad, need_bias)
    elif need_x or need_weight:
        grad_x, grad_weight, grad_bias = products_backward(
            grad, x, weight, entry_weight, adj, need_x, need_weight, need_bias, adjoint
        )
    else:
        grad_bias = _grad_bias(grad, need_bias)
    if need_entry_weight and entry_weight is not None:
        h = relational_transform(x, weight).flatten(0, 1)
        grad_entry_weight = entry_dot(grad, adj.dst, h, adj.pair_src).to(entry_weight.dtype)
    return grad_x, grad_weight, grad_entry_weight, grad_bias


def products_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    entry_weight: Tensor | None,
    adj: RelationalAdj,
    need_x: bool,
    need_weight: bool,
    need_bias: bool,
    adjoint: Tensor | None = None,
) -> Gradients:
    """Gradients of ``x``, ``weight`` and the bias by the cheapest backend.

    ``entry_weight`` may be (K, H), a weight for each of H equal parts of the channels of ``grad``. The gradient of
    ``weight`` is multiplied by ``adjoint``, which the fused kernel does as it adds up its parts.
    """
    # all pairs in one block: the other backends write to tensors that have no batch
    name = "all_pairs" if is_batched(grad) else backward_name(grad, weight, adj)
    if name == "triton" and entry_weight is not None and entry_weight.dim() == 2:
        name = "all_pairs"
    backward = BACKWARD.choose(name, grad.device)
    given = (grad, x, weight, entry_weight, adj, need_x, need_weight, need_bias)
    if name == "triton":
        found: Gradients = backward(*given, adjoint)
        return found
    grad_x, grad_weight, grad_bias = backward(*given)
    return grad_x, _mixed(adjoint, grad_weight), grad_bias


def _mixed(adjoint: Tensor | None, grad_weight: Tensor | None) -> Tensor | None:
    return grad_weight if adjoint is None or grad_weight is None else mix_rows(adjoint, grad_weight)


def _grad_bias(grad: Tensor, need_bias: bool) -> Tensor | None:
    return grad.sum(dim=0) if need_bias else None


def _differentiable_backward(
    grad: Tensor, x: Tensor, weight: Tensor, entry_weight: Tensor | None, adj: RelationalAdj, needed: tuple[bool, ...]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The first three gradients out of products that have gradients themselves."""
    grad_x = grad_weight = grad_entry_weight = None
    back = adj.transpose()
    if needed[0]:
        grad_x = _apply(grad, weight.transpose(1, 2), entry_weight, None, back)
    if needed[1]:
        grad_weight = torch.einsum("nf,nro->rfo", x, aggregate_csr(grad, back, entry_weight))
    if needed[2]:
        h = relational_transform(x, weight).flatten(0, 1)
        grad_entry_weight = (grad[adj.dst] * h[adj.pair_src]).sum(dim=1)
    return grad_x, grad_weight, grad_entry_weight


def transform_first(
    adj: RelationalAdj, num_entries: int, in_channels: int, out_channels: int, at_once: bool = False
) -> bool:
    """Whether to multiply by the weights before the sums over neighbours rather than after them.

    Before: every sender gets R rows of ``out_channels``, which are written, then gathered once per entry. After: rows
    of ``in_channels`` are gathered once per entry and multiplied while they are in the cache; on a GPU this holds only
    for the fused kernel (``at_once``).
    """
    num_src, num_dst = adj.size
    product = adj.num_relations * in_channels * out_channels / _MULTIPLY_ADDS_PER_MOVE
    before = num_entries * out_channels + num_src * (product + 2 * adj.num_relations * out_channels)
    after = num_entries * in_channels + num_dst * product
    if adj.edge_index.is_cuda and not at_once:  # no block fits a GPU's cache: the sums are written and read too
        after += num_dst * 2 * adj.num_relations * in_channels
    return before < after  # equal: after needs no copy of the weights


def skip_empty_pairs(csr: Csr, in_channels: int, out_channels: int) -> bool:
    """Whether skipping the products of empty pairs saves more than gathering the active ones costs."""
    if csr.num_relations == 1:
        return False
    pays = _CHANNELS_THAT_PAY_GPU if csr.rowptr.is_cuda else _CHANNELS_THAT_PAY_CPU
    channels = min(in_channels, out_channels)
    # the active share is rarely below a quarter: with fewer channels skipping cannot pay, so it is not counted
    return channels * 3 > pays and channels * (1 - csr.active_share) > pays * csr.active_share


def waits_for_launches(csr: Csr, in_channels: int, out_channels: int) -> bool:
    """Whether a GPU takes less time for the products than the host takes to launch them."""
    return counts_launches(csr.rowptr, max(csr.col.numel(), csr.rowptr.numel()), in_channels, out_channels)


def counts_launches(index: Tensor, num_rows: int, in_channels: int, out_channels: int) -> bool:
    """`waits_for_launches` of a graph that is not sorted yet, with so many entries or pairs."""
    return index.is_cuda and num_rows * max(in_channels, out_channels) < _MOST_KEPT_NUMBERS


def kernel_pays(csr: Csr, dense: Tensor, weight: Tensor) -> bool:
    """Whether the fused kernel (gather, sum, multiply) pays, for which the nodes are sorted once per graph."""
    if not dense.is_cuda or dense.dtype not in _FUSED_TYPES or weight.dtype != dense.dtype:
        return False
    numbers, channels = csr.col.numel() * dense.size(1), max(weight.shape[1:])
    is_one_pass = csr.num_relations <= TILE_RELATIONS and numbers > 0
    if channels > _MOST_FUSED_CHANNELS:  # some sums are computed for each 64 outputs: only where launches cost more
        return is_one_pass and channels <= _MOST_WIDE_CHANNELS and waits_for_launches(csr, *weight.shape[1:])
    return (is_one_pass or numbers >= _FEWEST_FUSED_NUMBERS) and channels > 0


def all_pairs_forward(
    x: Tensor, weight: Tensor, entry_weight: Tensor | None, bias: Tensor | None, adj: RelationalAdj
) -> Tensor:
    """Sums the neighbours of a block of nodes, concatenated over relations, and multiplies by the stacked matrices.

    For few channels or few empty pairs, where multiplying zeros is cheaper than skipping them.
    """
    csr, stacked = adj.incoming, weight.flatten(0, 1)
    value = adj.values(csr.order, entry_weight, x.dtype)
    if csr.is_one_block(x):
        return _product(csr.sum_pairs(csr.col, value, x).view(adj.size[1], stacked.size(0)), stacked, bias)
    out = x.new_empty(adj.size[1], weight.size(2))
    for nodes, h in csr.sums_by_block(value, x):
        _product(h, stacked, bias, out=out[nodes])
    return out


def _product(left: Tensor, right: Tensor, bias: Tensor | None, out: Tensor | None = None) -> Tensor:
    """``left @ right + bias``."""
    if bias is not None and left.is_cuda and out is None and left.numel() < _MOST_KEPT_NUMBERS:
        # `addmm` looks for the best kernel anew in each call: 60 us of the host, where `mm` takes 25
        return torch.mm(left, right).add_(bias)
    return torch.mm(left, right, out=out) if bias is None else torch.addmm(bias, left, right, out=out)


def all_pairs_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    entry_weight: Tensor | None,
    adj: RelationalAdj,
    need_x: bool,
    need_weight: bool,
    need_bias: bool = False,
) -> Gradients:
    """Gradients of ``x`` and ``weight`` from one pass over the reversed edges, and of the bias."""
    num_relations, in_channels, out_channels = weight.shape
    csr = adj.outgoing
    stacked = weight.transpose(1, 2).flatten(0, 1) if need_x else None
    value = adj.values(csr.order, entry_weight, grad.dtype)
    if csr.is_one_block(grad) or is_batched(grad):
        h = csr.sum_pairs(csr.col, value, grad).view(x.size(0), num_relations * out_channels)
        grad_x = None if stacked is None else h @ stacked
        return grad_x, _by_relation(x.t() @ h, weight) if need_weight else None, _grad_bias(grad, need_bias)
    grad_x = torch.empty_like(x) if need_x else None
    total = wide_zeros(x, in_channels, num_relations * out_channels)
    for nodes, h in csr.sums_by_block(value, grad):
        if grad_x is not None and stacked is not None:
            torch.mm(h, stacked, out=grad_x[nodes])
        if need_weight:
            add_product(total, x[nodes].t(), h)
    grad_weight = _by_relation(total.to(weight.dtype), weight) if need_weight else None
    return grad_x, grad_weight, _grad_bias(grad, need_bias)


def _by_relation(side_by_side: Tensor, weight: Tensor) -> Tensor:
    """(F_in, R * F_out) in the shape of ``weight``, (R, F_in, F_out)."""
    num_relations, in_channels, out_channels = weight.shape
    return side_by_side.view(in_channels, num_relations, out_channels).transpose(0, 1).contiguous()


def active_pairs_forward(
    x: Tensor, weight: Tensor, entry_weight: Tensor | None, bias: Tensor | None, adj: RelationalAdj
) -> Tensor:
    """Sums the active rows of a block, multiplies those of each relation by its matrix, and sums them per node.

    Half of the pairs of a molecule split by degree are empty (between a quarter and seven tenths are active on Cora,
    PubMed, Chameleon, Squirrel, ZINC and Peptides), so that three small products can cost less than a large one.
    """
    active = active_rows(adj.incoming, x)
    value = adj.values(active.order, entry_weight, x.dtype)
    is_one = len(active.blocks) == 1  # its rows are the output, not copied into it
    out = x.new_empty(0 if is_one else adj.size[1], weight.size(2))
    for block, h in active.sums(value, x):
        y = relation_products(block, h, weight)
        if is_one:
            out = active.collect(block, y)
        else:
            out[block.nodes] = active.collect(block, y)
    return out if bias is None else out.add_(bias)


def active_pairs_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    entry_weight: Tensor | None,
    adj: RelationalAdj,
    need_x: bool,
    need_weight: bool,
    need_bias: bool = False,
) -> Gradients:
    """Gradients of ``x`` and ``weight`` from one pass over the reversed edges, and of the bias."""
    active = active_rows(adj.outgoing, grad)
    value = adj.values(active.order, entry_weight, grad.dtype)
    is_one = len(active.blocks) == 1
    grad_x = x.new_empty(0 if is_one else x.size(0), x.size(1)) if need_x else None
    total = wide_zeros(x, *weight.shape)
    for block, h in active.sums(value, grad):
        if grad_x is not None:
            y = relation_products(block, h, weight.transpose(1, 2))
            if is_one:
                grad_x = active.collect(block, y)
            else:
                grad_x[block.nodes] = active.collect(block, y)
        if need_weight:
            senders = x.index_select(0, active.node[block.rows])
            sizes = block.relations
            for part, *rows in zip(total, senders.split_with_sizes(sizes), h.split_with_sizes(sizes), strict=True):
                add_product(part, rows[0].t(), rows[1])
    return grad_x, total.to(weight.dtype) if need_weight else None, _grad_bias(grad, need_bias)


def weights_first_forward(
    x: Tensor, weight: Tensor, entry_weight: Tensor | None, bias: Tensor | None, adj: RelationalAdj
) -> Tensor:
    """Multiplies every sender by all matrices, then sums."""
    csr = adj.incoming
    value = adj.values(csr.order, entry_weight, x.dtype)
    out = csr.sum_nodes(csr.pair_col, value, relational_transform(x, weight).flatten(0, 1))
    return out if bias is None else out.add_(bias)


def wide_zeros(x: Tensor, *size: int) -> Tensor:
    """A zero accumulator for products of ``x``, in float32 at least: bfloat16 would lose the terms of later blocks."""
    return x.new_zeros(size, dtype=torch.promote_types(x.dtype, torch.float32))


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds ``left @ right`` to ``total`` in place; ``total`` may have a wider dtype."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


FORWARD = Backends(
    automatic="all_pairs",
    all_pairs=all_pairs_forward,
    active_pairs=active_pairs_forward,
    weights_first=weights_first_forward,
    triton="graphprism.ops.kernels.linear:forward",
)
BACKWARD = Backends(
    automatic="all_pairs",
    all_pairs=all_pairs_backward,
    active_pairs=active_pairs_backward,
    triton="graphprism.ops.kernels.linear:backward",
)


def _forward_name(x: Tensor, weight: Tensor, adj: RelationalAdj) -> str:
    """The cheapest backend of the forward pass; chosen once for each graph and kind of call."""
    cache, is_kept = adj.incoming.cache, _is_kept(adj, adj.incoming)
    key = ("forward", weight.shape, x.dtype, weight.dtype, x.device, adj.one_pass, is_kept)
    if key not in cache:
        cache[key] = _choose_forward(x, weight, adj, is_kept)
    name: str = cache[key]
    return name


def backward_name(grad: Tensor, weight: Tensor, adj: RelationalAdj) -> str:
    """The cheapest backend of the backward pass; chosen once for each graph and kind of call."""
    cache, is_kept = adj.outgoing.cache, _is_kept(adj, adj.outgoing)
    key = ("backward", weight.shape, grad.dtype, weight.dtype, grad.device, adj.one_pass, is_kept)
    if key not in cache:
        cache[key] = _choose_backward(grad, weight, adj, is_kept)
    name: str = cache[key]
    return name


def _is_kept(adj: RelationalAdj, csr: Csr) -> bool:
    """Whether the graph serves many products: it was prepared, or made of tensors and used often since.

    Not under capture if its nodes are not sorted yet, for which the host waits.
    """
    if not adj.one_pass:
        return "node_tiles" in csr.cache or not is_captured(csr.rowptr)
    uses: int = csr.cache.get("uses", 0) + 1
    csr.cache["uses"] = uses
    return uses > _USES_THAT_PAY


def _sorting_pays(adj: RelationalAdj, csr: Csr, weight: Tensor, is_kept: bool) -> bool:
    """Whether the nodes may be sorted for the fused kernel.

    Those of a small graph only if it was prepared: for a batch it takes longer than the products of a network.
    """
    serves_one_batch = adj.one_pass or adj.is_cut
    return is_kept and not (serves_one_batch and waits_for_launches(csr, *weight.shape[1:]))


def _choose_forward(x: Tensor, weight: Tensor, adj: RelationalAdj, is_kept: bool) -> str:
    csr, (in_channels, out_channels) = adj.incoming, weight.shape[1:]
    sorts = _sorting_pays(adj, csr, weight, is_kept)
    fused = sorts and FORWARD.kernel_fits(x.device, lambda _: kernel_pays(csr, x, weight))
    if waits_for_launches(csr, in_channels, out_channels):
        return "triton" if fused else "sums_kept"
    before = transform_first(adj, csr.col.numel(), in_channels, out_channels, fused)
    if not (before and out_channels < in_channels):  # else gathering less saves more than multiplying less
        if fused:
            return "triton"
        # no backend that needs a host-device sync for a graph that is made in a forward pass
        if not adj.one_pass and skip_empty_pairs(csr, in_channels, out_channels):
            return "active_pairs"
    return "weights_first" if before else "all_pairs"


def _choose_backward(grad: Tensor, weight: Tensor, adj: RelationalAdj, is_kept: bool) -> str:
    sorts = _sorting_pays(adj, adj.outgoing, weight, is_kept)
    if sorts and BACKWARD.kernel_fits(grad.device, lambda _: kernel_pays(adj.outgoing, grad, weight)):
        return "triton"
    skips = not adj.one_pass and skip_empty_pairs(adj.outgoing, *weight.shape[1:])
    return "active_pairs" if skips else "all_pairs"

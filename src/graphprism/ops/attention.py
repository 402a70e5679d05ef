r"""Attention over the incoming edges of every node, all relations together, in one node of autograd.

The logits need the products :math:`\mathbf{W}_r \mathbf{a}` with both attention vectors only: no row of an edge is made
for them. On sorted entries softmax and sums are sums over consecutive entries. The rows of senders are computed for all
pairs (node, relation) or, where that pays, for active ones only, as in `linear_csr`; they and one number for each entry
and head are kept for backward.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphprism._checks import check_dtype, check_shape
from graphprism.ops.aggregate import relational_sum
from graphprism.ops.backends import Backends, is_batched, is_transformed, plain_gradients
from graphprism.ops.csr import span_sum
from graphprism.ops.edge_softmax import check_not_negative, divisor, edge_softmax, entry_mass
from graphprism.ops.entries import at_receivers, at_senders, entry_dot
from graphprism.ops.linear_csr import backward_name, products_backward, relational_transform
from graphprism.ops.mix_rows import mix
from graphprism.ops.mixed_linear import Mixture
from graphprism.ops.pair_rows import active_pairs_pay
from graphprism.ops.prepared_graph import PreparedGraph
from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.row_orders import ActiveRows, active_rows, relation_products


def reference(
    x: Tensor,
    weight: Tensor,
    att_src: Tensor,
    att_dst: Tensor,
    edge_logit: Tensor | None,
    bias: Tensor | None,
    factor: Tensor | None,
    adj: RelationalAdj,
    negative_slope: float,
) -> Tensor:
    """The definition, made of ops that have references."""
    h = relational_transform(x, weight).unflatten(-1, att_src.shape[1:])  # (N, R, H, F)
    logit = at_senders((h * att_src).sum(dim=-1), adj) + at_receivers((h * att_dst).sum(dim=-1), adj)
    logit = logit if edge_logit is None else logit + edge_logit
    alpha = edge_softmax(torch.nn.functional.leaky_relu(logit, negative_slope), adj)
    out = relational_sum(h, adj, alpha if factor is None else alpha * factor).flatten(1)
    return out if bias is None else out + bias


def csr(
    x: Tensor,
    weight: Tensor | Mixture,
    att_src: Tensor,
    att_dst: Tensor,
    edge_logit: Tensor | None,
    bias: Tensor | None,
    factor: Tensor | None,
    adj: RelationalAdj,
    negative_slope: float,
) -> Tensor:
    """The same on sorted entries with its own backward pass."""
    matrices, mixture = (None, weight) if isinstance(weight, Mixture) else (weight, None)
    parts = (None, None) if mixture is None else (mixture.common, mixture.deviation)
    out: Tensor = _Attention.apply(  # type: ignore[no-untyped-call]
        x, matrices, *parts, att_src, att_dst, edge_logit, bias, factor, adj, mixture, negative_slope
    )
    return out


BACKENDS = Backends(automatic="csr", reference=reference, csr=csr)


def attention_fits(x: Tensor, adj: PreparedGraph, heads: int) -> bool:
    """Whether the ``csr`` backend of `relational_attention` computes the sums on this graph.

    Not under `torch.compile`, `torch.func` and autocast, not for weights or scores with a gradient, not for two sets of
    nodes, nor for many relations, where rows of active pairs are made in another way (`pair_rows`).
    """
    if is_transformed() or not isinstance(adj, RelationalAdj) or x.layout != torch.strided or x.is_meta:
        return False
    if torch.is_autocast_enabled(x.device.type) or adj.size[0] != adj.size[1] or adj.num_edges == 0:
        return False
    given = (adj.edge_weight, adj.edge_type)
    if any(each is not None and each.requires_grad for each in given) or active_pairs_pay(adj):
        return False
    # heads are summed one by one, and a kernel that fits all of them together may not fit one of them
    return heads == 1 or not x.is_cuda or adj.incoming.is_one_block(x)


def relational_attention(
    x: Tensor,
    adj: RelationalAdj,
    weight: Tensor | Mixture,
    att_src: Tensor,
    att_dst: Tensor,
    edge_logit: Tensor | None = None,
    bias: Tensor | None = None,
    factor: Tensor | None = None,
    *,
    negative_slope: float = 0.2,
    impl: str | None = None,
) -> Tensor:
    r"""The sums of `graphprism.nn.MRSGATConv`, heads side by side.

    .. math:: \mathbf{x}'_i = \mathbf{b} + \sum_{e = (j, i)} f_e \alpha_e \mathbf{W}_{r(e)}^\top \mathbf{x}_j, \qquad
        \alpha_e = \operatorname{softmax}_{e \to i} \operatorname{LeakyReLU} \big(
        \mathbf{a}_s^\top \mathbf{W}_{r(e)}^\top \mathbf{x}_j + \mathbf{a}_t^\top \mathbf{W}_{r(e)}^\top \mathbf{x}_i
        + \ell_e \big)

    for every head, where :math:`\ell` is ``edge_logit`` and :math:`f` is ``factor``, a dropout, which gets no gradient.
    Weights of the graph count as in `edge_softmax`. The ``csr`` backend takes what `attention_fits` allows.

    Shapes: ``x`` (N, F_in), ``weight`` (R, F_in, H * F), ``att_src`` and ``att_dst`` (1, H, F), ``edge_logit`` (K,
    H), ``bias`` (H * F,), ``factor`` (K, H) -> (N, H * F)
    """
    matrix = weight.common if isinstance(weight, Mixture) else weight
    if x.shape != (adj.size[0], matrix.size(-2)) or x.dtype != matrix.dtype or matrix.size(-1) != att_src.numel():
        check_shape("weight", matrix, [*matrix.shape[:-2], x.size(-1), att_src.numel()])
        check_shape("x", x, [adj.size[0], "F_in"])
        check_dtype("x", x, matrix.dtype, "`weight`")
    for name, rows in (("edge_logit", edge_logit), ("factor", factor)):
        if rows is not None:
            check_shape(name, rows, [adj.incoming.col.numel(), att_src.size(1)])
    attend = BACKENDS.choose(impl, x.device)
    if attend is reference and isinstance(weight, Mixture):
        weight = mix(*weight[:3])
    out: Tensor = attend(x, weight, att_src, att_dst, edge_logit, bias, factor, adj, negative_slope)
    return out


class _Entries(NamedTuple):
    """What every entry reads, in the order of `RelationalAdj.incoming`.

    Attributes:
        place: (K,) 0, 1, ...: the entry itself.
        receiver: (K,) its receiving node, int64 as `scatter_reduce_` needs it.
        sender_score, receiver_score: (K,) its logits in a table (2, R, N): of senders, then of receivers.
        by_score, by_score_rowptr: (2 K,), (N * 2 * R + 1,) the entries that read each logit of the table (N, 2, R).
    """

    place: Tensor
    receiver: Tensor
    sender_score: Tensor
    receiver_score: Tensor
    by_score: Tensor
    by_score_rowptr: Tensor

    @staticmethod
    def of(adj: RelationalAdj) -> _Entries:
        """Built once for a graph; no host-device sync."""
        cache = adj.incoming.cache
        if "attention" not in cache:
            cache["attention"] = _Entries._build(adj)
        entries: _Entries = cache["attention"]
        return entries

    @staticmethod
    def _build(adj: RelationalAdj) -> _Entries:
        incoming, outgoing, (num_nodes, _), relations = adj.incoming, adj.outgoing, adj.size, adj.num_relations
        number = incoming.col.numel()
        # as the rows that they are summed by: of two dtypes `embedding_bag` converts one in every call
        is_short = incoming.rowptr.dtype == torch.int32 and max(number, num_nodes * relations) < 2**30
        dtype = torch.int32 if is_short else torch.int64
        place = torch.arange(number, device=adj.device)
        receiver, sender = adj.dst.long()[incoming.order.long()], incoming.col.long()
        first = incoming.pair_col.long() % relations * num_nodes if relations > 1 else torch.zeros_like(sender)
        # the entries that a node sends, by relation, then those that it receives
        by_score = torch.empty(2 * number, dtype=dtype, device=adj.device)
        source = adj.src.long()[outgoing.order.long()]
        by_score[place + incoming.node_rowptr.long()[source]] = adj.place_in_incoming[outgoing.order.long()].to(dtype)
        by_score[place + outgoing.node_rowptr.long()[receiver + 1]] = place.to(dtype)
        counts = torch.cat([csr.rowptr.diff().view(-1, relations) for csr in (outgoing, incoming)], dim=1).flatten()
        rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        scores = first + sender, first + receiver + relations * num_nodes
        shorter = (each.to(dtype) for each in (*scores, by_score, rowptr))
        return _Entries(place.to(dtype), receiver, *shorter)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        matrices: Tensor | None,
        common: Tensor | None,
        deviation: Tensor | None,
        att_src: Tensor,
        att_dst: Tensor,
        edge_logit: Tensor | None,
        bias: Tensor | None,
        factor: Tensor | None,
        adj: RelationalAdj,
        mixture: Mixture | None,
        negative_slope: float,
    ) -> Tensor:
        if mixture is not None:
            matrices = mix(mixture.common, mixture.deviation, mixture.columns)
        weight: Tensor = matrices  # type: ignore[assignment]  # given without a mixture
        heads, incoming, entries = att_src.size(1), adj.incoming, _Entries.of(adj)
        attend = _side_by_side(torch.cat([att_src, att_dst]))
        # (2 H, H F) times (H F, R F_in): the vectors of (end, head, relation)
        vectors = torch.mm(attend, weight.flatten(0, 1).t()).view(-1, x.size(1))
        scores = torch.mm(vectors, x.t()).view(2, heads, -1).transpose(1, 2)
        scores = scores.reshape(-1) if heads == 1 else scores.reshape(-1, heads)  # (2 R N,) or (2 R N, H)
        logit = scores.index_select(0, entries.sender_score).add_(scores.index_select(0, entries.receiver_score))
        if edge_logit is not None:
            logit.add_(edge_logit.index_select(0, incoming.order).view_as(logit))
        alpha = _softmax(torch.nn.functional.leaky_relu(logit, negative_slope), adj, entries)
        kept = alpha
        if factor is not None:
            kept = factor.index_select(0, incoming.order).view_as(alpha).mul_(alpha)
        h, row = _rows(x, weight, adj)
        out = incoming.sum_nodes(row, kept, h)
        ctx.save_for_backward(
            x, weight, common, deviation, att_src, att_dst, edge_logit, factor, attend, vectors, logit, alpha, kept, h
        )
        ctx.row = row  # of the graph's cache, where inference mode may have made it: it cannot be saved
        ctx.adj, ctx.mixture, ctx.negative_slope = adj, mixture, negative_slope
        return out if bias is None else out.add_(bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled() or is_batched(grad):
            return _plain_backward(ctx, grad)
        x, weight, common, _, att_src, _, _, _, attend, vectors, logit, alpha, kept, h = ctx.saved_tensors
        need_x, need_matrices, need_common, need_deviation, need_src, need_dst, need_edges, need_bias = (
            ctx.needs_input_grad[:8]
        )
        adj: RelationalAdj = ctx.adj
        incoming, entries, heads = adj.incoming, _Entries.of(adj), att_src.size(1)
        grad = grad.contiguous()
        grad_logit = entry_dot(grad, entries.receiver, h, ctx.row, heads).mul_(kept)
        total = incoming.sum_nodes(entries.place, None, grad_logit.view(-1, heads)).view(-1, *logit.shape[1:])
        grad_logit = grad_logit.addcmul_(alpha, total.index_select(0, entries.receiver), value=-1)
        grad_logit = torch.ops.aten.leaky_relu_backward(grad_logit, logit, ctx.negative_slope, False)
        of_scores = span_sum(
            incoming.cache,
            entries.by_score_rowptr,
            (0, entries.by_score.numel()),
            entries.by_score,
            None,
            grad_logit.view(-1, heads),
            "scores",
        )
        of_scores = of_scores.view(x.size(0), 2, -1, heads).transpose(2, 3).reshape(x.size(0), -1)  # (N, 2 H R)
        of_vectors = torch.mm(of_scores.t(), x).view(2 * heads, -1)  # (2 H, R F_in)
        need_weight = need_matrices or need_common or need_deviation
        in_order = kept.index_select(0, adj.place_in_incoming)
        grad_x, grad_weight, of_bias = products_backward(grad, x, weight, in_order, adj, need_x, need_weight, need_bias)
        if grad_x is not None:
            grad_x.addmm_(of_scores, vectors)
        grads: list[Tensor | None] = [None, None, None]
        if grad_weight is not None:
            grad_weight.view(-1, attend.size(1)).addmm_(of_vectors.t(), attend)
            if ctx.mixture is None:
                grads[0] = grad_weight
            else:
                both = torch.mm(ctx.mixture.adjoint, grad_weight.view(-1, common.numel()))
                both = both.view(grad_weight.shape)
                grads[1:] = both[0], both[1:]
        of_src = of_dst = None
        if need_src or need_dst:
            of_ends = _own_parts(torch.mm(of_vectors, weight.flatten(0, 1)), heads)
            of_src, of_dst = of_ends[:1], of_ends[1:]
        of_edges = grad_logit.index_select(0, adj.place_in_incoming).view(-1, heads) if need_edges else None
        return grad_x, *grads, of_src, of_dst, of_edges, of_bias, None, None, None, None


def _plain_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The gradients by plain operations: for second derivatives and batched gradients."""
    x, weight, common, deviation, att_src, att_dst, edge_logit, factor = ctx.saved_tensors[:8]
    mixture: Mixture | None = ctx.mixture

    def attend(x: Tensor, matrices: Tensor, common: Tensor, deviation: Tensor, *rest: Any) -> Tensor:
        matrices = matrices if mixture is None else mix(common, deviation, mixture.columns)
        src, dst, logit = rest
        return reference(x, matrices, src, dst, logit, None, factor, ctx.adj, ctx.negative_slope)

    given = [x, weight if mixture is None else None, common, deviation, att_src, att_dst, edge_logit]
    grads = plain_gradients(attend, given, grad, ctx.needs_input_grad)
    return *grads, grad.sum(dim=0) if ctx.needs_input_grad[7] else None, None, None, None, None


def _side_by_side(vectors: Tensor) -> Tensor:
    """The vectors of every end and head in the channels of the head, zero elsewhere: (2, H, F) -> (2 H, H F)."""
    _, heads, channels = vectors.shape
    if heads == 1:
        return vectors.view(2, channels)
    own = torch.eye(heads, dtype=vectors.dtype, device=vectors.device)[:, :, None]
    return (vectors[:, :, None] * own).view(2 * heads, heads * channels)


def _own_parts(vectors: Tensor, heads: int) -> Tensor:
    """The adjoint of `_side_by_side`: (2 H, H F) -> (2, H, F)."""
    if heads == 1:
        return vectors.view(2, 1, -1)
    return vectors.view(2, heads, heads, -1).diagonal(dim1=1, dim2=2).transpose(1, 2)


def _softmax(logit: Tensor, adj: RelationalAdj, entries: _Entries) -> Tensor:
    """`edge_softmax` of sorted entries, (K,) or (K, H), in place."""
    csr, weight = adj.incoming, adj.weight
    check_not_negative(weight)
    counted, value = logit, adj.values(csr.order, weight, logit.dtype)
    if value is not None:
        value = value if logit.dim() == 1 else value[:, None]
        counted = torch.where(value > 0, logit, -torch.inf)
    # clamped, so that the maximum of no entries, minus infinity, can be subtracted
    largest = _segment_max(counted, adj, entries).clamp_(min=torch.finfo(logit.dtype).min)
    mass = logit.sub_(largest.index_select(0, entries.receiver))
    mass = mass.exp_() if value is None else entry_mass(mass, value)
    total = csr.sum_nodes(entries.place, None, mass.view(mass.size(0), -1)).view(-1, *mass.shape[1:])
    # without weights the largest entry counts one, unless all are exp(-inf)
    total = total.clamp_(min=1) if value is None else divisor(total)
    return mass.div_(total.index_select(0, entries.receiver))


def _segment_max(rows: Tensor, adj: RelationalAdj, entries: _Entries) -> Tensor:
    """The maximum of the sorted entries of every receiver; minus infinity without one."""
    if not rows.is_cuda:
        return torch.segment_reduce(rows, "max", offsets=adj.incoming.node_rowptr, unsafe=True)
    # a thread of `segment_reduce` takes all entries of a hub
    index = entries.receiver if rows.dim() == 1 else entries.receiver[:, None].expand_as(rows)
    lowest = rows.new_full((adj.size[1], *rows.shape[1:]), -torch.inf)
    return lowest.scatter_reduce_(0, index, rows, reduce="amax")


def _rows(x: Tensor, weight: Tensor, adj: RelationalAdj) -> tuple[Tensor, Tensor]:
    """Rows of the senders for their relations, and (K,) the row that every sorted entry reads."""
    if backward_name(x, weight, adj) != "active_pairs":
        return relational_transform(x, weight).flatten(0, 1), adj.incoming.pair_col
    active = active_rows(adj.outgoing, weight[0])  # those of the backward pass: by the size of its rows
    h = x.new_empty(active.node.numel(), weight.size(2))
    for block in active.blocks:
        relation_products(block, x.index_select(0, active.node[block.rows]), weight, out=h[block.rows])
    return h, _active_row(active, adj)


def _active_row(active: ActiveRows, adj: RelationalAdj) -> Tensor:
    """(K,) the active row of every sorted entry; built once for each size of blocks."""
    cache, key = adj.incoming.cache, ("active row", active.blocks[0].nodes.stop)
    if key not in cache:
        row = torch.empty_like(adj.incoming.order)
        number = torch.arange(active.node.numel(), device=row.device, dtype=row.dtype)
        row[active.order.long()] = torch.repeat_interleave(number, active.rowptr.diff())
        cache[key] = row.index_select(0, adj.incoming.order)
    found: Tensor = cache[key]
    return found

"""Messages with a weight matrix per relation, summed at the receiver; backends in `linear_csr` and `pair_rows`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphprism._checks import FLOATS, check_dtype, check_floating, check_same_device, check_shape, check_tensor
from graphprism.ops.aggregate import aggregate_scatter, relational_sum, sum_scatter
from graphprism.ops.backends import Backends, is_exported
from graphprism.ops.entries import check_graph
from graphprism.ops.linear_csr import csr, relational_transform, transform_first
from graphprism.ops.pair_rows import active_pairs_pay, pair_linear

if TYPE_CHECKING:
    from graphprism.ops.prepared_graph import PreparedGraph
    from graphprism.ops.relational_adj import RelationalAdj


def reference(x: Tensor, adj: RelationalAdj, weight: Tensor) -> Tensor:
    """The definition, one relation at a time; slow on purpose and never optimised."""
    out = x.new_zeros(adj.size[1], weight.size(2))
    relation = torch.zeros_like(adj.src) if adj.relation is None else adj.relation
    for r in range(adj.num_relations):
        chosen = relation == r
        message = x[adj.src[chosen]] @ weight[r]
        if adj.weight is not None:
            message = adj.weight[chosen, None].to(x.dtype) * message
        out = out.index_add(0, adj.dst[chosen], message)
    return out


def scatter(x: Tensor, adj: RelationalAdj, weight: Tensor) -> Tensor:
    """By gather and ``index_add``, which `torch.compile` and `torch.func` can transform."""
    in_channels, out_channels = weight.shape[1:]
    if is_exported():  # on any number of nodes and edges, edges count most
        is_first = out_channels < in_channels
    else:
        is_first = transform_first(adj, adj.src.numel(), in_channels, out_channels)
    if is_first:
        return sum_scatter(relational_transform(x, weight), adj, adj.weight)
    h = aggregate_scatter(x, adj, adj.weight)
    return h.flatten(1) @ weight.flatten(0, 1)


BACKENDS = Backends(automatic="csr", reference=reference, scatter=scatter, csr=csr, pairs=pair_linear)


def relational_linear(x: Tensor, adj: PreparedGraph, weight: Tensor, *, impl: str | None = None) -> Tensor:
    r"""Transforms every message by the matrix of its relation and sums over all incoming edges.

    .. math:: \mathbf{y}_i = \sum_{e = (j, i)} w_e \, \mathbf{W}_{r(e)}^\top \mathbf{x}_j

    where :math:`w_e` and :math:`r(e)` are weight and relation of edge :math:`e`; with soft types the edge counts in
    every relation with its score. Gradients flow to ``x``, ``weight``, the edge weights and the scores. Half precisions
    are summed in float32. ``x`` may have one leading batch dimension (one graph, many signals). ``x`` may be a sparse
    CSR tensor, which gets no gradient.

    Shapes: ``x`` (N_src, F_in), ``weight`` (R, F_in, F_out) -> (N_dst, F_out)

    Example:
        >>> from graphprism.ops import RelationalAdj
        >>> adj = RelationalAdj(torch.tensor([[0, 1], [2, 2]]), torch.tensor([0, 1]), num_relations=2, num_nodes=3)
        >>> weight = torch.tensor([[[10.0]], [[100.0]]])
        >>> relational_linear(torch.tensor([[1.0], [2.0], [3.0]]), adj, weight).flatten().tolist()
        [0.0, 0.0, 210.0]
    """
    if not (isinstance(x, Tensor) and isinstance(weight, Tensor) and hasattr(adj, "relational_linear")):
        check_tensor("x", x)
        check_tensor("weight", weight)
        check_graph(adj)
    if x.layout == torch.sparse_csr:  # input features, which need no gradient
        from graphprism.ops.sparse_features import sparse_transform  # circular import

        return relational_sum(sparse_transform(x, weight), adj, impl=impl)
    return adj.relational_linear(x, weight, impl)


def dispatch_linear(x: Tensor, adj: RelationalAdj, weight: Tensor, impl: str | None) -> Tensor:
    """`relational_linear` on a `RelationalAdj`; under autocast in the lower precision."""
    if x.dim() == 3:
        return torch.stack([dispatch_linear(signal, adj, weight, impl) for signal in x])
    # one comparison before the detailed checks: this is the hot path of every layer
    if weight.dim() != 3 or weight.size(0) != adj.num_relations or x.shape != (adj.size[0], weight.size(1)):
        check_shape("weight", weight, [adj.num_relations, "F_in", "F_out"])
        check_shape("x", x, [adj.size[0], weight.size(1)])
    if x.dtype != weight.dtype or x.dtype not in FLOATS:
        check_floating("x", x)
        check_dtype("x", x, weight.dtype, "`weight`")
    device = x.device
    if device != adj.edge_index.device or device != weight.device:
        check_same_device("x", x, "adj", adj.edge_index)
        check_same_device("x", x, "weight", weight)
    if impl is None and active_pairs_pay(adj):
        impl = "pairs"
    backend = BACKENDS.choose(impl, device)
    kind = device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        out: Tensor = backend(x, adj, weight)
        return out
    dtype = torch.get_autocast_dtype(kind)
    with torch.autocast(kind, enabled=False):
        mixed: Tensor = backend(x.to(dtype), adj, weight.to(dtype))
    return mixed

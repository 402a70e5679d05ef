"""Fixed matrices over the nodes of a graph, and their products with node states."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor
from torch_geometric.utils import add_remaining_self_loops, coalesce, remove_self_loops

from graphprism.ops import RelationalAdj, edge_norm, relational_aggregate, relational_transform
from graphprism.ops.sparse_features import sparse_transform

# (N, N): dense, or the edges with their coefficients.
Matrix: TypeAlias = Tensor | RelationalAdj

# Share of nonzeros above which a dense product is faster; measured on one core with the two-hop matrix of Chameleon,
# a fifth of all pairs.
_DENSE_SHARE = 0.05
# Nodes up to which neighbours of neighbours are counted densely, if a sparse product has more terms than there are
# pairs of nodes: a GPU holds all of them at once, for Squirrel six times the pairs. Without hubs there are few: one
# core, 9000 nodes, 45,000 edges, 0.04 s sparse and 16 s dense.
_DENSE_NODES = 10_000


def spread(matrix: Matrix, h: Tensor) -> Tensor:
    r"""The product :math:`\mathbf{M} \mathbf{H}`.

    Shapes: ``matrix`` (N, N), ``h`` (N, F) -> (N, F)
    """
    return matrix @ h if isinstance(matrix, Tensor) else relational_aggregate(h, matrix).squeeze(1)


def transform(x: Tensor, weight: Tensor) -> Tensor:
    """Products of features, dense or sparse, with several matrices.

    Shapes: ``x`` (N, F_in), ``weight`` (C, F_in, F_out) -> (N, C, F_out)
    """
    return sparse_transform(x, weight) if x.layout == torch.sparse_csr else relational_transform(x, weight)


def edge_matrix(edge_index: Tensor, num_nodes: int, weight: Tensor | None = None) -> RelationalAdj:
    r"""The matrix with :math:`M_{ij} = w` for every edge :math:`(j, i)`, 1 without weights."""
    return RelationalAdj(edge_index, None, weight, num_nodes=num_nodes).prepare()


def norm_matrix(edge_index: Tensor, num_nodes: int, kind: str, dtype: torch.dtype) -> RelationalAdj:
    """The matrix of edges with the coefficients of a norm of `graphprism.ops.edge_norm`."""
    return edge_matrix(edge_index, num_nodes, edge_norm(edge_index, (num_nodes, num_nodes), kind, dtype=dtype))


def simple_edges(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Edges without loops, each once."""
    edges: Tensor = coalesce(remove_self_loops(edge_index)[0], num_nodes=num_nodes)
    return edges


def with_loops(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Edges with a loop at every node."""
    edges: Tensor = add_remaining_self_loops(edge_index, num_nodes=num_nodes)[0]
    return edges


def two_hops(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Pairs of nodes at distance two: neighbours of neighbours that are neither neighbours nor the node itself.

    >>> two_hops(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3).tolist()
    [[0, 2], [2, 0]]
    """
    edges = simple_edges(edge_index, num_nodes)
    sent, received = (torch.bincount(end, minlength=num_nodes) for end in edges)
    if num_nodes <= _DENSE_NODES and int((sent * received).sum()) > num_nodes**2:
        near = torch.zeros(num_nodes, num_nodes, device=edges.device)
        near[edges[0], edges[1]] = 1
        reached = (near @ near > 0) & (near == 0)
        return reached.fill_diagonal_(False).nonzero().t().contiguous()
    size, ones = (num_nodes, num_nodes), torch.ones(edges.size(1), device=edges.device)
    with torch.sparse.check_sparse_tensor_invariants(enable=True):  # torch 2.11 warns without a choice
        near = torch.sparse_coo_tensor(edges, ones, size)
        pairs = torch.sparse.mm(near, near).coalesce().indices()
    numbers = pairs[0] * num_nodes + pairs[1]
    is_near = torch.isin(numbers, edges[0] * num_nodes + edges[1])
    found: Tensor = pairs[:, ~is_near & (pairs[0] != pairs[1])]
    return found


def dense_if_that_pays(matrix: RelationalAdj) -> Matrix:
    """The same matrix, dense if it has so many nonzeros that a dense product is faster."""
    num_nodes, weight = matrix.size[0], matrix.edge_weight
    if weight is None or matrix.num_edges < _DENSE_SHARE * num_nodes**2:
        return matrix
    dense = weight.new_zeros(num_nodes, num_nodes)
    out: Tensor = dense.index_put((matrix.dst.long(), matrix.src.long()), weight, accumulate=True)
    return out

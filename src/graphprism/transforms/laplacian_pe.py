"""Laplacian positional encoding: eigenvectors of the normalised Laplacian."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphprism._checks import check_integer, check_positive, check_shape
from graphprism.transforms.split_edges import check_homogeneous

_LARGEST = 10_000  # a dense eigenvalue problem of this size takes minutes and 1.6 GB


class LaplacianPE(BaseTransform):
    r"""Writes ``data.pe``: the eigenvectors of the ``k`` smallest eigenvalues after the first.

    The matrix is :math:`\mathbf{I} - \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}` of the undirected graph without
    loops, separately for each graph of a batch. The sign of an eigenvector :math:`\mathbf{v}` is fixed: it makes
    :math:`\sum_i v_i^3` positive, whatever the numbering of the nodes, or, if the sum vanishes, the first entry of
    largest magnitude. (Within an eigenspace of several dimensions the basis does depend on the numbering.) A graph of
    ``k`` nodes or fewer has fewer eigenvectors: the remaining columns are zero.

    Args:
        k: number of frequencies.
        attr_name: attribute to write.

    Shapes: ``data.pe`` (N, k), float32
    """

    def __init__(self, k: int = 8, attr_name: str = "pe") -> None:
        check_positive("k", k)
        if not isinstance(attr_name, str) or not attr_name:
            raise TypeError(f"`attr_name` must be the name of an attribute, got {attr_name!r}")
        self.k, self.attr_name = k, attr_name

    def forward(self, data: Data) -> Data:
        """``data`` with ``pe``."""
        data[self.attr_name] = graph_by_graph(data, lambda edges, nodes: _frequencies(edges, nodes, self.k))
        return data

    def __repr__(self) -> str:
        return f"LaplacianPE(k={self.k})"


def graph_by_graph(data: Data, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Applies a function of (edges, number of nodes) to each graph of a batch and concatenates the rows."""
    check_homogeneous(data)
    ptr = data.get("ptr")
    if ptr is not None:
        check_ptr(ptr, int(data.num_nodes))
    bounds = [0, int(data.num_nodes)] if ptr is None else ptr.tolist()
    graph_of_edge = torch.bucketize(
        data.edge_index[0], torch.tensor(bounds[1:], device=data.edge_index.device), right=True
    )
    parts = [
        function(data.edge_index[:, graph_of_edge == g] - begin, end - begin)
        for g, (begin, end) in enumerate(pairwise(bounds))
    ]
    return torch.cat(parts).to(data.edge_index.device)


def check_ptr(ptr: Tensor, num_nodes: int) -> None:
    """Raises unless ``ptr`` holds the bounds of the graphs of a batch, as in PyG."""
    check_shape("data.ptr", ptr, ["G + 1"])
    check_integer("data.ptr", ptr)
    bounds = ptr.tolist()
    if not bounds or bounds[0] != 0 or bounds[-1] != num_nodes or bounds != sorted(bounds):
        raise ValueError(f"`data.ptr` must grow from 0 to {num_nodes}, the number of nodes, got {bounds[:8]}")


def adjacency_matrix(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The undirected graph without loops as a dense matrix of zeros and ones, in float64."""
    if num_nodes > _LARGEST:
        raise ValueError(f"a graph must have at most {_LARGEST} nodes for its eigenvectors, got {num_nodes}")
    adjacency = torch.zeros(num_nodes, num_nodes, dtype=torch.double)
    src, dst = edge_index.cpu()
    adjacency[src, dst] = adjacency[dst, src] = 1.0
    adjacency.fill_diagonal_(0.0)
    return adjacency


def _frequencies(edge_index: Tensor, num_nodes: int, k: int) -> Tensor:
    adjacency = adjacency_matrix(edge_index, num_nodes)
    scale = adjacency.sum(dim=1).clamp(min=1.0).rsqrt()
    laplacian = torch.eye(num_nodes, dtype=torch.double) - scale[:, None] * adjacency * scale
    vectors = _fix_signs(torch.linalg.eigh(laplacian).eigenvectors[:, 1 : k + 1])
    out = torch.zeros(num_nodes, k)
    out[:, : vectors.size(1)] = vectors
    return out


def _fix_signs(vectors: Tensor) -> Tensor:
    if vectors.numel() == 0:
        return vectors
    largest = vectors.abs().amax(dim=0)
    # entries that are equal in exact arithmetic differ by rounding, hence the margin of 1e-6
    first = (vectors.abs() > largest * (1 - 1e-6)).to(torch.int8).argmax(dim=0)
    skew = vectors.pow(3).sum(dim=0)
    decisive = torch.where(skew.abs() > 1e-8, skew, vectors[first, torch.arange(vectors.size(1))])
    return torch.where(decisive < 0, -vectors, vectors)

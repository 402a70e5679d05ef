"""Positions of nodes by the probability that a random walk returns."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphprism._checks import check_positive
from graphprism.transforms.laplacian_pe import check_ptr
from graphprism.transforms.split_edges import check_homogeneous

_LARGEST = 10_000  # a dense product of matrices of this size takes a minute
# Numbers of the dense matrices of the graphs that are walked at once.
_AT_ONCE = 1 << 22


class RandomWalkPE(BaseTransform):
    r"""Writes ``data.pe``: for every node the probabilities that walks of 1 to ``k`` steps from it end at it (RWSE).

    They are the diagonals of :math:`\mathbf{P}^1, \dots, \mathbf{P}^k` for :math:`\mathbf{P} = \mathbf{D}^{-1}
    \mathbf{A}`, each graph of a batch by itself; :math:`\mathbf{D}` counts the edges that leave a node, and a node
    that no edge leaves has zeros. ``data.edge_pe`` has for every edge the entries of the same matrices at its two ends:
    the probabilities that walks from its source end at its target.

    Args:
        k: longest walk.
        attr_name: attribute to write for nodes.
        edge_attr_name: attribute to write for edges; `None` writes none.

    Shapes: ``data.pe`` (N, k), ``data.edge_pe`` (E, k), float32

    >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> RandomWalkPE(2, edge_attr_name="edge_pe")(path).pe.tolist(), path.edge_pe[:2].tolist()
    ([[0.0, 0.5], [0.0, 1.0], [0.0, 0.5]], [[1.0, 0.0], [0.5, 0.0]])
    """

    def __init__(self, k: int = 20, attr_name: str = "pe", edge_attr_name: str | None = None) -> None:
        check_positive("k", k)
        for name, value in (("attr_name", attr_name), ("edge_attr_name", edge_attr_name or "edge_pe")):
            if not isinstance(value, str) or not value:
                raise TypeError(f"`{name}` must be the name of an attribute, got {value!r}")
        self.k, self.attr_name, self.edge_attr_name = k, attr_name, edge_attr_name

    def forward(self, data: Data) -> Data:
        """``data`` with ``pe``, and ``edge_pe`` if it is wanted."""
        check_homogeneous(data)
        num_nodes, ptr = int(data.num_nodes), data.get("ptr")
        if ptr is None:
            ptr = torch.tensor([0, num_nodes], device=data.edge_index.device)
        else:
            check_ptr(ptr, num_nodes)
        data[self.attr_name], edge_pe = _walks(data.edge_index, ptr, self.k)
        if self.edge_attr_name is not None:
            data[self.edge_attr_name] = edge_pe
        return data

    def __repr__(self) -> str:
        return f"RandomWalkPE(k={self.k})"


def _walks(edge_index: Tensor, ptr: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The probabilities of nodes (N, k) and of edges (E, k); graphs of like size are walked together."""
    sizes = ptr.diff()
    if sizes.numel() and int(sizes.max()) > _LARGEST:
        raise ValueError(f"a graph must have at most {_LARGEST} nodes for random walks, got {int(sizes.max())}")
    owner = torch.bucketize(
        edge_index[0].contiguous(), ptr[1:].contiguous(), right=True
    )  # (E,) the graph of every edge
    pe = torch.zeros(int(ptr[-1]), k, device=edge_index.device)
    edge_pe = torch.zeros(edge_index.size(1), k, device=edge_index.device)
    order = sizes.argsort()
    begin = 0
    while begin < order.numel():
        # of ascending sizes the last decides how many fit
        count = max(1, _fitting(sizes[order[begin:]]))
        chosen = order[begin : begin + count]
        begin += count
        place = torch.full_like(sizes, -1)
        place[chosen] = torch.arange(count, device=place.device)
        edges = (place[owner] >= 0).nonzero().view(-1)
        graph = owner[edges]
        source, target = edge_index[:, edges] - ptr[graph]
        matrices, power = _transitions(place[graph], source, target, count, int(sizes[chosen[-1]])), None
        inside = torch.arange(matrices.size(1), device=ptr.device) < sizes[chosen][:, None]  # (B, n)
        nodes = (ptr[chosen][:, None] + torch.arange(matrices.size(1), device=ptr.device))[inside]
        for step in range(k):
            power = matrices if power is None else torch.bmm(power, matrices)
            pe[nodes, step] = power.diagonal(dim1=1, dim2=2)[inside]
            edge_pe[edges, step] = power[place[graph], source, target]
    return pe, edge_pe


def _fitting(sizes: Tensor) -> int:
    numbers = sizes.square() * torch.arange(1, sizes.numel() + 1, device=sizes.device)
    return int((numbers <= _AT_ONCE).sum())


def _transitions(graph: Tensor, source: Tensor, target: Tensor, count: int, size: int) -> Tensor:
    """(B, n, n) where one step from each node leads, with its probability; several edges count as many times."""
    matrices = torch.zeros(count, size, size, device=graph.device)
    matrices.index_put_((graph, source, target), torch.ones((), device=graph.device), accumulate=True)
    return matrices / matrices.sum(dim=2, keepdim=True).clamp(min=1)

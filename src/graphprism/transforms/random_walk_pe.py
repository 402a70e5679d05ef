"""Positional encoding by return probabilities of random walks."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphprism._checks import check_positive
from graphprism.ops.csr import csr_sum
from graphprism.transforms.laplacian_pe import check_ptr
from graphprism.transforms.split_edges import check_homogeneous

_LARGEST = 10_000  # the matrix of a larger graph would take gigabytes
# Matrix elements per batch of graphs that are processed together.
_AT_ONCE = 1 << 22


class RandomWalkPE(BaseTransform):
    r"""Writes ``data.pe``: for every node, the return probabilities of random walks of 1 to ``k`` steps (RWSE).

    They are the diagonals of :math:`\mathbf{P}^1, \dots, \mathbf{P}^k` for :math:`\mathbf{P} = \mathbf{D}^{-1}
    \mathbf{A}`, separately for each graph of a batch; :math:`\mathbf{D}` holds the out-degrees, and a node without
    outgoing edges has zeros. ``data.edge_pe`` holds, for every edge, the entries (source, target) of the same matrices:
    the probabilities that walks from its source end at its target.

    Args:
        k: longest walk.
        attr_name: attribute to write for nodes.
        edge_attr_name: attribute to write for edges; `None` writes none.

    Shapes: ``data.pe`` (N, k), ``data.edge_pe`` (E, k), float32

    >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> path = RandomWalkPE(2, edge_attr_name="edge_pe")(path)
    >>> path.pe.tolist(), path.edge_pe[:2].tolist()
    ([[0.0, 0.5], [0.0, 1.0], [0.0, 0.5]], [[1.0, 0.0], [0.5, 0.0]])
    """

    def __init__(self, k: int = 20, attr_name: str = "pe", edge_attr_name: str | None = None) -> None:
        check_positive("k", k)
        for name, value in (("attr_name", attr_name), ("edge_attr_name", edge_attr_name or "edge_pe")):
            if not isinstance(value, str) or not value:
                raise TypeError(f"`{name}` must be the name of an attribute, got {value!r}")
        self.k, self.attr_name, self.edge_attr_name = k, attr_name, edge_attr_name

    def forward(self, data: Data) -> Data:
        """``data`` with ``pe``, and ``edge_pe`` if requested."""
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
    """The probabilities of nodes (N, k) and of edges (E, k); graphs of similar size are processed together."""
    sizes = ptr.diff()
    if sizes.numel() and int(sizes.max()) > _LARGEST:
        raise ValueError(f"a graph must have at most {_LARGEST} nodes for random walks, got {int(sizes.max())}")
    # (E,) the graph of every edge
    owner = torch.bucketize(edge_index[0].contiguous(), ptr[1:].contiguous(), right=True)
    pe = torch.zeros(int(ptr[-1]), k, device=edge_index.device)
    edge_pe = torch.zeros(edge_index.size(1), k, device=edge_index.device)
    order = sizes.argsort()
    begin = 0
    while begin < order.numel():
        count = max(1, _fitting(sizes[order[begin:]]))
        chosen = order[begin : begin + count]
        begin += count
        part = torch.zeros_like(sizes, dtype=torch.bool)
        part[chosen] = True
        edges = part[owner].nonzero().view(-1)
        number = torch.repeat_interleave(chosen, sizes[chosen])  # (M,) the graph of every node
        row = torch.arange(number.numel(), device=ptr.device)
        new_begin = torch.zeros_like(sizes)
        new_begin[chosen] = sizes[chosen].cumsum(0) - sizes[chosen]
        place = row - new_begin[number]  # (M,) the number of every node in its graph
        source, target = edge_index[:, edges] - ptr[owner[edges]]
        start = new_begin[owner[edges]]
        steps = _Steps(start + source, start + target, number.numel())
        # row i of X: distribution of walks from node i over the nodes of its graph
        x = torch.zeros(number.numel(), int(sizes[chosen[-1]]), device=ptr.device)
        x.index_put_((start + source, target), steps.share[start + source], accumulate=True)
        for step in range(k):
            x = steps(x) if step else x
            pe[ptr[number] + place, step] = x[row, place]
            edge_pe[edges, step] = x[start + source, target]
    return pe, edge_pe


class _Steps:
    """One more step of all walks: multiplies by the transition matrix, whose rows have few entries."""

    def __init__(self, source: Tensor, target: Tensor, num_nodes: int) -> None:
        leaving = torch.bincount(source, minlength=num_nodes)
        self.share = 1 / leaving.clamp(min=1).float()  # (M,) probability of each outgoing edge of a node
        by_source = source.argsort(stable=True)
        self._rowptr = torch.cat([leaving.new_zeros(1), leaving.cumsum(0)])
        self._target, self._value = target[by_source], self.share[source[by_source]]

    def __call__(self, x: Tensor) -> Tensor:
        return csr_sum(self._rowptr, self._target, self._value, x)


def _fitting(sizes: Tensor) -> int:
    numbers = sizes.square() * torch.arange(1, sizes.numel() + 1, device=sizes.device)
    return int((numbers <= _AT_ONCE).sum())

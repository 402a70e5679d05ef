"""Positional encoding by eigenvectors and eigenvalues of the unnormalised Laplacian."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphprism._checks import check_positive
from graphprism.transforms.laplacian_pe import adjacency_matrix, graph_by_graph


class LaplacianSpectrum(BaseTransform):
    r"""Writes ``data.pe``: for every node its entries of the ``k`` lowest eigenvectors, each with its eigenvalue.

    They are those of :math:`\mathbf{L} = \mathbf{D} - \mathbf{A}` of the undirected graph without loops, separately for
    each graph of a batch: :math:`(v_{mi}, \lambda_m)` for :math:`\mathbf{L} \mathbf{v}_m = \lambda_m \mathbf{v}_m` and
    :math:`m = 0, \dots, k - 1`, with :math:`\lambda_0 = 0`. Signs are those of LAPACK; the encoder of these pairs,
    ``pe_encoder="deepset"`` of `graphprism.nn.GNN`, draws random signs in every training step. A graph of fewer than
    ``k`` nodes is padded with (0, -1), as no eigenvalue is negative.

    Args:
        k: number of frequencies.
        attr_name: attribute to write.

    Shapes: ``data.pe`` (N, k, 2), float32

    >>> path = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> LaplacianSpectrum(4)(path).pe[0, :, 1].round(decimals=4).tolist()
    [0.0, 1.0, 3.0, -1.0]
    """

    def __init__(self, k: int = 8, attr_name: str = "pe") -> None:
        check_positive("k", k)
        self.k, self.attr_name = k, attr_name

    def forward(self, data: Data) -> Data:
        """``data`` with ``pe``."""
        data[self.attr_name] = graph_by_graph(data, self._pairs)
        return data

    def _pairs(self, edge_index: Tensor, num_nodes: int) -> Tensor:
        adjacency = adjacency_matrix(edge_index, num_nodes)
        values, vectors = torch.linalg.eigh(adjacency.sum(dim=1).diag() - adjacency)
        out = torch.zeros(num_nodes, self.k, 2)
        out[..., 1] = -1.0
        out[:, :num_nodes, 0] = vectors[:, : self.k]
        out[:, :num_nodes, 1] = values[: self.k].clamp(min=0.0)
        return out

    def __repr__(self) -> str:
        return f"LaplacianSpectrum(k={self.k})"

"""Normalisation of edges, once, before training."""

from __future__ import annotations

from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from graphprism._checks import check_choice
from graphprism.ops import EDGE_NORMS, edge_norm
from graphprism.transforms.split_edges import check_homogeneous


class RelationalNorm(BaseTransform):
    r"""Writes ``data.edge_weight``: coefficients from the degrees over all relations together.

    ``"sym"`` :math:`1 / \sqrt{d^{in}_j d^{in}_i}`, ``"dir"`` :math:`1 / \sqrt{d^{out}_j d^{in}_i}`, ``"mean"``
    :math:`1 / d^{in}_i`, ``"none"`` one, each times an existing ``edge_weight`` (see `graphprism.ops.edge_norm`).
    Layers use a given ``edge_weight`` unchanged.

    Example:
        >>> import torch
        >>> star = Data(edge_index=torch.tensor([[0, 1, 2, 3], [3, 3, 3, 0]]), num_nodes=4)
        >>> RelationalNorm("mean")(star).edge_weight[-1].item()
        1.0
    """

    def __init__(self, norm: str = "sym") -> None:
        check_choice("norm", norm, EDGE_NORMS)
        self.norm = norm

    def forward(self, data: Data) -> Data:
        """``data`` with ``edge_weight``."""
        check_homogeneous(data)
        size = (data.num_nodes, data.num_nodes)
        data.edge_weight = edge_norm(data.edge_index, size, self.norm, data.get("edge_weight"))
        return data

    def __repr__(self) -> str:
        return f"RelationalNorm({self.norm!r})"

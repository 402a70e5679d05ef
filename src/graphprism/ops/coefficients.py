"""Weights of the messages of a layer on a graph, apart from the layer's parameters."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism.ops.relational_adj import RelationalAdj


@dataclass(frozen=True)
class Coefficients:
    r"""Coefficients of the messages of a layer on a graph.

    They are the matrices :math:`\mathbf{A}` and the numbers :math:`s` beside the layer's weights :math:`\mathbf{W}` in

    .. math:: \mathbf{X}' = \sum_{p} \sum_{r} (\mathbf{A}_{p,r} + s_{p,r} \mathbf{I}) \, \mathbf{X} \, \mathbf{W}_{p,r}
        \; \big( + \mathbf{X} \mathbf{W} \big)

    Where a layer computes its coefficients from its input, these are the ones it has with all logits equal.

    Attributes:
        layer: Name of the layer.
        parts: One graph for each :math:`p`, with the coefficient of an edge as ``edge_weight`` (`None`: all are one).
            The entry of the edge in :math:`\mathbf{A}_{p,r}` is its coefficient, times its score where types are soft.
            Layers have one part, `DirConv` has one for each direction, with the edges in the same order.
        own: :math:`s_{p,r}` as one (R,) tensor for each part; empty where all are zero.
        root: Whether the row of the receiver has a weight of its own, :math:`\mathbf{W}`.
        norm: The kind of `edge_norm` that the layer applied; "none" where it takes weights as they are.
        channels: Number of output channels; `None` where the layer does not know it.
        is_linear: Whether the layer is this sum (and a bias), with coefficients that do not depend on its input.
        notes: Sentences on what the sum leaves out.
        unproven: Why the layer has no form as such a sum; `None` where it has one.
    """

    layer: str
    parts: tuple[RelationalAdj, ...] = ()
    own: tuple[Tensor, ...] = ()
    root: bool = False
    norm: str = "none"
    channels: int | None = None
    is_linear: bool = True
    notes: tuple[str, ...] = ()
    unproven: str | None = None

    def silenced(self) -> Tensor:
        """(E,) true for edges with coefficient zero in every part."""
        first = self.parts[0]
        silent = torch.ones(first.num_edges, dtype=torch.bool, device=first.device)
        for part in self.parts:
            silent &= torch.zeros_like(silent) if part.edge_weight is None else part.edge_weight == 0
        return silent

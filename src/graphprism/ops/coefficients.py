"""Coefficients of a layer's messages on a graph: the part of a layer that is not learned."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism.ops.relational_adj import RelationalAdj


@dataclass(frozen=True)
class Coefficients:
    r"""Coefficients of the messages of a layer on a graph.

    They are the matrices :math:`\mathbf{A}` and the scalars :math:`s` in

    .. math:: \mathbf{X}' = \sum_{p} \sum_{r} (\mathbf{A}_{p,r} + s_{p,r} \mathbf{I}) \, \mathbf{X} \, \mathbf{W}_{p,r}
        \; \big( + \mathbf{X} \mathbf{W} \big)

    where :math:`\mathbf{W}` are the layer's weights. If a layer computes its coefficients from its input (attention,
    gates), these are its coefficients for equal logits.

    Attributes:
        layer: Name of the layer.
        parts: One graph for each :math:`p`, with the coefficient of an edge as ``edge_weight`` (`None`: all are one).
            The entry of the edge in :math:`\mathbf{A}_{p,r}` is its coefficient, times its score where types are soft.
            Layers have one part, `DirConv` has one for each direction, with the edges in the same order.
        own: :math:`s_{p,r}` as one (R,) tensor for each part; empty if all are zero.
        root: Whether there is a separate weight :math:`\mathbf{W}` for the receiver's own row.
        norm: The kind of `edge_norm` that the layer applies; "none" if it uses the edge weights unchanged.
        channels: Number of output channels; `None` if unknown.
        is_linear: Whether the layer is this sum (and a bias), with coefficients that do not depend on its input.
        notes: Sentences on parts of the layer that this sum omits.
        unproven: Why the layer cannot be written as such a sum; `None` if it can.
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

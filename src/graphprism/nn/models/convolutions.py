"""The convolutions of the paper by name: five plain ones and their MRS forms."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch_geometric.nn import MLP

from graphprism.nn.conv import MRSGATConv, MRSGatedGCNConv, MRSGCNConv, MRSGINConv, MRSSAGEConv

# Each makes a convolution from its width c, the number of relations r and the width e of edge features (or None). A
# plain convolution is the MRS layer with one relation: the same function as PyG's layer, and it takes a prepared graph.
CONVOLUTIONS: dict[str, Callable[[int, int, int | None], torch.nn.Module]] = {
    "gcn": lambda c, r, e: MRSGCNConv(c, c, 1),
    "mrs-gcn": lambda c, r, e: MRSGCNConv(c, c, r),
    "sage": lambda c, r, e: MRSSAGEConv(c, c, 1),
    "mrs-sage": lambda c, r, e: MRSSAGEConv(c, c, r),
    "gat": lambda c, r, e: MRSGATConv(c, c, 1, heads=2, concat=False),
    "mrs-gat": lambda c, r, e: MRSGATConv(c, c, r, heads=2, concat=False),
    # three maps in the plain network and two in each of the relations', as the paper's parameter table counts
    "gin": lambda c, r, e: MRSGINConv(lambda: MLP([c, c, c, c], norm=None), 1),
    "mrs-gin": lambda c, r, e: MRSGINConv(lambda: MLP([c, c, c], norm=None), r),
    "gated-gcn": lambda c, r, e: MRSGatedGCNConv(c, c, 1, e),
    "mrs-gated-gcn": lambda c, r, e: MRSGatedGCNConv(c, c, r, e),
    # nine maps, as the paper's parameter table counts; its formula has seven
    "mrs-gated-gcn-9": lambda c, r, e: MRSGatedGCNConv(c, c, r, e, gate_per_relation=True),
}


def make_conv(
    conv: str | Callable[[int], torch.nn.Module], channels: int, num_relations: int, edge_dim: int | None = None
) -> torch.nn.Module:
    """One convolution from ``channels`` to ``channels``, by name or by a function of the width."""
    if callable(conv):
        return conv(channels)
    if conv not in CONVOLUTIONS:
        raise ValueError(f"`conv` must be a function of the width or one of {sorted(CONVOLUTIONS)}, got {conv!r}")
    return CONVOLUTIONS[conv](channels, num_relations, edge_dim)

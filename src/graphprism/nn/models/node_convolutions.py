"""The convolutions of node classification by name: plain, MRS, and both over the two directions of every edge."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.nn.dense import Linear

from graphprism.nn.conv import DirConv, MRSGATConv, MRSGCNConv, MRSSAGEConv

_LAYERS: dict[str, type[torch.nn.Module]] = {"gcn": MRSGCNConv, "sage": MRSSAGEConv, "gat": MRSGATConv}
# "mrs-" has one weight per relation, "dir-" hears both ends of an edge; without "mrs-" the graph has one relation.
NODE_CONVOLUTIONS = ("mlp", *(f"{form}{layer}" for form in ("", "mrs-", "dir-", "mrs-dir-") for layer in _LAYERS))


def make_node_conv(
    name: str,
    in_channels: int,
    out_channels: int,
    num_relations: int = 3,
    alpha: float = 0.5,
    share_init: bool = False,
) -> torch.nn.Module:
    """One layer of a network for nodes, by a name of `NODE_CONVOLUTIONS`.

    Args:
        name: Such as ``"mrs-dir-gcn"``.
        in_channels: Size of an input row.
        out_channels: Size of an output row.
        num_relations: Number of relations R; one without ``mrs-``.
        alpha: Share of the nodes that a node points to, with ``dir-``.
        share_init: Whether all relations start from the same weights.

    >>> make_node_conv("dir-sage", 8, 4, alpha=1.0).conv_out
    MRSSAGEConv(
      8, 4, num_relations=1
      (lin): RelationalWeight(8, 4, num_relations=1)
    )
    """
    if name not in NODE_CONVOLUTIONS:
        raise ValueError(f"`conv` must be one of {list(NODE_CONVOLUTIONS)}, got {name!r}")
    if name == "mlp":
        linear: torch.nn.Module = Linear(in_channels, out_channels)
        return linear
    kind = name.rpartition("-")[2]
    directed, sizes = "dir-" in name, (in_channels, out_channels)
    options: dict[str, Any] = {"num_relations": relations_of_conv(name, num_relations), "share_init": share_init}
    if directed and kind == "sage":  # the node itself has no direction: one weight for it, not one in each direction
        return DirConv(lambda: MRSSAGEConv(*sizes, root_weight=False, **options), alpha, root_weight=sizes)
    return DirConv(lambda: _LAYERS[kind](*sizes, **options), alpha) if directed else _LAYERS[kind](*sizes, **options)


def relations_of_conv(name: str, num_relations: int) -> int:
    """Relations of the graph that a convolution takes."""
    return num_relations if name.startswith("mrs-") else 1

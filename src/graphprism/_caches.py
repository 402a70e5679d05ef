"""Graphs and sums that layers keep from their first call (``cached=True``), whatever they are called with later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def without_caches(model: torch.nn.Module) -> Iterator[None]:
    """Layers of a model use and keep no graph of another call; what they keep is back on exit.

    >>> from torch_geometric.nn import GCNConv
    >>> layer, x = GCNConv(2, 2, cached=True), torch.ones(3, 2)
    >>> with without_caches(layer):
    ...     small = layer(x[:2], torch.tensor([[0], [1]]))
    >>> layer(x, torch.tensor([[0, 1], [1, 2]])).shape
    torch.Size([3, 2])
    """
    changed = [(vars(module), _kept(module)) for module in model.modules()]
    for attributes, kept in changed:
        # PyG's layers use what they keep even where `cached` is False
        attributes.update({name: False if name == "cached" else None for name in kept})
    try:
        yield
    finally:
        for attributes, kept in changed:
            attributes.update(kept)


def _kept(module: torch.nn.Module) -> dict[str, Any]:
    """The attributes of a layer of PyG, or of ours, that are about keeping."""
    attributes = vars(module)
    if not isinstance(attributes.get("cached"), bool):
        return {}
    return {name: value for name, value in attributes.items() if name == "cached" or name.startswith("_cached_")}

"""Whether a layer has to be called as a whole."""

from __future__ import annotations

import torch


def is_watched(layer: torch.nn.Module) -> bool:
    """Whether someone hooked ``layer`` to see its input, output or gradients, which a part of it would not show.

    >>> layer = torch.nn.Linear(2, 2)
    >>> handle = layer.register_forward_hook(print)
    >>> is_watched(layer), handle.remove(), is_watched(layer)
    (True, None, False)
    """
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return any(hooks)

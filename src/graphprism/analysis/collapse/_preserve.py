"""A model may be run for a look at it, and be found as it was."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.parameter import is_lazy


@contextmanager
def preserved(model: Module) -> Iterator[None]:
    """Restores attributes (mode, hooks, caches), buffers and random numbers on leaving, also by an exception.

    Values and gradients of parameters are not touched by a forward pass, nor by `torch.autograd.grad`.
    """
    tensors = [*model.parameters(), *model.buffers()]
    if any(is_lazy(value) for value in tensors):
        raise ValueError("`model` must be initialised, got lazy parameters: run it once before")
    saved = [(module, _copy_of_attributes(module)) for module in model.modules()]
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices={tensor.device for tensor in tensors if tensor.is_cuda}):
        try:
            _replace_buffers(model)
            yield
        finally:
            for module, attributes in saved:
                _restore(module, attributes)
            np.random.set_state(numpy_state)
            random.setstate(python_state)


def _copy_of_attributes(module: Module) -> dict[str, Any]:
    """Attributes by name, each with a copy of its items if it is a dict or a list."""
    return {name: (value, _items(value)) for name, value in vars(module).items()}


def _items(value: Any) -> Any:
    return value.copy() if isinstance(value, (dict, list)) else None


def _replace_buffers(model: Module) -> None:
    """Lets the run write into copies. Writing the old values back would disturb graphs that wait for backward."""
    copies: dict[Tensor, Tensor] = {}
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = copies.setdefault(buffer, buffer.clone())


def _restore(module: Module, attributes: dict[str, Any]) -> None:
    for name in [name for name in vars(module) if name not in attributes]:
        del vars(module)[name]
    for name, (value, items) in attributes.items():
        vars(module)[name] = value
        # In place: a handle of a hook finds the dict of hooks by identity.
        if isinstance(value, dict):
            value.clear()
            value.update(items)
        elif isinstance(value, list):
            value[:] = items

"""The one place that picks between the sorted and the unsorted form of an op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch


def choose(implementations: Mapping[str, Callable[..., Any]], impl: str | None) -> Callable[..., Any]:
    """The implementation asked for, or the best one here; one that is asked for and missing raises.

    The sorted form is several times faster wherever it runs. `torch.compile` fuses the unsorted one and `torch.func`
    can only transform that one.
    """
    if impl is None:
        impl = "scatter" if torch.compiler.is_compiling() or inside_functorch() else "csr"
    if impl not in implementations:
        raise ValueError(f"`impl` must be one of {sorted(implementations)} on this machine, got {impl!r}")
    return implementations[impl]


def only_vmap() -> bool:
    """Whether `torch.vmap` alone is at work: then, and only then, all runs can be handed to one function at once.

    The other transforms of `torch.func`, and `torch.compile`, must see plain operations.
    """
    if torch.compiler.is_compiling():
        return False
    stack = torch._C._functorch.get_interpreter_stack() or []
    return [each.key() for each in stack] == [torch._C._functorch.TransformType.Vmap]


def inside_functorch() -> bool:
    """Whether `torch.vmap` or another transform of `torch.func` is at work."""
    return torch._C._functorch.peek_interpreter_stack() is not None

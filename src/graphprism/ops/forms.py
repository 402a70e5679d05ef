"""The forms of an op that comes with kernels."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType


class Forms(dict[str, ModuleType]):
    """The readable form of an op by the name ``reference`` and, where they can be had, its kernels as ``triton``.

    Args:
        reference: The module that holds the readable form.
    """

    def __init__(self, reference: ModuleType) -> None:
        super().__init__(reference=reference)

    def choose(self, impl: str | None, kernels_take: Callable[[ModuleType], bool]) -> ModuleType:
        """The form asked for, or the kernels where they are and take the case, or the readable form."""
        best = "triton" if "triton" in self and kernels_take(self["triton"]) else "reference"
        if (name := impl or best) not in self:
            raise ValueError(f"`impl` must be one of {sorted(self)} on this machine, got {impl!r}")
        return self[name]

"""The forms of an op that comes with kernels."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

# It comes with PyTorch 2.8. The language of earlier ones has no tuples that a kernel could take or make.
_OLDEST_TRITON = (3, 4)


def has_recent_triton(kernels: ModuleType) -> bool:
    """Whether the Triton of a module of kernels is recent enough for the language that they are written in."""
    return tuple(int(part) for part in kernels.triton.__version__.split(".")[:2]) >= _OLDEST_TRITON


class Forms(dict[str, ModuleType]):
    """The readable form of an op by the name ``reference`` and, where they can be had, its kernels as ``triton``.

    Args:
        reference: The module that holds the readable form.
    """

    def __init__(self, reference: ModuleType) -> None:
        super().__init__(reference=reference)

    def add_kernels(self, kernels: ModuleType) -> None:
        """Takes kernels in where Triton is recent enough for them."""
        if has_recent_triton(kernels):
            self["triton"] = kernels

    def choose(self, impl: str | None, kernels_take: Callable[[ModuleType], bool]) -> ModuleType:
        """The form asked for, or the kernels where they are and take the case, or the readable form."""
        best = "triton" if "triton" in self and kernels_take(self["triton"]) else "reference"
        if (name := impl or best) not in self:
            raise ValueError(f"`impl` must be one of {sorted(self)} on this machine, got {impl!r}")
        return self[name]

"""The same row of several tensors at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.take_row import reference

IMPLEMENTATIONS: dict[str, Callable[[Sequence[Tensor], Tensor], list[Tensor]]] = {"reference": reference.take_row}
try:
    from graphprism.ops.take_row import triton
except ImportError:  # comes with PyTorch's CUDA builds, and only there
    pass
else:
    IMPLEMENTATIONS["triton"] = triton.take_row


def take_row(tensors: Sequence[Tensor], number: Tensor, *, impl: str | None = None) -> list[Tensor]:
    """Copies of row ``number`` (1,) of each tensor, whatever their shapes and types: (S, ...) -> (...).

    Without autograd. The number stays on the device, and nothing waits for it: it must be a row that all of them have.
    Tensors may be cut out of larger ones along one dimension.

    >>> import torch
    >>> take_row([torch.eye(2), torch.tensor([[True], [False]])], torch.tensor([1]))
    [tensor([0., 1.]), tensor([False])]
    """
    check_shape("number", number, [1])
    if not tensors:
        raise ValueError("`tensors` must be one at least, got none")
    name = impl or ("triton" if number.is_cuda and "triton" in IMPLEMENTATIONS else "reference")
    if name not in IMPLEMENTATIONS:
        raise ValueError(f"`impl` must be one of {sorted(IMPLEMENTATIONS)} on this machine, got {impl!r}")
    return IMPLEMENTATIONS[name](tensors, number)

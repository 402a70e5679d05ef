"""The same row of several tensors at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from torch import Tensor

from graphprism._checks import check_shape
from graphprism.ops.forms import Forms
from graphprism.ops.take_row import reference

IMPLEMENTATIONS = Forms(reference)
with suppress(ImportError):  # triton comes with PyTorch's CUDA builds, and only there
    from graphprism.ops.take_row import triton

    IMPLEMENTATIONS.add_kernels(triton)


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
    form = IMPLEMENTATIONS.choose(impl, lambda kernels: number.is_cuda)
    found: list[Tensor] = form.take_row(tensors, number)
    return found

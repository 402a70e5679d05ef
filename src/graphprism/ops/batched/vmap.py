"""Functions that process all runs of a `torch.vmap` in one call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter

from graphprism.ops.kernels import device_of


def only_vmap() -> bool:
    """Whether `torch.vmap` is the only active transform: only then one function can process all runs at once.

    The other transforms of `torch.func`, and `torch.compile`, must see plain operations.
    """
    if torch.compiler.is_compiling():
        return False
    stack = torch._C._functorch.get_interpreter_stack() or []
    return [each.key() for each in stack] == [torch._C._functorch.TransformType.Vmap]


def for_all_runs(function: type[torch.autograd.Function], *args: Any) -> Any:
    """Calls a function with its own backward pass once for all runs; `only_vmap` must hold.

    It gets every tensor with a leading dimension for runs, and returns one or several tensors with such a dimension.
    Its own backward pass is used, since autograd works below `torch.vmap`. Where all runs share all tensors, it is
    called as for one run.
    """
    if any(isinstance(arg, Tensor) and torch._C._functorch.is_batchedtensor(arg) for arg in args):
        return _AllRuns.apply(function, *args)  # type: ignore[no-untyped-call]
    with retrieve_current_functorch_interpreter().lower():
        out = _on_their_device(function, [arg[None] if isinstance(arg, Tensor) else arg for arg in args])
        return out[0] if isinstance(out, Tensor) else tuple(each[0] for each in out)


def first_runs(info: Any, in_dims: tuple[int | None, ...], args: tuple[Any, ...]) -> list[Any]:
    """Moves the dimension of runs of every tensor to the front; tensors that all runs share are expanded."""
    return [
        arg
        if not isinstance(arg, Tensor)
        else arg.movedim(dim, 0)
        if dim is not None
        else arg.expand(info.batch_size, *arg.shape)
        for arg, dim in zip(args, in_dims, strict=True)
    ]


def _on_their_device(function: Any, args: list[Any]) -> Any:
    """Applies a function; kernels start on the current device, which autograd sets for backward only."""
    with device_of(next(arg for arg in args if isinstance(arg, Tensor))):
        return function.apply(*args)


class _AllRuns(torch.autograd.Function):
    """Calls the function from within the rule of `torch.vmap`."""

    @staticmethod
    def forward(*args: Any) -> Tensor:
        raise RuntimeError("runs must come through `torch.vmap`")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """No-op: the function has its own backward pass."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], function: Any, *args: Any) -> tuple[Any, Any]:
        out = _on_their_device(function, first_runs(info, in_dims[1:], args))
        return out, 0 if isinstance(out, Tensor) else (0,) * len(out)

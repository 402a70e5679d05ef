"""Launches of compiled kernels without Triton's own inspection of every argument.

Triton specialises a kernel for properties of its arguments and compares all of them in Python before every launch: 30
to 50 us of the host, as long as a GPU takes for a small kernel. Here the same properties are compared in about 8 us.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
from torch import Tensor

# Since Triton 3.4 compiled kernels take all arguments, constants included.
_TAKES_ALL = tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 4)


class _Compiled(NamedTuple):
    kernel: Any
    constants: tuple[object, ...]  # in the order of the kernel's arguments


_COMPILED: dict[object, _Compiled] = {}


def launch(kernel: Any, grid: tuple[int, ...], arguments: tuple[Tensor | int | None, ...], **meta: object) -> None:
    """``kernel[grid](*arguments, **meta)``.

    Args:
        kernel: Function of Triton whose constants come after all other arguments.
        grid: Number of programs in each dimension.
        arguments: All arguments that are not constants.
        meta: All constants of the kernel, and options of the compiler.
    """
    device = next((each.get_device() for each in arguments if isinstance(each, Tensor)), -1)
    key = (kernel, device, *meta.values(), *map(_kind, arguments))
    if (found := _COMPILED.get(key)) is not None:
        found.kernel[(*grid, 1, 1)[:3]](*arguments, *found.constants)
        return
    compiled = kernel[grid](*arguments, **meta)
    if _TAKES_ALL and compiled is not None:  # the interpreter compiles nothing
        constants = tuple(meta[name] for name in kernel.arg_names[len(arguments) :])
        _COMPILED[key] = _Compiled(compiled, constants)


def _kind(argument: Tensor | int | None) -> object:
    """The properties that Triton specialises a kernel for.

    Of a tensor its dtype and alignment; of a number whether it is a multiple of 16, is 1, and fits 32 bits.
    """
    if isinstance(argument, Tensor):
        return argument.dtype, argument.data_ptr() % 16
    if argument is None:
        return None
    return argument % 16 == 0, argument == 1, -(2**31) <= argument < 2**31

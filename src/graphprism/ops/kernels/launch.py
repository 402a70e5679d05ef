"""Launches of compiled kernels without Triton's own inspection of every argument.

Triton compares the properties of all arguments in Python before every launch, and the driver looks up every pointer:
20 to 50 us of the host, as long as a GPU takes for a small kernel. Most arguments of our kernels belong to a graph and
never change: they are bound to the kernel once, and a launch takes 8 us.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

# Since 3.4 compiled kernels take all arguments, constants included; until 3.7 a launcher is called as below. For AMD
# GPUs Triton compiles other kernels for tensors of 2 GB and more, too: these launches are left to it.
_VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
_TAKES_ALL = _VERSION >= (3, 4) and torch.version.hip is None
_TAKES_STREAM = (3, 4) <= _VERSION <= (3, 7)


class Launch:
    """A kernel with the arguments that stay the same from launch to launch.

    A call takes the other arguments, a tensor and further ones or `None`, which come first in the kernel, and runs
    ``kernel[grid](*tensors, *fixed, **meta)``.

    Args:
        kernel: Function of Triton whose constants come after all other arguments.
        grid: Number of programs in each dimension.
        fixed: Tensors and numbers. A tensor is read where it is now, and kept.
        meta: All constants of the kernel, and options of the compiler.
    """

    def __init__(self, kernel: Any, grid: tuple[int, ...], fixed: tuple[Tensor | int, ...] = (), **meta: Any) -> None:
        self.grid = (*grid, 1, 1)[:3]
        self._kernel, self._fixed, self._meta = kernel, fixed, meta
        self._compiled: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def __call__(self, first: Tensor, *more: Tensor | None) -> None:
        """Runs the kernel on the current stream of the current device, which must be that of the tensors."""
        tensors, device = (first, *more), first.get_device()
        pointers: list[int | None] = []
        kind: list[Any] = [device]
        bits = 0
        for tensor in tensors:
            if tensor is None:
                pointers.append(None)
                kind.append(None)
            else:
                pointer = tensor.data_ptr()
                bits |= pointer
                pointers.append(pointer)
                kind.append(tensor.dtype)
                if tensor.get_device() != device:
                    bits = 1
                    break
        # Triton compiles other kernels for tensors that do not begin at a multiple of 16 bytes, and refuses those of
        # the CPU, where a pointer alone would be read
        if bits % 16:
            self._kernel[self.grid](*tensors, *self._fixed, **self._meta)
            return
        key = tuple(kind)
        found = self._compiled.get(key)
        if found is None:
            compiled = self._kernel[self.grid](*tensors, *self._fixed, **self._meta)
            if _TAKES_ALL and compiled is not None:  # the interpreter compiles nothing
                self._compiled[key] = self._keep(compiled, len(tensors))
        elif _TAKES_STREAM:
            run, function, metadata, rest = found
            stream = torch._C._cuda_getCurrentRawStream(device)
            run(*self.grid, stream, function, metadata, None, None, None, *pointers, *rest)
        else:
            compiled, rest = found
            compiled[self.grid](*pointers, *rest)

    def _keep(self, compiled: Any, num_tensors: int) -> tuple[Any, ...]:
        """What another launch needs, with pointers for the tensors that stay."""
        names = self._kernel.arg_names[num_tensors + len(self._fixed) :]
        pointers = [each.data_ptr() if isinstance(each, Tensor) else each for each in self._fixed]
        rest = (*pointers, *(self._meta[name] for name in names))
        if _TAKES_STREAM:
            return compiled.run, compiled.function, compiled.packed_metadata, rest
        return compiled, rest

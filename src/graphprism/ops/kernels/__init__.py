"""Triton kernels, one file per op; `graphprism.ops.backends` loads a file when its kernel is first chosen.

No other folder imports Triton. Nothing here catches an `ImportError` of the package itself.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch

# PyTorch 2.8 brings it. The language of earlier ones has no tuples that a kernel could take or make.
_OLDEST_TRITON = (3, 4)
_OLDEST_GPU = (7, 0)
# Written without tuples: every Triton that a supported PyTorch brings compiles these.
_WITHOUT_TUPLES = frozenset({"graphprism.ops.kernels.csr_sum"})
# They set registers of a program or multiply in parts of TF32, which Triton's compiler for AMD GPUs refuses.
_FOR_NVIDIA = frozenset(
    f"graphprism.ops.kernels.{name}" for name in ("feed_forward", "linear", "row_maps", "type_rows")
)
_NO_CHANGE = nullcontext()


def missing(module: str) -> str | None:
    """Why this machine cannot run the kernels of ``module``, as a message; `None` if it can.

    >>> missing("graphprism.ops.kernels.slot_sum") in (
    ...     None, "triton is not installed", "torch finds no CUDA device"
    ... ) or "Triton" in missing("graphprism.ops.kernels.slot_sum")
    True
    """
    return _missing(needs_tuples=module not in _WITHOUT_TUPLES, needs_nvidia=module in _FOR_NVIDIA)


@cache
def _missing(needs_tuples: bool, needs_nvidia: bool) -> str | None:
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    import triton

    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if needs_tuples and version < _OLDEST_TRITON:
        return f"Triton {'.'.join(map(str, _OLDEST_TRITON))} or later is needed, got {triton.__version__}"
    if os.environ.get("TRITON_INTERPRET") == "1":  # Triton's interpreter runs kernels on the CPU
        return None
    if not torch.cuda.is_available():
        return "torch finds no CUDA device"
    if torch.version.hip is None:
        capability = min(torch.cuda.get_device_capability(device) for device in range(torch.cuda.device_count()))
        if capability < _OLDEST_GPU:
            needed, came = ("{}.{}".format(*each) for each in (_OLDEST_GPU, capability))
            return f"Triton needs GPUs of compute capability {needed} or later, got {came}"
    elif needs_nvidia:
        return "an NVIDIA GPU is needed, got PyTorch for AMD GPUs"
    return _missing_tool()


def _missing_tool() -> str | None:
    """What Triton needs of the system to compile the functions that launch its kernels; small images lack it."""
    if os.name != "posix":  # builds of Triton for Windows bring a compiler
        return None
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return "Triton needs a C compiler, and neither gcc nor clang nor the variable CC was found"
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        return f"Triton needs Python's headers (python3-dev), and {include} has no Python.h"
    return None


class Launches(dict[Any, Any]):
    """Kernels bound to the tensors of a structure that holds this; a copy of the structure binds its own."""

    def __reduce__(self) -> tuple[type[Launches], tuple[()]]:
        return Launches, ()


def dot_precision(highest: str = "ieee") -> str:
    """The ``input_precision`` of ``tl.dot`` for float32: TF32 if PyTorch allows it, else ``highest``.

    >>> torch.get_float32_matmul_precision(), dot_precision(), dot_precision("tf32x3")
    ('highest', 'ieee', 'tf32x3')
    """
    return highest if torch.get_float32_matmul_precision() == "highest" else "tf32"


def device_of(tensor: torch.Tensor) -> AbstractContextManager[object]:
    """Makes the device of ``tensor`` the current one, on which Triton launches."""
    is_current = not tensor.is_cuda or tensor.get_device() == torch.cuda.current_device()
    return _NO_CHANGE if is_current else torch.cuda.device(tensor.device)


def packed_runs(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers of each run in a row; runs may be further apart, as columns of a larger tensor are."""
    return tensor if tensor[0].is_contiguous() else tensor.contiguous()


def rows_of_runs(table: torch.Tensor) -> torch.Tensor:
    """One contiguous row per run; booleans as bytes, which kernels can load."""
    table = table.view(torch.uint8) if table.dtype == torch.bool else table
    return table if table.stride(-1) == 1 else table.contiguous()


def ceil_div(number: int, by: int) -> int:
    """``number / by``, rounded up; ``triton.cdiv`` takes 7 us on the host.

    >>> ceil_div(7, 3), ceil_div(6, 3), ceil_div(0, 3)
    (3, 2, 0)
    """
    return -(-number // by)


def power_of_2_from(number: int) -> int:
    """The smallest power of two that is at least ``number``; ``triton.next_power_of_2`` takes 7 us on the host.

    >>> [power_of_2_from(number) for number in (1, 2, 3, 64, 65)]
    [1, 2, 4, 64, 128]
    """
    return 1 << max(0, number - 1).bit_length()

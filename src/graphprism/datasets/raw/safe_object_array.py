"""Arrays of Python objects from .npy files that hold a pickle, without trusting the pickle."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch

_DAMAGE = (pickle.UnpicklingError, AttributeError, EOFError, IndexError, KeyError, MemoryError, RuntimeError, TypeError)


def safe_object_array(path: Path) -> list[Any]:
    """Reads an .npy file of objects: dictionaries and lists of arrays and tensors, and nothing else.

    Raises:
        ValueError: It is no such file, or holds anything beside these; nothing of its choice was called.
    """
    try:
        with path.open("rb") as file:
            formats = np.lib.format
            first = formats.read_magic(file) == (1, 0)
            _, _, dtype = (formats.read_array_header_1_0 if first else formats.read_array_header_2_0)(file)
            if not dtype.hasobject:
                raise ValueError(f"it must hold objects, got {dtype}")
            return list(np.atleast_1d(_Restricted(file).load()))
    except _DAMAGE as error:
        raise ValueError(f"the file is damaged or holds more than arrays ({error})") from error


def _load_storage(content: bytes) -> Any:
    """The memory of a tensor, which is a file of torch within the pickle."""
    return torch.load(io.BytesIO(content), weights_only=True)


# All that it takes to rebuild arrays and tensors of numbers; numpy calls its parts numpy._core since version 2.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("torch._utils", "_rebuild_tensor_v2"): torch.zeros(0).__reduce_ex__(4)[0],
    ("torch.storage", "_load_from_bytes"): _load_storage,
    ("collections", "OrderedDict"): OrderedDict,
}


class _Restricted(pickle.Unpickler):
    """Gives the names above and refuses every other."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return _ALLOWED[module, name]

"""Arrays of Python objects from .npy files that hold a pickle, without trusting the pickle."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from graphprism.datasets.raw.pickled_numbers import NUMBERS
from graphprism.datasets.raw.torch_file import parse_pickle

_MAGIC = b"\x93NUMPY"
# Bytes of the length of the header, by version of the format.
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
_LONGEST_HEADER = 10_000
_DTYPE = re.compile(rb"'descr': *'([<>|=]?)([A-Za-z]\d{0,3})'")


def safe_object_array(path: Path) -> list[Any]:
    """Reads an .npy file of objects: dictionaries and lists of arrays and tensors, as arrays, and nothing else.

    Raises:
        ValueError: It is no such file, or holds anything beside these; nothing of its choice was called.
    """
    content = path.read_bytes()
    found = parse_pickle(content[_header_size(content) :])
    return found if isinstance(found, list) else [found]


def _header_size(content: bytes) -> int:
    """Bytes before the pickle; the header is looked at and not evaluated."""
    width = _LENGTH_BYTES.get(content[6] if len(content) > 6 else 0)
    if not content.startswith(_MAGIC) or width is None:
        raise ValueError("the file is damaged, it does not begin with the magic bytes of an .npy file")
    size = 8 + width + int.from_bytes(content[8 : 8 + width], "little")
    dtype = _DTYPE.search(content, 8 + width, min(size, _LONGEST_HEADER))
    if dtype is None or size > len(content):
        raise ValueError("the file is damaged, it has no header of an .npy file")
    name = dtype[2].decode()
    if name != "O":
        raise ValueError(f"it must hold objects, got {np.dtype(name) if name in NUMBERS else name}")
    return size

"""What a data set holds, in one short word."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any

from torch import Tensor

from graphprism.datasets import PackedDataset


def data_identity(dataset: PackedDataset) -> str:
    """A sha256 of all tensors and of the task: two sets with the same identity train the same.

    Notes and the checksum of a file do not count.

    >>> from graphprism.datasets import molecules
    >>> [data_identity(molecules(10)) == data_identity(molecules(number)) for number in (10, 11)]
    [True, False]
    """
    names = (field.name for field in fields(dataset) if field.name not in ("note", "sha256"))
    return digest({name: getattr(dataset, name) for name in names})


def digest(value: Any) -> str:
    """A sha256 of numbers, words and tensors in dictionaries and lists."""
    total = hashlib.sha256()
    _add(total, value)
    return total.hexdigest()


def _add(total: Any, value: Any) -> None:
    if isinstance(value, Tensor):
        total.update(f"{value.dtype} {list(value.shape)}".encode())
        total.update(value.detach().cpu().contiguous().view(-1).numpy().tobytes())
    elif isinstance(value, dict):
        total.update(f"dict {len(value)}".encode())
        for key, each in value.items():
            _add(total, key)
            _add(total, each)
    elif isinstance(value, list | tuple):
        total.update(f"list {len(value)}".encode())
        for each in value:
            _add(total, each)
    else:
        total.update(f"{type(value).__name__} {value!r};".encode())

"""Arrays, tensors and sparse matrices as described by a pickle, checked before numpy builds them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from graphprism.packed import Array, check_booleans

# Dtypes of numbers by numpy's names without byte order; object arrays are lists.
NUMBERS = frozenset(("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"))
OBJECTS = ("O", "O8", "O4")
STORAGES = {
    "BoolStorage": "b1",
    "ByteStorage": "u1",
    "CharStorage": "i1",
    "ShortStorage": "<i2",
    "IntStorage": "<i4",
    "LongStorage": "<i8",
    "HalfStorage": "<f2",
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
}
_DEEPEST = 12
_MOST_DIMENSIONS = 8


class Name(NamedTuple):
    """A global name in a pickle. A separate type, so that no tuple of the file can pass for a name."""

    module: str
    name: str


class SparseRows(NamedTuple):
    """The arrays of a scipy CSR matrix, unchecked."""

    shape: tuple[int, int]
    indptr: Array
    indices: Array
    data: Array

    def dense(self, most_cells: int) -> Array:
        """The dense matrix; duplicate entries are summed, as in scipy.

        Raises:
            ValueError: The arrays are inconsistent, or there are more than ``most_cells``.
        """
        rows, columns = self.shape
        parts = (self.indptr, self.indices, self.data)
        if any(part.ndim != 1 for part in parts) or any(part.dtype.kind not in "iu" for part in parts[:2]):
            raise ValueError("a sparse matrix must hold `indptr`, `indices` and `data`, the first two whole numbers")
        if rows * columns > most_cells:
            raise ValueError(f"a matrix must have at most {most_cells} cells, got shape [{rows}, {columns}]")
        indptr, indices = self.indptr.astype(np.int64), self.indices.astype(np.int64)
        counts = np.diff(indptr)
        whole = indptr.size == rows + 1 and indptr[0] == 0 and indptr[-1] == indices.size == self.data.size
        if not whole or bool((indptr < 0).any()) or bool((indptr > indices.size).any()) or bool((counts < 0).any()):
            raise ValueError(f"a sparse matrix of {rows} rows must name where each of them begins and ends")
        if indices.size and (indices.min() < 0 or indices.max() >= columns):
            raise ValueError(f"a sparse matrix must have columns in [0, {columns})")
        dense = np.zeros((rows, columns), np.float32)
        np.add.at(dense, (np.repeat(np.arange(rows), counts), indices), self.data.astype(np.float32))
        return dense


@dataclass(eq=False)
class Storage:
    """The storage of tensors; the reader of the enclosing file fills it in."""

    dtype: str
    size: int
    content: memoryview | None = None

    def numbers(self) -> Array:
        """The whole storage, (size,)."""
        width = np.dtype(self.dtype).itemsize
        if self.content is None or len(self.content) != self.size * width:
            raise ValueError("a tensor must come with its numbers")
        return numbers_of(self.content, self.dtype)


@dataclass(eq=False)
class PickledDtype:
    """Dtype of an array: a name of `NUMBERS`, or object."""

    name: str
    order: str = ""

    def build(self, state: Any) -> None:
        """Takes the state that the pickle gives."""
        # Version, byte order, sub-array, names of fields, fields, then sizes: only plain numbers are accepted.
        if type(state) is not tuple or len(state) < 5 or state[1] not in ("<", ">", "|", "="):
            raise ValueError("it holds an array of no known type")
        if any(part is not None for part in state[2:5]):
            raise ValueError("it holds an array of records")
        self.order = "" if state[1] in "|=" else state[1]


@dataclass(eq=False)
class PickledArray:
    """An array of numpy, complete once `build` has been called."""

    state: tuple[Any, ...] = ()

    def build(self, state: Any) -> None:
        """Takes the state that the pickle gives."""
        if type(state) is not tuple or len(state) != 5 or type(state[2]) is not PickledDtype:
            raise ValueError("it holds half an array")
        self.state = state

    def plain(self, reader: PlainValues, depth: int) -> Any:
        """The value, checked against the available bytes."""
        if not self.state:
            raise ValueError("it holds half an array")
        _, shape, dtype, by_columns, content = self.state
        count = _count(shape)
        if dtype.name in OBJECTS:
            if type(content) is not list or len(content) != count or len(shape) > 1:
                raise ValueError(f"an array of objects must be a list of {count}")
            return [reader.plain(each, depth + 1) for each in content]
        raw = reader.raw(content)
        if len(raw) != count * np.dtype(dtype.name).itemsize:
            raise ValueError(f"an array of shape {list(shape)} must hold {count} numbers of {dtype.name}")
        return numbers_of(raw, dtype.order + dtype.name).reshape(shape, order="F" if by_columns is True else "C")


@dataclass(eq=False)
class PickledTensor:
    """A tensor of torch: numbers of a storage, from an offset in steps."""

    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def plain(self, _reader: PlainValues, _depth: int) -> Array:
        """The value, checked against the available bytes."""
        numbers, count = self.storage.numbers(), _count(self.size)
        _count(self.stride)
        if len(self.size) != len(self.stride) or type(self.offset) is not int or self.offset < 0:
            raise ValueError("a tensor must have an offset and one step per dimension")
        last = self.offset + sum((size - 1) * step for size, step in zip(self.size, self.stride, strict=True))
        if count == 0:
            return np.zeros(self.size, numbers.dtype)
        # A stride of 0 repeats a number: a few bytes could fill any memory.
        if last >= numbers.size or count > numbers.size:
            raise ValueError(f"a tensor of shape {list(self.size)} must lie in its {numbers.size} numbers")
        steps = tuple(step * numbers.itemsize for step in self.stride)
        return np.lib.stride_tricks.as_strided(numbers[self.offset :], self.size, steps, writeable=False)


@dataclass(eq=False)
class PickledSparse:
    """A matrix of scipy in CSR, complete once `build` has been called."""

    state: dict[Any, Any] = field(default_factory=dict)

    def build(self, state: Any) -> None:
        """Takes the state that the pickle gives."""
        if type(state) is not dict:
            raise ValueError("it holds half a sparse matrix")
        self.state = state

    def plain(self, reader: PlainValues, depth: int) -> SparseRows:
        """The value, checked against the available bytes."""
        shape = self.state.get("_shape", self.state.get("shape"))
        parts = [self.state.get(key) for key in ("indptr", "indices", "data")]
        if type(shape) is not tuple or len(shape) != 2 or not all(type(part) is PickledArray for part in parts):
            raise ValueError("it holds half a sparse matrix")
        _count(shape)
        indptr, indices, data = (reader.plain(part, depth + 1) for part in parts)
        if not all(isinstance(part, np.ndarray) for part in (indptr, indices, data)):
            raise ValueError("a sparse matrix must hold numbers")
        return SparseRows(shape, indptr, indices, data)


def _count(shape: object) -> int:
    """Number of entries of this shape; raises for too many dimensions or sizes that overflow an address."""
    if type(shape) is not tuple or len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"an array must have at most {_MOST_DIMENSIONS} dimensions")
    if not all(type(size) is int and 0 <= size < 1 << 48 for size in shape):
        raise ValueError("an array must have sizes that are whole numbers")
    return math.prod(shape)


def numbers_of(content: bytes | memoryview, dtype: str) -> Array:
    """A view of bytes as numbers of a dtype of `NUMBERS`."""
    numbers = np.frombuffer(content, np.dtype(dtype))
    check_booleans("an array", numbers)
    return numbers


def named_storage(name: Any) -> tuple[str, Storage]:
    """Key and empty storage of a persistent id of torch: ``("storage", kind, key, place, size, ...)``."""
    if type(name) is not tuple or not 5 <= len(name) <= 6 or name[0] != "storage" or name[5:] not in ((), (None,)):
        raise ValueError("it refers to a storage that is not one of a tensor")
    _, kind, key, _, size = name[:5]
    known = type(kind) is Name and kind.name in STORAGES and type(key) is str
    if not known or type(size) is not int or size < 0:
        raise ValueError("it refers to a storage of an unknown kind")
    return key, Storage(STORAGES[kind.name], size)


def plain(value: Any, size: int) -> Any:
    """Converts the result of `PlainPickle.load` to arrays, numbers, text, and lists, tuples and dictionaries of them.

    Args:
        value: The result.
        size: Bytes of its pickle, which bound the number of values: a pickle can repeat a list by reference.
    """
    return PlainValues(size).plain(value, 0)


class PlainValues:
    """Converts the values of one pickle, and counts them."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._raw: dict[int, tuple[str, bytes]] = {}

    def plain(self, value: Any, depth: int) -> Any:
        """`plain` of a part at this depth."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise ValueError("lists within lists, or the same list again and again, are not read")
        if type(value) is list:
            return [self.plain(each, depth + 1) for each in value]
        if type(value) is tuple:
            return tuple(self.plain(each, depth + 1) for each in value)
        if type(value) is dict:
            return {key: self.plain(each, depth + 1) for key, each in value.items()}
        if type(value) in (PickledArray, PickledTensor, PickledSparse):
            return value.plain(self, depth)
        if type(value) is Storage:
            return value.numbers()
        if value is None or type(value) in (bool, int, float, str, bytes):
            return value
        raise ValueError("it holds half an array")

    def raw(self, content: Any) -> bytes:
        """The bytes of an array, which Python 2 pickled as text; text shared by several arrays is encoded once."""
        if type(content) is bytes:
            return content
        if type(content) is not str:
            raise ValueError("an array must come with its numbers")
        if id(content) not in self._raw:
            self._raw[id(content)] = content, content.encode("latin1")
        return self._raw[id(content)][1]

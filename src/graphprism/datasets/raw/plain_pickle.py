"""Pickles of numbers, read without calling anything that they name."""

from __future__ import annotations

import io
import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from graphprism.packed import Array, check_booleans


class Name(NamedTuple):
    """What a pickle names. A type of its own: a tuple of the file is never compared with one, nor hashed."""

    module: str
    name: str


# All numbers there are, by the names of numpy without their byte order; object arrays are lists.
NUMBERS = frozenset(["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
_OBJECTS = ("O", "O8", "O4")
_STORAGES = {
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


class SparseRows(NamedTuple):
    """A matrix of scipy in CSR as its arrays, unchecked."""

    shape: tuple[int, int]
    indptr: Array
    indices: Array
    data: Array

    def dense(self, most_cells: int) -> Array:
        """The matrix with its zeros; entries that come twice are added, as scipy does.

        Raises:
            ValueError: The arrays do not belong together, or there are more than ``most_cells``.
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
    """The memory of tensors; who reads the file around the pickle fills it in."""

    dtype: str
    size: int
    content: memoryview | None = None

    def numbers(self) -> Array:
        """All of it, (size,)."""
        width = np.dtype(self.dtype).itemsize
        if self.content is None or len(self.content) != self.size * width:
            raise ValueError("a tensor must come with its numbers")
        return _numbers(self.content, self.dtype)


@dataclass(eq=False)
class _Dtype:
    name: str
    order: str = ""

    def build(self, state: Any) -> None:
        # Version, byte order, sub-array, names of fields, fields, then sizes: only plain numbers are let in.
        if type(state) is not tuple or len(state) < 5 or state[1] not in ("<", ">", "|", "="):
            raise ValueError("it holds an array of no known type")
        if any(part is not None for part in state[2:5]):
            raise ValueError("it holds an array of records")
        self.order = "" if state[1] in "|=" else state[1]


@dataclass(eq=False)
class _Array:
    state: tuple[Any, ...] = ()

    def build(self, state: Any) -> None:
        if type(state) is not tuple or len(state) != 5 or type(state[2]) is not _Dtype:
            raise ValueError("it holds half an array")
        self.state = state

    def plain(self, reader: _Plain, depth: int) -> Any:
        if not self.state:
            raise ValueError("it holds half an array")
        _, shape, dtype, by_columns, content = self.state
        count = _count(shape)
        if dtype.name in _OBJECTS:
            if type(content) is not list or len(content) != count or len(shape) > 1:
                raise ValueError(f"an array of objects must be a list of {count}")
            return [reader.plain(each, depth + 1) for each in content]
        raw = reader.raw(content)
        if len(raw) != count * np.dtype(dtype.name).itemsize:
            raise ValueError(f"an array of shape {list(shape)} must hold {count} numbers of {dtype.name}")
        return _numbers(raw, dtype.order + dtype.name).reshape(shape, order="F" if by_columns is True else "C")


@dataclass(eq=False)
class _Tensor:
    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def plain(self, _reader: _Plain, _depth: int) -> Array:
        numbers, count = self.storage.numbers(), _count(self.size)
        _count(self.stride)
        if len(self.size) != len(self.stride) or type(self.offset) is not int or self.offset < 0:
            raise ValueError("a tensor must have an offset and one step per dimension")
        last = self.offset + sum((size - 1) * step for size, step in zip(self.size, self.stride, strict=True))
        if count == 0:
            return np.zeros(self.size, numbers.dtype)
        # More numbers than there are would be one of them many times: a few bytes could fill any memory.
        if last >= numbers.size or count > numbers.size:
            raise ValueError(f"a tensor of shape {list(self.size)} must lie in its {numbers.size} numbers")
        steps = tuple(step * numbers.itemsize for step in self.stride)
        return np.lib.stride_tricks.as_strided(numbers[self.offset :], self.size, steps, writeable=False)


@dataclass(eq=False)
class _Sparse:
    state: dict[Any, Any] = field(default_factory=dict)

    def build(self, state: Any) -> None:
        if type(state) is not dict:
            raise ValueError("it holds half a sparse matrix")
        self.state = state

    def plain(self, reader: _Plain, depth: int) -> SparseRows:
        shape = self.state.get("_shape", self.state.get("shape"))
        parts = [self.state.get(key) for key in ("indptr", "indices", "data")]
        if type(shape) is not tuple or len(shape) != 2 or not all(type(part) is _Array for part in parts):
            raise ValueError("it holds half a sparse matrix")
        _count(shape)
        indptr, indices, data = (reader.plain(part, depth + 1) for part in parts)
        if not all(isinstance(part, np.ndarray) for part in (indptr, indices, data)):
            raise ValueError("a sparse matrix must hold numbers")
        return SparseRows(shape, indptr, indices, data)


def _count(shape: object) -> int:
    """Entries of an array of this shape, which must be a few sizes that fit into memory addresses."""
    if type(shape) is not tuple or len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"an array must have at most {_MOST_DIMENSIONS} dimensions")
    if not all(type(size) is int and 0 <= size < 1 << 48 for size in shape):
        raise ValueError("an array must have sizes that are whole numbers")
    return math.prod(shape)


def _numbers(content: bytes | memoryview, dtype: str) -> Array:
    numbers = np.frombuffer(content, np.dtype(dtype))
    check_booleans("an array", numbers)
    return numbers


def _new_array(kind: Any, *_: Any) -> _Array:
    if type(kind) is not Name or kind != ("numpy", "ndarray"):
        raise ValueError("it holds an array of no known kind")
    return _Array()


def _new_dtype(name: Any, *_: Any) -> _Dtype:
    if type(name) is not str or (name not in NUMBERS and name not in _OBJECTS):
        raise ValueError(f"arrays must hold numbers, got {name[:20]!r}" if type(name) is str else "a type has no name")
    return _Dtype(name)


def _scalar(dtype: Any, content: Any) -> Any:
    if type(dtype) is not _Dtype or dtype.name not in NUMBERS:
        raise ValueError("it holds a scalar that is no number")
    raw = content.encode("latin1") if type(content) is str else content
    if type(raw) is not bytes or len(raw) != np.dtype(dtype.name).itemsize:
        raise ValueError("it holds half a number")
    return _numbers(raw, dtype.order + dtype.name)[0].item()


def _new_tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> _Tensor:
    if type(storage) is not Storage:
        raise ValueError("it holds a tensor without memory")
    return _Tensor(storage, offset, size, stride)


def _latin1(text: Any, encoding: Any) -> str:
    if type(text) is not str or encoding != "latin1":
        raise ValueError("it holds bytes of no known encoding")
    return text  # `_Plain.raw` makes bytes of it, once


def _new_dict(*arguments: Any) -> dict[Any, Any]:
    # A defaultdict names its factory, which only matters to who looks up what is not there.
    if arguments and (len(arguments) > 1 or type(arguments[0]) is not Name or arguments[0].name != "list"):
        raise ValueError("it holds a dictionary of no known kind")
    return {}


# What a pickle may name, and what is called in its place; numpy calls its parts numpy._core since version 2.
_CALLS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _new_array,
    ("numpy._core.multiarray", "_reconstruct"): _new_array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy._core.multiarray", "scalar"): _scalar,
    ("numpy", "dtype"): _new_dtype,
    ("torch._utils", "_rebuild_tensor_v2"): _new_tensor,
    ("_codecs", "encode"): _latin1,
    ("collections", "OrderedDict"): _new_dict,
    ("collections", "defaultdict"): _new_dict,
}
_SPARSE = {("scipy.sparse.csr", "csr_matrix"), ("scipy.sparse._csr", "csr_matrix")}
# Names that are only ever arguments.
_WORDS = {
    ("numpy", "ndarray"),
    ("__builtin__", "list"),
    ("builtins", "list"),
    *(("torch", name) for name in _STORAGES),
    *_SPARSE,
}
_LITERALS = frozenset(
    [
        "BININT",
        "BININT1",
        "BININT2",
        "INT",
        "LONG",
        "LONG1",
        "LONG4",
        "FLOAT",
        "BINFLOAT",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
    ]
)
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
# Each is the method of `PlainPickle` of that name.
_STEPS = frozenset(
    [
        "MARK",
        "EMPTY_TUPLE",
        "EMPTY_LIST",
        "EMPTY_DICT",
        "TUPLE",
        "LIST",
        "DICT",
        "APPEND",
        "APPENDS",
        "SETITEM",
        "SETITEMS",
        "GLOBAL",
        "STACK_GLOBAL",
        "REDUCE",
        "NEWOBJ",
        "BUILD",
        "BINPERSID",
    ]
)


class PlainPickle:
    """The stack and the memo of one pickle.

    A pickle is a program for a small machine whose one dangerous step is to call what the file names. This machine
    knows the steps that numbers, text, lists, tuples and dictionaries take, and calls the functions of a table above
    in place of those that the file names. Every other step and name ends it.

    Args:
        load_storage: What to make of the bytes of a storage within the pickle; None where there must be none.
        persistent: What to make of a name of memory that lies outside the pickle; None where there must be none.
    """

    def __init__(
        self,
        load_storage: Callable[[bytes], Storage] | None = None,
        persistent: Callable[[Any], Storage] | None = None,
    ) -> None:
        self._calls = dict(_CALLS)
        if load_storage is not None:
            self._calls["torch.storage", "_load_from_bytes"] = load_storage
        self._persistent = persistent
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def load(self, stream: io.BytesIO) -> Any:
        """Reads one pickle, and leaves ``stream`` behind it; `plain` makes numbers of what it gives.

        Raises:
            ValueError: It is damaged, or holds anything but numbers.
        """
        try:
            for opcode, argument, _ in pickletools.genops(stream):
                if opcode.name in _LITERALS:
                    self._stack.append(argument)
                elif opcode.name == "STOP":
                    break
                else:
                    self._step(opcode.name, argument)
            return self._stack.pop()
        except (IndexError, KeyError, TypeError, OverflowError, AttributeError) as error:
            raise ValueError(f"a step of the pickle fails, {type(error).__name__}") from error

    def _step(self, name: str, argument: Any) -> None:
        stack, memo = self._stack, self._memo
        if name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(memo[argument])
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            items = [stack.pop() for _ in range(_TUPLES[name])]
            stack.append(tuple(reversed(items)))
        elif name in _STEPS:
            getattr(self, f"_{name.lower()}")(*(() if argument is None else (argument,)))
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"it takes a step that numbers do not need, {name}")

    def _mark(self) -> None:
        self._marks.append(len(self._stack))

    def _since_mark(self) -> list[Any]:
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _empty_tuple(self) -> None:
        self._stack.append(())

    def _empty_list(self) -> None:
        self._stack.append([])

    def _empty_dict(self) -> None:
        self._stack.append({})

    def _tuple(self) -> None:
        self._stack.append(tuple(self._since_mark()))

    def _list(self) -> None:
        self._stack.append(self._since_mark())

    def _dict(self) -> None:
        items = self._since_mark()
        self._stack.append({})
        self._set(items)

    def _append(self) -> None:
        self._extend([self._stack.pop()])

    def _appends(self) -> None:
        self._extend(self._since_mark())

    def _extend(self, items: list[Any]) -> None:
        if type(self._stack[-1]) is not list:
            raise ValueError("it adds to what is no list")
        self._stack[-1].extend(items)

    def _setitem(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set([key, value])

    def _setitems(self) -> None:
        self._set(self._since_mark())

    def _set(self, items: list[Any]) -> None:
        target = self._stack[-1]
        # Keys are compared and hashed, for which numbers and text need nothing of the file.
        if type(target) is not dict or len(items) % 2 or any(type(key) not in (int, str) for key in items[::2]):
            raise ValueError("a dictionary must have numbers or text as keys")
        target.update(zip(items[::2], items[1::2], strict=True))

    def _global(self, words: str) -> None:
        module, _, name = words.partition(" ")
        self._name(module, name)

    def _stack_global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._name(module, name)

    def _name(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise ValueError("a name must be text")
        if (module, name) not in self._calls and (module, name) not in _WORDS:
            raise ValueError(f"it asks for {module[:60]}.{name[:60]}")
        self._stack.append(Name(module, name))

    def _reduce(self) -> None:
        arguments, name = self._stack.pop(), self._stack.pop()
        if type(arguments) is not tuple or type(name) is not Name or name not in self._calls:
            raise ValueError("it calls what has no name")
        self._stack.append(self._calls[name](*arguments))

    def _newobj(self) -> None:
        arguments, name = self._stack.pop(), self._stack.pop()
        if type(arguments) is not tuple or arguments or type(name) is not Name or name not in _SPARSE:
            raise ValueError("it makes an object that is no sparse matrix")
        self._stack.append(_Sparse())

    def _build(self) -> None:
        state, target = self._stack.pop(), self._stack[-1]
        if type(target) not in (_Array, _Dtype, _Sparse):
            raise ValueError("it changes what is no array")
        target.build(state)

    def _binpersid(self) -> None:
        if self._persistent is None:
            raise ValueError("it names memory outside of it")
        self._stack.append(self._persistent(self._stack.pop()))


def named_storage(name: Any) -> tuple[str, Storage]:
    """Key and memory, still empty, of a name of torch: ``("storage", kind, key, place, size, ...)``."""
    if type(name) is not tuple or not 5 <= len(name) <= 6 or name[0] != "storage" or name[5:] not in ((), (None,)):
        raise ValueError("it names memory that is none of a tensor")
    _, kind, key, _, size = name[:5]
    if (
        type(kind) is not Name
        or kind.name not in _STORAGES
        or type(key) is not str
        or type(size) is not int
        or size < 0
    ):
        raise ValueError("it names memory of no known kind")
    return key, Storage(_STORAGES[kind.name], size)


def plain(value: Any, size: int) -> Any:
    """Arrays, numbers, text, and lists, tuples and dictionaries of them, of what `PlainPickle.load` gave.

    Args:
        value: It.
        size: Bytes of its pickle. A pickle can name a list many times; written out it must not be longer than the file.
    """
    return _Plain(size).plain(value, 0)


class _Plain:
    def __init__(self, size: int) -> None:
        self._left = size
        self._raw: dict[int, tuple[str, bytes]] = {}

    def plain(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            raise ValueError("lists within lists, or the same list again and again, are not read")
        if type(value) is list:
            return [self.plain(each, depth + 1) for each in value]
        if type(value) is tuple:
            return tuple(self.plain(each, depth + 1) for each in value)
        if type(value) is dict:
            return {key: self.plain(each, depth + 1) for key, each in value.items()}
        if type(value) in (_Array, _Tensor, _Sparse):
            return value.plain(self, depth)
        if type(value) is Storage:
            return value.numbers()
        if value is None or type(value) in (bool, int, float, str, bytes):
            return value
        raise ValueError("it holds half an array")

    def raw(self, content: Any) -> bytes:
        """Python 2 had text for bytes; text that several arrays share is encoded once."""
        if type(content) is bytes:
            return content
        if type(content) is not str:
            raise ValueError("an array must come with its numbers")
        if id(content) not in self._raw:
            self._raw[id(content)] = content, content.encode("latin1")
        return self._raw[id(content)][1]

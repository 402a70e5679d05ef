"""Reads pickles of numbers without calling anything that they name."""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from typing import Any

import numpy as np

from graphprism.datasets.raw.pickled_numbers import (
    NUMBERS,
    OBJECTS,
    STORAGES,
    Name,
    PickledArray,
    PickledDtype,
    PickledSparse,
    PickledTensor,
    Storage,
    numbers_of,
)


def _new_array(kind: Any, *_: Any) -> PickledArray:
    if type(kind) is not Name or kind != ("numpy", "ndarray"):
        raise ValueError("it holds an array of an unknown class")
    return PickledArray()


def _new_dtype(name: Any, *_: Any) -> PickledDtype:
    if type(name) is not str or (name not in NUMBERS and name not in OBJECTS):
        raise ValueError(f"arrays must hold numbers, got {name[:20]!r}" if type(name) is str else "a type has no name")
    return PickledDtype(name)


def _scalar(dtype: Any, content: Any) -> Any:
    if type(dtype) is not PickledDtype or dtype.name not in NUMBERS:
        raise ValueError("it holds a scalar that is not a number")
    raw = content.encode("latin1") if type(content) is str else content
    if type(raw) is not bytes or len(raw) != np.dtype(dtype.name).itemsize:
        raise ValueError("it holds a scalar of a wrong size")
    return numbers_of(raw, dtype.order + dtype.name)[0].item()


def _new_tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> PickledTensor:
    if type(storage) is not Storage:
        raise ValueError("it holds a tensor without a storage")
    return PickledTensor(storage, offset, size, stride)


def _latin1(text: Any, encoding: Any) -> str:
    if type(text) is not str or encoding != "latin1":
        raise ValueError("it holds bytes in an encoding other than latin1")
    return text  # still as text: `PlainValues` encodes it to bytes


def _new_dict(*arguments: Any) -> dict[Any, Any]:
    # A defaultdict names its factory, which is needed for missing keys only.
    if arguments and (len(arguments) > 1 or type(arguments[0]) is not Name or arguments[0].name != "list"):
        raise ValueError("it holds a dictionary with an unknown factory")
    return {}


# Functions that a pickle may name, and those called instead; numpy.core is numpy._core since numpy 2.
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
# Names that may only be arguments.
_WORDS = {
    ("numpy", "ndarray"),
    ("__builtin__", "list"),
    ("builtins", "list"),
    *(("torch", name) for name in STORAGES),
    *_SPARSE,
}
_LITERAL_STEPS = (
    "BININT BININT1 BININT2 INT LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE "
    "SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8"
)
_OTHER_STEPS = (
    "MARK EMPTY_TUPLE EMPTY_LIST EMPTY_DICT TUPLE LIST DICT APPEND APPENDS SETITEM SETITEMS GLOBAL STACK_GLOBAL REDUCE "
    "NEWOBJ BUILD BINPERSID"
)
_LITERALS = frozenset(_LITERAL_STEPS.split())
# Each is the method of `PlainPickle` of that name.
_STEPS = frozenset(_OTHER_STEPS.split())
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class PlainPickle:
    """The stack and the memo of one pickle.

    A pickle is a program for a stack machine; its one dangerous instruction calls a function that the file names. This
    machine implements the opcodes of numbers, text, lists, tuples and dictionaries, and calls the functions of the
    table above instead of those that the file names. Any other opcode or name is an error.

    Args:
        load_storage: Converts the bytes of a storage within the pickle; None to forbid them.
        persistent: Resolves a persistent id, a storage outside the pickle; None to forbid them.
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
        """Reads one pickle and leaves ``stream`` after it; `pickled_numbers.plain` converts the result.

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
            raise ValueError(f"an opcode of the pickle fails with {type(error).__name__}") from error

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
            raise ValueError(f"it has an opcode that numbers do not need, {name}")

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
            raise ValueError("it appends to an object that is not a list")
        self._stack[-1].extend(items)

    def _setitem(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set([key, value])

    def _setitems(self) -> None:
        self._set(self._since_mark())

    def _set(self, items: list[Any]) -> None:
        target = self._stack[-1]
        # Keys are compared and hashed, which for numbers and text runs no code of the file.
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
            raise ValueError("it calls an object that is not a known function")
        self._stack.append(self._calls[name](*arguments))

    def _newobj(self) -> None:
        arguments, name = self._stack.pop(), self._stack.pop()
        if type(arguments) is not tuple or arguments or type(name) is not Name or name not in _SPARSE:
            raise ValueError("it creates an object that is not a sparse matrix")
        self._stack.append(PickledSparse())

    def _build(self) -> None:
        state, target = self._stack.pop(), self._stack[-1]
        if type(target) not in (PickledArray, PickledDtype, PickledSparse):
            raise ValueError("it changes an object that is not an array")
        target.build(state)

    def _binpersid(self) -> None:
        if self._persistent is None:
            raise ValueError("it refers to a storage outside of it")
        self._stack.append(self._persistent(self._stack.pop()))

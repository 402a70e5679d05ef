"""Checks of arguments, with one message format: what must hold, and what came."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Collection, Mapping, Sequence
from numbers import Real

import torch
from torch import Tensor

from graphprism._text import suggest

# Dtypes with arithmetic: torch only stores the 8-bit ones.
FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_tensor(name: str, value: object) -> None:
    """Raises `TypeError` unless ``value`` is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"`{name}` must be a torch.Tensor, got {type(value).__name__}")


def check_shape(name: str, tensor: Tensor, expected: Sequence[int | str]) -> None:
    """Compares sizes with ``expected``, where a string such as ``"E"`` accepts any size."""
    check_tensor(name, tensor)
    same = len(expected) == tensor.dim() and all(
        isinstance(want, str) or want == size for want, size in zip(expected, tensor.shape, strict=True)
    )
    if not same:
        raise ValueError(f"`{name}` must have shape [{', '.join(map(str, expected))}], got {list(tensor.shape)}")


def check_integer(name: str, tensor: Tensor) -> None:
    """Raises `TypeError` unless ``tensor`` holds integers."""
    if tensor.dtype not in _INTEGERS:
        raise TypeError(f"`{name}` must hold integers, got {tensor.dtype}")


def check_dense(name: str, tensor: Tensor, *, or_csr: bool = False) -> None:
    """Raises `TypeError` unless ``tensor`` is stored densely, or, with ``or_csr``, as sparse CSR."""
    if tensor.layout != torch.strided and not (or_csr and tensor.layout == torch.sparse_csr):
        must = "a dense or a sparse CSR tensor" if or_csr else "a dense tensor"
        raise TypeError(f"`{name}` must be {must}, got the layout {tensor.layout}")


def check_floating(name: str, tensor: Tensor) -> None:
    """Raises `TypeError` unless ``tensor`` holds floating-point numbers."""
    if tensor.dtype not in FLOATS:
        raise TypeError(f"`{name}` must hold floating-point numbers of 16 to 64 bits, got {tensor.dtype}")


def check_same_device(name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
    """Raises `ValueError` unless both tensors are on one device."""
    if tensor.device != other.device:
        raise ValueError(
            f"`{name}` and `{other_name}` must be on the same device, got {tensor.device} and {other.device}"
        )


def check_range(name: str, tensor: Tensor, stop: int | None) -> None:
    """Raises `ValueError` unless every entry is in ``[0, stop)``, or not negative if ``stop`` is `None`.

    Reads the values, which is a host-device sync on a GPU: keep it out of hot paths.
    """
    check_ranges({name: (tensor, stop)})


def check_ranges(wanted: Mapping[str, tuple[Tensor, int | None]]) -> None:
    """`check_range` for several tensors of one device, with one host-device sync."""
    filled = {name: (tensor, stop) for name, (tensor, stop) in wanted.items() if tensor.numel() > 0}
    if not filled:
        return
    bounds = torch.stack([bound for tensor, _ in filled.values() for bound in torch.aminmax(tensor)]).tolist()
    for (name, (_, stop)), low, high in zip(filled.items(), bounds[::2], bounds[1::2], strict=True):
        if low < 0 or (stop is not None and high >= stop):
            range_ = "that are not negative" if stop is None else f"in [0, {stop})"
            raise ValueError(f"`{name}` must hold numbers {range_}, got {int(low if low < 0 else high)}")


def check_no_nan(name: str, tensor: Tensor) -> None:
    """Raises `ValueError` if a floating-point tensor holds NaN. Reads the values: keep it out of hot paths."""
    if tensor.is_floating_point() and bool(tensor.isnan().any()):
        count = int(tensor.isnan().sum())
        raise ValueError(f"`{name}` must not hold NaN, got {count} NaN among {tensor.numel()} values")


def guard_ranges(wanted: Mapping[str, tuple[Tensor, int]]) -> None:
    """`check_ranges` for a hot path: the same error on the CPU; on a CUDA device an assertion, without a sync.

    The assertion is a kernel in the current stream, also during capture. If it fails, the CUDA context is lost before
    any later kernel of the stream starts, so that nothing is read or written out of range; the error is raised at the
    next sync. A no-op under `torch.compile` and on the meta device; compiled operations check their own indices.
    """
    if torch.compiler.is_compiling():
        return
    filled = {name: (tensor, stop) for name, (tensor, stop) in wanted.items() if tensor.numel() > 0}
    if any(tensor.is_meta for tensor, _ in filled.values()):
        return
    if not any(tensor.is_cuda for tensor, _ in filled.values()):
        check_ranges(filled)
        return
    for name, (tensor, stop) in filled.items():
        torch._assert_async(_all_in_range(tensor, stop), f"`{name}` must hold numbers in [0, {stop})")


def _all_in_range(tensor: Tensor, stop: int) -> Tensor:
    """Whether all numbers are in [0, stop), a boolean tensor: three kernels, one fewer than by comparisons."""
    if stop < 1:  # no number is; `clamp` with bounds that cross would return the upper one
        return tensor.new_zeros((), dtype=torch.bool)
    # a bound beyond the range of the dtype cannot be compared in it, and holds for every entry
    return (tensor.clamp(0, min(stop - 1, torch.iinfo(tensor.dtype).max)) == tensor).all()


def check_channels(name: str, tensor: Tensor, channels: int) -> None:
    """Raises `ValueError` unless the last dimension of ``tensor`` is ``channels``."""
    if tensor.dim() == 0 or tensor.size(-1) != channels:
        came = tensor.size(-1) if tensor.dim() else "a scalar"
        raise ValueError(f"`{name}` must have {channels} channels, got {came} in shape {list(tensor.shape)}")


def check_dtype(name: str, tensor: Tensor, dtype: torch.dtype, owner: str) -> None:
    """Raises `TypeError` unless ``tensor`` has the dtype of ``owner``; autocast casts both."""
    if tensor.dtype != dtype and (tensor.is_meta or not torch.is_autocast_enabled(tensor.device.type)):
        raise TypeError(f"`{name}` must be {dtype} as {owner}, got {tensor.dtype}")


def check_whole(name: str, value: object, least: int = 0) -> None:
    """Raises unless ``value`` is a whole number of any integer type, and at least ``least``."""
    if isinstance(value, bool):
        raise TypeError(f"`{name}` must be a whole number, got {value}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"`{name}` must be a whole number, got {value!r}") from None
    if number < least:
        raise ValueError(f"`{name}` must be at least {least}, got {number}")
    if number >= 1 << 62:  # products of two such numbers, and tensors that hold one, would overflow
        raise ValueError(f"`{name}` must be below 2^62, got {number}")


def check_flag(name: str, value: object) -> None:
    """Raises `TypeError` unless ``value`` is a boolean."""
    if not isinstance(value, bool):
        raise TypeError(f"`{name}` must be True or False, got {value!r}")


def check_positive(name: str, value: object) -> None:
    """Raises unless ``value`` is a whole number of at least one."""
    check_whole(name, value, least=1)


def check_number(name: str, value: object, must: str = "a finite number") -> float:
    """Raises `TypeError` unless ``value`` is a real number; returns it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"`{name}` must be {must}, got {value!r}")
    return float(value)


def check_finite_number(name: str, value: object, least: float | None = None) -> None:
    """Raises unless ``value`` is a finite real number, and at least ``least``."""
    must = "a finite number" if least is None else f"a finite number of at least {least:g}"
    number = check_number(name, value, must)
    if not math.isfinite(number):
        raise ValueError(f"`{name}` must be {must}, got {value!r}")
    if least is not None and number < least:
        raise ValueError(f"`{name}` must be at least {least:g}, got {value!r}")


def check_share(name: str, value: object, *, below_one: bool = False) -> None:
    """Raises unless ``value`` is a number in [0, 1], or in [0, 1) with ``below_one``."""
    must = "in [0, 1)" if below_one else "in [0, 1]"
    number = check_number(name, value, must)
    if not 0 <= number <= 1 or (below_one and number == 1):
        raise ValueError(f"`{name}` must be {must}, got {value!r}")


def check_choice(name: str, value: object, allowed: Collection[object]) -> None:
    """Raises `ValueError`, with the nearest name, unless ``value``, which may be unhashable, is in ``allowed``."""
    # a tuple: `in` on a mapping raises for an unhashable value
    if not any(type(value) is type(each) and value == each for each in tuple(allowed)):
        close = suggest(value, [each for each in allowed if isinstance(each, str)]) if isinstance(value, str) else ""
        raise ValueError(f"`{name}` must be one of {list(allowed)}, got {value!r}{close}")


def check_type(name: str, value: object, kind: type | tuple[type, ...], must: str) -> None:
    """Raises `TypeError` unless ``value`` is of ``kind``, which ``must`` describes."""
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` must be {must}, got {type(value).__name__}")


def check_homogeneous(name: str, data: object) -> None:
    """Raises `TypeError` for a graph with several types of nodes or edges, or of NetworkX."""
    if type(data).__module__.partition(".")[0] == "networkx":
        way = "`torch_geometric.utils.from_networkx` makes one"
        raise TypeError(f"`{name}` must be a torch_geometric Data, got a graph of NetworkX: {way}")
    if hasattr(data, "to_homogeneous"):
        way = f"`{name}.to_homogeneous()` gives one, with the types of edges as `edge_type`"
        raise TypeError(f"`{name}` must be a torch_geometric Data, got {type(data).__name__}: {way}")


def check_path(name: str, value: object) -> None:
    """Raises `TypeError` unless ``value`` is a name or a path."""
    check_type(name, value, (str, os.PathLike), "a name or a path")


def check_function(name: str, value: object, must: str) -> None:
    """Raises `TypeError` unless ``value`` can be called."""
    if not callable(value):
        raise TypeError(f"`{name}` must be {must}, got {value!r}")


def check_optional_whole(name: str, value: object, least: int = 1) -> None:
    """Raises unless ``value`` is `None` or a whole number of at least ``least``."""
    try:
        if value is not None:
            check_whole(name, value, least)
    except TypeError:
        raise TypeError(f"`{name}` must be None or a whole number, got {value!r}") from None
    except ValueError:
        raise ValueError(f"`{name}` must be None or at least {least}, got {value!r}") from None


def check_sizes(name: str, value: object) -> tuple[int, int]:
    """Two numbers of nodes, (sources, targets); raises unless both are whole numbers that are not negative."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"`{name}` must be a pair of whole numbers, got {value!r}")
    for each in value:
        check_whole(name, each)
    return operator.index(value[0]), operator.index(value[1])

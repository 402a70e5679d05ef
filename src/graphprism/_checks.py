"""Checks on tensors that come from outside, with one message format: what must hold, and what came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

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


def check_floating(name: str, tensor: Tensor) -> None:
    """Raises `TypeError` unless ``tensor`` holds floating-point numbers."""
    if not tensor.is_floating_point():
        raise TypeError(f"`{name}` must hold floating-point numbers, got {tensor.dtype}")


def check_same_device(name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
    """Raises `ValueError` unless both tensors are on one device."""
    if tensor.device != other.device:
        raise ValueError(
            f"`{name}` and `{other_name}` must be on the same device, got {tensor.device} and {other.device}"
        )


def check_range(name: str, tensor: Tensor, stop: int | None) -> None:
    """Raises `ValueError` unless every entry is in ``[0, stop)``, or not negative if ``stop`` is `None`.

    Looks at the values: keep it out of hot paths.
    """
    check_ranges({name: (tensor, stop)})


def check_ranges(wanted: Mapping[str, tuple[Tensor, int | None]]) -> None:
    """`check_range` for several tensors of one device, which is waited for once."""
    filled = {name: (tensor, stop) for name, (tensor, stop) in wanted.items() if tensor.numel() > 0}
    if not filled:
        return
    bounds = torch.stack([bound for tensor, _ in filled.values() for bound in torch.aminmax(tensor)]).tolist()
    for (name, (_, stop)), low, high in zip(filled.items(), bounds[::2], bounds[1::2], strict=True):
        if low < 0 or (stop is not None and high >= stop):
            range_ = "that are not negative" if stop is None else f"in [0, {stop})"
            raise ValueError(f"`{name}` must hold numbers {range_}, got {int(low if low < 0 else high)}")


def check_no_nan(name: str, tensor: Tensor) -> None:
    """Raises `ValueError` if a floating-point tensor holds NaN. Looks at the values: keep it out of hot paths."""
    if tensor.is_floating_point() and bool(tensor.isnan().any()):
        count = int(tensor.isnan().sum())
        raise ValueError(f"`{name}` must not hold NaN, got {count} NaN among {tensor.numel()} values")


def check_positive(name: str, value: int) -> None:
    """Raises `ValueError` unless ``value`` is at least one."""
    if value < 1:
        raise ValueError(f"`{name}` must be at least 1, got {value}")

"""Counter-based random numbers: stateless, so that results do not depend on processes or their order."""

from __future__ import annotations

import torch
from torch import Tensor

# The constants of SplitMix64 (Steele, Lea, Flood 2014), whose output passes the usual statistical test suites.
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_BITS = 0xFFFFFFFFFFFFFFFF


def mixed_key(*words: int) -> int:
    """A 64-bit hash of whole numbers, as a signed integer; it depends on their order.

    >>> mixed_key(0, 1) == mixed_key(1, 0)
    False
    """
    key = 0
    for word in words:
        key = (key ^ (word & _BITS)) + _GOLDEN & _BITS
        key = (key ^ key >> 30) * _FIRST & _BITS
        key = (key ^ key >> 27) * _SECOND & _BITS
        key ^= key >> 31
    return _signed(key)


def mix(key: int | Tensor, word: Tensor) -> Tensor:
    """Adds one word to a `mixed_key`, vectorised: int64 keys and words -> int64 hashes."""
    mixed = (word ^ key) + _signed(_GOLDEN)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        mixed ^= _shifted(mixed, shift)
        mixed *= _signed(factor)
    return mixed.bitwise_xor_(_shifted(mixed, 31))


def below(bits: Tensor, bound: int | Tensor) -> Tensor:
    r"""Whole numbers in [0, ``bound``) from random bits: :math:`\lfloor u b / 2^{32} \rfloor`, u the upper 32 bits.

    The relative bias of a probability is below :math:`b / 2^{32}`; ``bound`` must be below :math:`2^{31}`.

    >>> bits = mix(mixed_key(7), torch.arange(10_000))
    >>> below(bits, 5).unique().tolist()
    [0, 1, 2, 3, 4]
    """
    return (_shifted(bits, 32) * bound) >> 32


def permutation(key: int, count: int) -> Tensor:
    """A permutation of 0..count-1 that depends on ``key`` only, on the CPU.

    >>> permutation(3, 5).sort().values.tolist()
    [0, 1, 2, 3, 4]
    """
    return torch.randperm(count, generator=torch.Generator().manual_seed(key))


def _shifted(bits: Tensor, shift: int) -> Tensor:
    """Logical right shift; torch's is arithmetic."""
    return (bits >> shift).bitwise_and_((1 << 64 - shift) - 1)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number

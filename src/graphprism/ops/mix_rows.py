"""Mixtures of a few long rows: the matrices of relations out of what they have in common and their deviations."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphprism.ops.backends import Backends, is_batched

# Most rows that the kernel mixes: it reads all of them for each row that it writes, in a loop that is unrolled.
_MOST_TERMS = 16


def product(left: Tensor, rows: Tensor, added: Tensor | None = None) -> Tensor:
    """The definition, ``left @ rows + added`` with the rows flattened, as a product of matrices."""
    flat = rows.reshape(rows.size(0), math.prod(rows.shape[1:]))  # batched gradients have no `flatten`
    if added is None:
        flat = torch.mm(left, flat)
    elif left.is_cuda:  # where `addmm` searches for a kernel in each call: 85 us of the host, `mm` and a sum take 70
        flat = torch.mm(left, flat) + added.reshape(1, -1)
    else:
        flat = torch.addmm(added.reshape(1, -1), left, flat)
    return flat.view(left.size(0), *rows.shape[1:])


BACKENDS = Backends(automatic="product", product=product, triton="graphprism.ops.kernels.mix_rows:mix_rows")


def mix_rows(left: Tensor, rows: Tensor, added: Tensor | None = None) -> Tensor:
    """``left @ rows + added`` without autograd: (S, K), (K, ...), (...) -> (S, ...)."""
    mixed = BACKENDS.choose(None, rows.device, lambda _: rows.size(0) <= _MOST_TERMS and not is_batched(rows))
    found: Tensor = mixed(left, rows, added)
    return found


def mix(common: Tensor, deviation: Tensor, columns: Tensor) -> Tensor:
    """A tensor for each relation out of what they have in common and their deviations.

    What they have in common is added in full precision, whatever a product of matrices is rounded to.

    Shapes: ``common`` (...), ``deviation`` (R - 1, ...), ``columns`` (R, R - 1) -> (R, ...)

    >>> mix(torch.tensor([10.0, 20.0]), torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0], [-1.0]])).tolist()
    [[11.0, 22.0], [9.0, 18.0]]
    """
    return product(columns, deviation, common)

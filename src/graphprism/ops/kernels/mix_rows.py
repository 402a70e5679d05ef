"""`mix_rows` as a Triton kernel, which starts sooner than a product of matrices."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphprism.ops.kernels import Launches, ceil_div, device_of
from graphprism.ops.kernels.launch import Launch

# Numbers that one program writes.
_BLOCK = 512
# By sizes; they hold no tensor.
_LAUNCHES = Launches()


@triton.jit
def _mix_kernel(
    left, rows, added, out, numbers,
    TERMS: tl.constexpr, HAS_ADDED: tl.constexpr, SUM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, inside = tl.program_id(1), place < numbers
    total = tl.zeros((BLOCK,), dtype=SUM)
    for term in tl.static_range(TERMS):
        factor = tl.load(left + row * TERMS + term).to(SUM)
        total += factor * tl.load(rows + term * numbers + place, mask=inside, other=0.0).to(SUM)
    if HAS_ADDED:
        total += tl.load(added + place, mask=inside, other=0.0).to(SUM)
    tl.store(out + row * numbers + place, total.to(out.dtype.element_ty), mask=inside)


def mix_rows(left: Tensor, rows: Tensor, added: Tensor | None = None) -> Tensor:
    """``left @ rows + added``: (S, K), (K, ...), (...) -> (S, ...)."""
    left, rows = left.contiguous(), rows.contiguous()
    added = None if added is None else added.contiguous()
    out = rows.new_empty(left.size(0), *rows.shape[1:])
    if out.numel() == 0:
        return out
    numbers, has_added = out.stride(0), added is not None
    key = (*left.shape, numbers, has_added, rows.dtype)
    if (launch := _LAUNCHES.get(key)) is None:
        launch = _LAUNCHES[key] = Launch(
            _mix_kernel, (ceil_div(numbers, _BLOCK), left.size(0)), (numbers,), TERMS=left.size(1),
            HAS_ADDED=has_added, SUM=tl.float64 if rows.dtype == torch.float64 else tl.float32, BLOCK=_BLOCK,
        )  # fmt: skip
    with device_of(rows):
        launch(left, rows, added, out)
    return out

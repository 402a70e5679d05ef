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
    out, rows, left, added, numbers,
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


def mix_rows(left: Tensor, rows: Tensor, added: Tensor | None = None, launches: Launches | None = None) -> Tensor:
    """``left @ rows + added``: (S, K), (K, ...), (...) -> (S, ...).

    ``launches`` holds the kernels bound to ``left`` and ``added``, which are used while a call brings these tensors:
    that takes half of the host's time.
    """
    key = "mix" if added is None else "mix and add"
    bound = None if launches is None else launches.get(key)
    if bound is not None and bound.fits(left, rows, added):
        out: Tensor = bound(rows)
        return out
    left, rows = left.contiguous(), rows.contiguous()
    added = None if added is None else added.contiguous()
    out = rows.new_empty(left.size(0), *rows.shape[1:])
    if out.numel() == 0:
        return out
    sizes = (*left.shape, out.stride(0), added is not None, rows.dtype)
    if (launch := _LAUNCHES.get(sizes)) is None:
        launch = _LAUNCHES[sizes] = _launch(left, rows, added)
    with device_of(rows):
        launch(out, rows, left, added)
    if launches is not None:
        launches[key] = _Bound(left, rows, added)
    return out


def _launch(left: Tensor, rows: Tensor, added: Tensor | None, *fixed: Tensor | None) -> Launch:
    numbers = rows.stride(0)
    return Launch(
        _mix_kernel, (ceil_div(numbers, _BLOCK), left.size(0)), (*fixed, numbers),
        TERMS=left.size(1), HAS_ADDED=added is not None,
        SUM=tl.float64 if rows.dtype == torch.float64 else tl.float32, BLOCK=_BLOCK,
    )  # fmt: skip


class _Bound:
    """The kernel with the tensors that stay the same while a layer is trained: all but the rows.

    They are kept, so that no other tensor takes their place in memory while pointers to it are launched.
    """

    def __init__(self, left: Tensor, rows: Tensor, added: Tensor | None) -> None:
        self._left, self._added = left.detach(), None if added is None else added.detach()
        self._pointers = (left.data_ptr(), None if added is None else added.data_ptr())
        self._dtype, self._shape, self._device = rows.dtype, rows.shape, rows.get_device()
        self._size = (left.size(0), *rows.shape[1:])
        self._launch = _launch(left, rows, added, self._left, self._added)

    def fits(self, left: Tensor, rows: Tensor, added: Tensor | None) -> bool:
        """Whether a call brings the tensors that were bound, and rows like the first ones."""
        return (
            self._pointers == (left.data_ptr(), None if added is None else added.data_ptr())
            and rows.shape == self._shape
            and rows.dtype == self._dtype
            and rows.get_device() == self._device
            and rows.is_contiguous()
            and (added is None or (added.dtype == self._dtype and added.is_contiguous()))
        )

    def __call__(self, rows: Tensor) -> Tensor:
        out = rows.new_empty(self._size)
        with device_of(rows):
            self._launch(out, rows)
        return out

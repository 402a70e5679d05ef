"""Rows of several tensors, and the kernel that takes them against the reference.

`TRITON_INTERPRET=1` runs the kernel on the CPU, where triton is installed.
"""

import os

import pytest
import torch

from graphprism.ops.batched.step import TAKE_ROW, take_row

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DTYPES = torch.float32, torch.int32, torch.bool, torch.int64, torch.float64, torch.bfloat16, torch.uint8
# whole rows, rows cut in the middle or at the end, rows of one number, more than a program takes
SHAPES = [(4, 3, 7, 2), (4, 3, 7), (4, 3, 5, 9), (4, 1), (4, 3), (4, 2, 700, 3), (4, 1, 1, 20)]


def make(runs_cut, device="cpu"):
    found = []
    for number, shape in enumerate(SHAPES):
        whole = torch.arange(torch.Size(shape).numel()).view(shape) % 251
        found.append((whole % 2 == 0 if number == 2 else whole).to(device, DTYPES[number]))
    return [each[:, :, :runs_cut] if each.dim() > 2 else each for each in found] + [found[2][..., :4]]


def test_rows_are_copies():
    tensors = make(5)
    for number in range(4):
        rows = take_row(tensors, torch.tensor([number]))
        for row, tensor in zip(rows, tensors, strict=True):
            assert row.equal(tensor[number])
            assert row.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()


def test_bad_input():
    with pytest.raises(ValueError, match=r"`number` must have shape \[1\], got \[\]"):
        take_row(make(5), torch.tensor(1))
    with pytest.raises(ValueError, match="`tensors` must be one at least, got none"):
        take_row([], torch.tensor([1]))
    with pytest.raises(ValueError, match=r"`impl` must be one of .* on this machine, got 'fused'"):
        take_row(make(5), torch.tensor([1]), impl="fused")


class TestKernel:
    pytestmark = [] if INTERPRETED else [pytest.mark.gpu]

    @pytest.fixture
    def device(self):
        if "triton" not in TAKE_ROW:
            pytest.skip("the kernels of Triton cannot run on this machine")
        return "cpu" if INTERPRETED else "cuda"

    @pytest.mark.parametrize("length", [1, 5, 700])
    @pytest.mark.parametrize("number", [0, 3])
    def test_equals_the_reference(self, number, length, device):
        tensors, turn = make(length, device), torch.tensor([number], device=device)
        rows = take_row(tensors, turn, impl="triton")
        for row, tensor in zip(rows, tensors, strict=True):
            assert row.dtype == tensor.dtype
            assert row.is_contiguous()
            assert row.equal(tensor[number])

    def test_rows_that_are_no_lines_are_an_error(self, device):
        turned = torch.zeros(4, 3, 5, 7, device=device)[:, :, :4, :6]
        with pytest.raises(ValueError, match="a row must be lines of one distance, got strides"):
            take_row([turned], torch.tensor([1], device=device), impl="triton")

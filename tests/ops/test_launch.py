"""Compiled kernels that are launched again: never one that Triton would specialise differently."""

import copy
import importlib
import pickle
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton")
from graphprism.ops.kernels import Launches
from graphprism.ops.kernels import launch as module
from graphprism.ops.kernels.launch import Launch

NUMBERS, FIXED = torch.zeros(64), torch.ones(3)


class Kernel:
    """Stands for a kernel of Triton: notes the arguments of each compilation and of all later launches."""

    arg_names = ("table", "other", "fixed", "size", "FIRST", "SECOND")

    def __init__(self):
        self.compiled, self.launched = [], []

    def __getitem__(self, grid):
        def compile_and_run(*arguments, **meta):
            self.compiled.append((grid, arguments, meta))
            return Compiled(self)

        return compile_and_run


class Compiled:
    function, packed_metadata = "function", "metadata"

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return lambda *arguments: self.kernel.launched.append((grid, arguments))

    def run(self, *arguments):
        assert arguments[3:9] == ("stream", "function", "metadata", None, None, None)
        self.kernel.launched.append((arguments[:3], arguments[9:]))


@pytest.fixture(params=[True, False], ids=["with a stream", "without"])
def kernel(monkeypatch, request):
    monkeypatch.setattr(module, "_TAKES_ALL", True)
    monkeypatch.setattr(module, "_TAKES_STREAM", request.param)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: "stream", raising=False)
    return Kernel()


def bound(kernel):
    return Launch(kernel, (3, 2), (FIXED, 48), SECOND="b", FIRST="a", num_warps=4)


def test_second_launch_passes_pointers_and_constants_in_the_order_of_the_kernel(kernel):
    launch = bound(kernel)
    for _ in range(2):
        launch(NUMBERS, None)
    ((grid, arguments, meta),) = kernel.compiled
    assert grid == (3, 2, 1)
    assert arguments[0] is NUMBERS
    assert arguments[2] is FIXED
    assert meta == {"SECOND": "b", "FIRST": "a", "num_warps": 4}
    assert kernel.launched == [((3, 2, 1), (NUMBERS.data_ptr(), None, FIXED.data_ptr(), 48, "a", "b"))]


@pytest.mark.parametrize("other", [(NUMBERS.double(), None), (NUMBERS, NUMBERS), (NUMBERS, NUMBERS.double())], ids=str)
def test_other_kinds_are_compiled_anew(kernel, other):
    launch = bound(kernel)
    launch(NUMBERS, None)
    launch(*other)
    assert len(kernel.compiled) == 2
    assert not kernel.launched
    launch(*other)
    assert len(kernel.compiled) == 2
    assert len(kernel.launched) == 1


def test_tensors_that_begin_between_multiples_of_16_bytes_are_left_to_triton(kernel):
    launch = bound(kernel)
    for tensor in (NUMBERS, NUMBERS[1:], NUMBERS[1:], NUMBERS):
        launch(tensor, None)
    assert len(kernel.compiled) == 3
    assert len(kernel.launched) == 1


def test_tensors_of_another_device_are_left_to_triton(kernel):
    launch = bound(kernel)
    other = SimpleNamespace(get_device=lambda: 1, data_ptr=NUMBERS.data_ptr, dtype=NUMBERS.dtype)
    for tensor in (NUMBERS, other, other, NUMBERS):
        launch(NUMBERS, tensor)
    assert len(kernel.compiled) == 3
    assert len(kernel.launched) == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda found: pickle.loads(pickle.dumps(found))])
def test_copies_of_a_structure_bind_their_own_tensors(copied):
    found = copied({"launches": Launches(key=bound(Kernel()))})
    assert found == {"launches": {}}
    assert isinstance(found["launches"], Launches)


def test_amd_gpus_are_left_to_triton(monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.4")
    try:
        assert not importlib.reload(module)._TAKES_ALL
        kernel = Kernel()
        launch = module.Launch(kernel, (3, 2), (FIXED, 48), SECOND="b", FIRST="a")
        for _ in range(2):
            launch(NUMBERS, None)
        assert len(kernel.compiled) == 2
    finally:
        monkeypatch.undo()
        importlib.reload(module)

"""Compiled kernels that are launched again: never one that Triton would specialise differently."""

import pytest
import torch

pytest.importorskip("triton")
from graphprism.ops.kernels import launch as module
from graphprism.ops.kernels.launch import launch

NUMBERS = torch.zeros(64)


class Kernel:
    """Stands for a kernel of Triton: each compiled one notes its launches."""

    arg_names = ("table", "other", "size", "FIRST", "SECOND")

    def __init__(self):
        self.compiled = []

    def __getitem__(self, grid):
        def compile_and_run(*arguments, **meta):
            self.compiled.append(Compiled())
            return self.compiled[-1]

        return compile_and_run


class Compiled:
    def __init__(self):
        self.launches = []

    def __getitem__(self, grid):
        return lambda *arguments: self.launches.append((grid, arguments))


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(module, "_COMPILED", {})
    monkeypatch.setattr(module, "_TAKES_ALL", True)
    return Kernel()


def test_second_launch_passes_constants_in_the_order_of_the_kernel(kernel):
    for size in (48, 96):
        launch(kernel, (3, 2), (NUMBERS, None, size), SECOND="b", FIRST="a", num_warps=4)
    (compiled,) = kernel.compiled
    ((grid, arguments),) = compiled.launches
    assert grid == (3, 2, 1)
    assert arguments[0] is NUMBERS
    assert arguments[1:] == (None, 96, "a", "b")


@pytest.mark.parametrize(
    "changed",
    [
        {"table": NUMBERS.double()},
        {"table": NUMBERS[1:]},
        {"table": None},
        {"other": NUMBERS},
        {"size": 1},
        {"size": 48},
        {"size": 2**31 + 1},
        {"FIRST": 2},
        {"num_warps": 8},
    ],
    ids=str,
)
def test_other_specialisations_are_compiled_anew(kernel, changed):
    first = {"table": NUMBERS, "other": None, "size": 47, "FIRST": 1, "SECOND": True, "num_warps": 4}
    for given in (first, first | changed):
        values = dict(given)
        launch(kernel, (1,), tuple(values.pop(name) for name in ("table", "other", "size")), **values)
    assert [each.launches for each in kernel.compiled] == [[], []]


def test_cache_holds_no_tensor(kernel):
    launch(kernel, (1,), (NUMBERS, NUMBERS, 3), FIRST=1, SECOND=2)
    ((key, found),) = module._COMPILED.items()
    held = [*key, *found.constants]
    assert not any(
        isinstance(each, torch.Tensor) for part in held for each in (part if isinstance(part, tuple) else [part])
    )

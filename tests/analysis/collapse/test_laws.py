"""What holds for several metrics: invariance, scale and type, batch = parts, matrices that are not ok."""

import importlib
import math

import pytest
import torch

from graphprism.analysis.collapse import dirichlet_energy, effective_rank, norms, numerical_rank, rank_one_distance


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(n):
    return torch.linalg.qr(normal(n, n, seed=5)).Q


def decaying(n, f):
    """Singular values from 1 to 1e-8: neither of full rank nor of rank one."""
    k = min(n, f)
    left, right = torch.linalg.qr(normal(n, k)).Q, torch.linalg.qr(normal(f, k, seed=1)).Q
    return left * torch.logspace(0, -8, k, dtype=torch.float64) @ right.mT


SPECTRAL = [effective_rank, numerical_rank, lambda x, b=None: torch.stack(norms(x, b)[:3], -1)]
SCALE_FREE = [rank_one_distance, effective_rank, numerical_rank]
METRICS = [rank_one_distance, *SPECTRAL, lambda x, b=None: norms(x, b).largest]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("x", [normal(30, 8), decaying(30, 8), decaying(8, 30)])
def test_order_of_nodes_and_channels_does_not_matter(metric, x):
    permuted = x[torch.randperm(x.size(0), generator=torch.Generator().manual_seed(2))].flip(1)
    torch.testing.assert_close(metric(permuted), metric(x), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("metric", SPECTRAL)
def test_rotation_of_channels_and_nodes_does_not_matter_to_the_spectrum(metric):
    x = decaying(30, 8)
    torch.testing.assert_close(metric(x @ rotation(8)), metric(x), rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(metric(rotation(30) @ x), metric(x), rtol=1e-10, atol=1e-13)


def test_rank_one_distance_depends_on_the_channels_chosen():
    # It compares with a column and a row of the matrix, which a rotation changes; the value zero it keeps.
    x = normal(30, 8)
    assert abs(rank_one_distance(x @ rotation(8)) - rank_one_distance(x)) > 1e-3
    rank_one = torch.outer(normal(30), normal(8, seed=1))
    assert rank_one_distance(rank_one @ rotation(8)) < 1e-14


@pytest.mark.parametrize("metric", SCALE_FREE)
@pytest.mark.parametrize("scale", [-1.0, 7.0, 1e-300, 1e300])
def test_scale_does_not_matter(metric, scale):
    x = normal(20, 6) / 10
    torch.testing.assert_close(metric(x * scale), metric(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_norms_scale_without_overflow(scale):
    x = normal(20, 6) / 10
    for scaled, plain in zip(norms(x * scale), norms(x), strict=True):
        torch.testing.assert_close(scaled / scale, plain, rtol=1e-12, atol=0)


@pytest.mark.parametrize("metric", [rank_one_distance, effective_rank])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_any_type_is_computed_in_double(metric, dtype):
    x = normal(20, 6).to(dtype)
    assert metric(x).dtype == torch.float64
    torch.testing.assert_close(metric(x), metric(x.double()), rtol=1e-14, atol=1e-14)


def test_smallest_and_largest_numbers_of_a_type():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        info = torch.finfo(dtype)
        for number in (info.tiny, info.max):
            x = torch.eye(3, dtype=dtype) * number
            assert rank_one_distance(x).item() == pytest.approx(4 / 3)
            assert effective_rank(x).item() == pytest.approx(3)
            assert norms(x).largest.item() == float(torch.tensor(number, dtype=dtype))


@pytest.mark.parametrize("metric", METRICS)
def test_batch_equals_its_parts_in_any_order(metric):
    sizes = [1, 4, 4, 9, 30, 4, 0, 2]
    parts = [normal(size, 6, seed=i) for i, size in enumerate(sizes)]
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    shuffle = torch.randperm(batch.numel(), generator=torch.Generator().manual_seed(3))
    values = metric(torch.cat(parts)[shuffle], batch[shuffle])
    expected = torch.stack([metric(part) for part in parts])
    torch.testing.assert_close(values, expected, rtol=1e-12, atol=1e-13, equal_nan=True)


def test_blocks_of_a_large_batch_equal_one_block(monkeypatch):
    x, batch = normal(60, 4), torch.arange(20).repeat_interleave(3)
    whole = rank_one_distance(x, batch)
    monkeypatch.setattr(importlib.import_module("graphprism.analysis.collapse.rank"), "_ENTRIES", 30)
    assert torch.equal(rank_one_distance(x, batch), whole)


def test_what_is_not_ok_is_said():
    nan, infinite = torch.full((3, 2), math.nan), torch.tensor([[1.0, -math.inf], [0.0, 0.0], [2.0, 1.0]])
    zero, ok, empty = torch.zeros(3, 2), torch.eye(3, 2), torch.zeros(0, 2)
    for x in (nan, infinite, zero, empty, torch.zeros(3, 0)):
        assert rank_one_distance(x).isnan()
        assert effective_rank(x).isnan()
    for x in (nan, infinite):
        assert numerical_rank(x).isnan()
    for x in (zero, empty, torch.zeros(3, 0)):
        assert numerical_rank(x) == 0
        assert [value.item() for value in norms(x)] == [0.0] * 4
    assert all(value.isnan() for value in norms(nan))
    assert all(value == math.inf for value in norms(infinite))
    batch = torch.arange(4).repeat_interleave(3)
    values = rank_one_distance(torch.cat([nan, ok, zero, infinite]), batch)
    assert values.isnan().tolist() == [True, False, True, True]
    assert values[1] == rank_one_distance(ok)
    assert rank_one_distance(empty, torch.zeros(0, dtype=torch.long)).shape == (0,)


def test_nan_in_one_graph_leaves_the_others_alone():
    x = normal(6, 2)
    x[0, 0], batch = math.nan, torch.tensor([0, 0, 0, 1, 1, 1])
    assert norms(x, batch).frobenius.isnan().tolist() == [True, False]
    edges = torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]])
    assert dirichlet_energy(x, edges, batch=batch).isnan().tolist() == [True, False]


def test_gradients_are_not_tracked():
    x = normal(5, 3).requires_grad_()
    assert not rank_one_distance(x).requires_grad
    assert not dirichlet_energy(x, torch.tensor([[0], [1]])).requires_grad


@pytest.mark.gpu
def test_gpu_equals_cpu():
    x, batch = normal(300, 20), torch.arange(30).repeat_interleave(10)
    for metric in METRICS:
        for arguments in ((x,), (x, batch)):
            moved = metric(*(argument.cuda() for argument in arguments))
            torch.testing.assert_close(moved.cpu(), metric(*arguments), rtol=1e-10, atol=1e-10)

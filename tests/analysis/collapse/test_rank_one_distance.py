import importlib

import pytest
import torch

from graphprism.analysis.collapse import rank_one_distance


def nuclear(matrix):
    return torch.linalg.svdvals(matrix).sum()


def dense(x):
    """The definition, written out."""
    x = x.double()
    column = x[:, torch.linalg.vector_norm(x, dim=0).argmax()]
    row = x[torch.linalg.vector_norm(x, dim=1).argmax()]
    outer = torch.outer(column, row)
    sign = -1 if (x * outer).sum() < 0 else 1
    return nuclear(x / nuclear(x) - sign * outer / nuclear(outer))


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_by_hand():
    # Column (1, 0), row (1, 0): the difference of diag(1/2, 1/2) and diag(1, 0) has singular values 1/2, 1/2.
    assert rank_one_distance(torch.eye(2)).item() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("n", [1, 3, 17])
def test_identity_closed_form(n):
    # diag(1/n - 1, 1/n, ..., 1/n)
    assert rank_one_distance(torch.eye(n)).item() == pytest.approx(2 * (n - 1) / n, abs=1e-14)


SHAPES = [(1, 1), (1, 5), (5, 1), (3, 2), (2, 7), (40, 16), (16, 40), (30, 30), (500, 4), (4, 500)]


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_dense_definition(shape):
    x = normal(*shape)
    torch.testing.assert_close(rank_one_distance(x), dense(x), rtol=1e-13, atol=1e-13)


def test_many_pieces_equal_the_dense_definition(monkeypatch):
    monkeypatch.setattr(importlib.import_module("graphprism.analysis.collapse.rank"), "_PIECE", 8)
    for x in (normal(501, 3), normal(3, 501), normal(70, 5)):
        torch.testing.assert_close(rank_one_distance(x), dense(x), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("shape", SHAPES)
def test_rank_one_matrices_are_at_distance_zero(shape):
    x = torch.outer(normal(shape[0]), normal(shape[1], seed=1))
    assert rank_one_distance(x).item() < 1e-14


def test_the_sign_is_aligned():
    # The longest column and the longest row cross at a negative entry.
    x = torch.outer(torch.tensor([1.0, -3.0]), torch.tensor([2.0, 1.0]))
    assert rank_one_distance(x).item() < 1e-15
    assert rank_one_distance(-x).item() < 1e-15
    torch.testing.assert_close(rank_one_distance(-normal(6, 4)), dense(normal(6, 4)))


def test_two_signals_are_told_from_one():
    # sigma = (1, t): the distance falls with t, without a floor above rounding.
    distances = [rank_one_distance(torch.diag(torch.tensor([1.0, t]))).item() for t in (1.0, 1e-3, 1e-6, 1e-9)]
    assert distances == pytest.approx([2 * t / (1 + t) for t in (1.0, 1e-3, 1e-6, 1e-9)], rel=1e-6)


def test_bad_input():
    with pytest.raises(TypeError, match="floating-point"):
        rank_one_distance(torch.eye(2, dtype=torch.long))
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        rank_one_distance([[1.0]])
    with pytest.raises(ValueError, match="shape"):
        rank_one_distance(torch.zeros(3))
    with pytest.raises(ValueError, match="`batch` must have shape"):
        rank_one_distance(torch.eye(3), torch.zeros(2, dtype=torch.long))
    with pytest.raises(TypeError, match="`batch` must hold integers"):
        rank_one_distance(torch.eye(3), torch.zeros(3))
    with pytest.raises(ValueError, match="`batch` must hold numbers"):
        rank_one_distance(torch.eye(3), torch.tensor([0, -1, 0]))

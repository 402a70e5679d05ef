"""The rank-one distance with row and column of the largest sum of magnitudes, as in the authors' script."""

import numpy as np
import pytest
import torch

from graphprism.analysis import rank_one_distance
from graphprism.experiments import Figure2Spec
from graphprism.experiments.tables.figure_2 import FIGURE_2_CURVES, _make_conv, graphs_by_seed, rank_one_curve


def by_definition(x, order):
    u = x[:, np.linalg.norm(x, ord=order, axis=0).argmax()]
    v = x[np.linalg.norm(x, ord=order, axis=1).argmax()]
    one = np.outer(u, v)
    one *= np.sign((x * one).sum())
    return np.linalg.norm(x / np.linalg.norm(x, "nuc") - one / np.linalg.norm(one, "nuc"), "nuc")


@pytest.mark.parametrize("shape", [(3, 3), (40, 5), (5, 40), (70_000, 3)])
def test_rank_one_distance_by_sums_of_magnitudes(shape):
    x = np.random.default_rng(0).standard_normal(shape) ** 3
    found = rank_one_distance(torch.from_numpy(x), chosen_by="l1")
    assert float(found) == pytest.approx(by_definition(x, 1), abs=1e-12)
    assert float(rank_one_distance(torch.from_numpy(x))) == pytest.approx(by_definition(x, 2), abs=1e-12)


def test_rank_one_distance_depends_on_the_norm():
    # the first row has the largest length, the second the largest sum
    x = torch.tensor([[3.0, 0.0, 0.1], [1.5, 1.5, 1.5], [0.0, 1.0, 0.0]], dtype=torch.double)
    both = [float(rank_one_distance(x, chosen_by=each)) for each in ("l2", "l1")]
    assert both == pytest.approx([by_definition(x.numpy(), order) for order in (2, 1)])
    assert abs(both[0] - both[1]) > 1e-3


def test_rank_one_distance_of_graphs_by_sums_of_magnitudes():
    x, batch = torch.randn(9, 4, dtype=torch.double), torch.tensor([0, 1, 0, 1, 1, 0, 0, 2, 2])
    found = rank_one_distance(x, batch, chosen_by="l1")
    expected = [by_definition(x[batch == graph].numpy(), 1) for graph in range(3)]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


def test_rank_one_distance_rejects_unknown_norms():
    with pytest.raises(ValueError, match=r"`chosen_by` must be one of \['l2', 'l1'\], got 'l3'"):
        rank_one_distance(torch.eye(2), chosen_by="l3")
    with pytest.raises(ValueError, match=r"`chosen_by` must be one of \['l2', 'l1'\], got 'l3'"):
        Figure2Spec(chosen_by="l3")


def test_figure_2_has_both_norms():
    graph = graphs_by_seed("molecules", 1, None)[0][0]
    first, second = (rank_one_curve("gcn", graph, 0, Figure2Spec(layers=8, chosen_by=each)) for each in ("l2", "l1"))
    assert not torch.equal(first, second)
    torch.testing.assert_close(first, second, atol=0.1, rtol=0)
    assert "chosen_by" in {option.name for option in FIGURE_2_CURVES.options}


def test_figure_2_starts_mrs_sage_with_glorot():
    bounds = [float(_make_conv(model, 100, 3).lin.weight.detach().abs().max()) for model in ("mrs-sage", "sage")]
    assert bounds == pytest.approx([(6 / 200) ** 0.5, 0.1], rel=0.01)

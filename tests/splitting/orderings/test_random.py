"""The random permutation."""

import torch

from graphprism.splitting import Graph, orderings

from ..zoo import directed, undirected

TRIANGLE = undirected([(0, 1), (1, 2), (2, 0)], 8)
RECORDED = [3, 1, 4, 7, 0, 2, 6, 5]
RECORDED_LARGE_SEED = [5, 1, 2, 7, 4, 0, 6, 3]


def test_is_a_permutation_and_a_function_of_the_seed():
    values = orderings.random(TRIANGLE)
    assert sorted(values.tolist()) == list(range(8))
    assert values.tolist() == orderings.random(TRIANGLE).tolist()
    assert len({tuple(orderings.random(TRIANGLE, seed=seed).tolist()) for seed in range(-50, 50)}) > 95


def test_same_on_every_machine():
    assert orderings.random(TRIANGLE).tolist() == RECORDED
    assert orderings.random(TRIANGLE, seed=2**70 - 3).tolist() == RECORDED_LARGE_SEED


def test_differs_between_graphs_with_as_many_nodes():
    paths = [directed([(0, 1), (1, target)], 8) for target in range(8)]
    assert len({tuple(orderings.random(path).tolist()) for path in paths}) == 8
    backward = Graph(paths[2].edge_index.flip(0), 8)
    assert orderings.random(backward).tolist() != orderings.random(paths[2]).tolist()


def test_leaves_the_generator_alone():
    state = torch.get_rng_state()
    orderings.random(TRIANGLE)
    assert torch.equal(torch.get_rng_state(), state)


def test_every_place_is_equally_likely():
    places = torch.stack([orderings.random(TRIANGLE, seed=seed) for seed in range(2000)])
    for node in range(8):
        counts = torch.bincount(places[:, node], minlength=8).double()
        # chi-squared with 7 degrees of freedom: 29.9 is passed once in 10000 times
        assert float(((counts - 250) ** 2 / 250).sum()) < 29.9

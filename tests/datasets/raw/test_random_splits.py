import numpy as np

from graphprism.datasets.raw import random_splits


def test_half_a_quarter_and_a_quarter_of_the_labelled():
    labelled = np.arange(103) % 10 != 0
    masks = random_splits(labelled, 3)
    assert [mask.shape for mask in masks] == [(103, 3)] * 3
    assert [mask.sum(0).tolist() for mask in masks] == [[46] * 3, [23] * 3, [23] * 3]
    assert np.array_equal(np.sum(masks, axis=0), np.repeat(labelled[:, None], 3, axis=1))


def test_splits_differ_and_come_again():
    first, again = random_splits(np.ones(50, bool), 5)[0], random_splits(np.ones(50, bool), 2)[0]
    assert len({tuple(column) for column in first.T}) == 5
    assert np.array_equal(first[:, :2], again)
    assert not first[:25].all(), "the nodes were not shuffled"

import torch

from graphprism.training.optim import epoch_order, mixed_seed


def test_by_hand():
    # written down once: a change would make every resumed run go on with other data
    assert epoch_order(0, 0, 8).tolist() == [7, 5, 1, 0, 4, 6, 3, 2]
    assert epoch_order(7, 3, 8).tolist() == [0, 7, 5, 1, 6, 4, 3, 2]


def test_every_graph_comes_once():
    assert epoch_order(1, 2, 1000).sort().values.equal(torch.arange(1000))
    assert epoch_order(1, 2, 0).tolist() == []


def test_seeds_and_epochs_have_orders_of_their_own():
    orders = {tuple(epoch_order(seed, epoch, 50).tolist()) for seed in range(10) for epoch in range(10)}
    assert len(orders) == 100


def test_no_random_state_is_touched():
    before = torch.get_rng_state()
    epoch_order(0, 0, 10)
    assert torch.get_rng_state().equal(before)


def test_other_words_give_other_seeds():
    seeds = {mixed_seed(word, *numbers) for word in ("order", "dropout") for numbers in ((1, 23), (12, 3), (123,))}
    assert len(seeds) == 6
    assert all(0 <= seed < 2**63 for seed in seeds)

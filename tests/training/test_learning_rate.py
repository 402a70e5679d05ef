import pytest

from graphprism.training import Run
from graphprism.training.schedule import learning_rate


def rates(**fields):
    run = Run(**fields)
    return [learning_rate(run, epoch) for epoch in range(run.epochs)]


def test_by_hand():
    # 5 warm-up epochs, then cosines of 0, 45, 90 and 135 degrees
    expected = [1e-6, 0.2, 0.4, 0.6, 0.8, 1.0, (1 + 2**-0.5) / 2, 0.5, (1 - 2**-0.5) / 2]
    assert rates(lr=1.0, warmup=5, epochs=9) == pytest.approx(expected, rel=1e-12)
    assert rates(lr=0.01, warmup=0, epochs=2) == pytest.approx([0.01, 0.005], rel=1e-12)


def test_constant_after_warm_up():
    assert rates(lr=0.5, warmup=2, epochs=4, schedule="constant") == pytest.approx([5e-7, 0.25, 0.5, 0.5])


def test_the_last_epoch_is_near_zero_and_never_below():
    found = rates(lr=1e-3, epochs=400)
    assert 0 < found[-1] < 1e-7
    assert max(found) == found[5] == 1e-3


def test_more_warm_up_than_epochs():
    assert rates(lr=1.0, warmup=10, epochs=3) == pytest.approx([1e-6, 0.1, 0.2])
    assert rates(lr=1.0, warmup=2, epochs=2) == pytest.approx([1e-6, 0.5])

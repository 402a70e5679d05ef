"""Groups that are trained side by side are trained as if they were alone."""

from dataclasses import replace

import pytest

from graphprism.datasets import molecules
from graphprism.training import Run, train_lockstep
from graphprism.training.lockstep import share_device as module
from graphprism.training.lockstep.device_clock import DeviceClock
from tests.training.lockstep.eager import CPU
from tests.training.lockstep.test_gpu import SCORES

DATASET = molecules(60)
RUN = Run(layers=2, width=6, epochs=3, warmup=1, batch_size=24, precision="float64")
GROUPS = [{}, {"layers": 3}, {"model": "gcn", "epochs": 2}, {"residual": True, "epochs": 5}, {"layers": 1}]


def runs_of(groups, **change):
    return [replace(RUN, seed=seed, **{**group, **change}) for group in groups for seed in range(2)]


def numbers(result):
    return [result.history[name] for name in SCORES], result.best_epoch, result.status


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_groups_side_by_side_are_as_alone(device, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_FILLS", 6)  # three groups at a time
    runs, order = runs_of(GROUPS), []
    together = train_lockstep(runs, DATASET, device=device, folder=tmp_path, on_result=order.append)
    # a group that ends earlier is handed over earlier and makes room for the next
    assert [result.run["epochs"] for result in order] == [2, 2, 3, 3, 3, 3, 3, 3, 5, 5]
    monkeypatch.setattr(module, "_FILLS", 0)
    alone = train_lockstep(runs, DATASET, device=device)
    assert [result.key for result in together] == [run.key for run in runs]
    assert [numbers(result) for result in together] == [numbers(result) for result in alone]
    assert {result.key for result in order} == {run.key for run in runs}
    assert all(result.seconds > 0 and result.step_ms > 0 for result in together)


def test_who_may_share():
    class Training:
        def __init__(self, runs):
            self.runs = runs

    small, dropping = runs_of([{}]), runs_of([{}], dropout=0.1)
    assert module._has_room([], dropping)
    assert module._has_room([Training(small)] * 5, small)
    assert not module._has_room([Training(small)] * 6, small)
    assert not module._has_room([Training(small)], dropping)
    assert not module._has_room([Training(dropping)], small)


def test_the_time_of_a_round_is_divided():
    spent, told = [3.0, 1.0], []

    class Training:
        def __init__(self, number):
            self.number = number

        def launch(self):
            told.append(("launch", self.number))

        def wait(self):
            return spent[self.number]

        def collect(self, share, on_epoch):
            told.append(("collect", share))

    module._round([Training(0), Training(1)], None)
    assert [name for name, _ in told] == ["launch", "launch", "collect", "collect"]
    assert told[2][1] == told[3][1] < 1  # four seconds of queues in far less time


def test_a_clock_of_the_cpu():
    clock = DeviceClock(CPU)
    with clock:
        clock.lap()
        sum(range(10_000))
    assert 0 <= clock.seconds_to_lap() < clock.seconds()

"""Plain torch.distributed with our loaders: real processes, one loss curve."""

import json
from pathlib import Path

import pytest

from tests.training.killable import host


@pytest.fixture(scope="module")
def run_loop(warm_python):
    with host(warm_python, Path(__file__).with_name("own_loop.py")) as ask:
        yield ask


def curve(run_loop, folder, on, ranks):
    file = folder / f"{on}-{ranks}.json"
    assert run_loop({"on": on, "ranks": ranks, "file": str(file)}) == [0] * ranks
    return json.loads(file.read_text())


@pytest.mark.parametrize("on", ["links", "nodes"])
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_own_loop_has_one_loss_curve(run_loop, tmp_path, on, ranks):
    one, several = (curve(run_loop, tmp_path, on, number) for number in (1, ranks))
    assert len(one) == {"links": 12, "nodes": 9}[on]
    assert one[-1] < one[0]
    assert several == pytest.approx(one, rel=1e-10, abs=1e-10)

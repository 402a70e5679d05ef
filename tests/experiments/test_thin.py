"""A thinned line of the ledger says the same scores, and its curves have no jags."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from graphprism.ledger import Ledger
from graphprism.report.curves import mean_curve
from graphprism.results import RunResult
from tests.experiments.results_zoo import make_result

ROOT = Path(__file__).parents[2]


def long_result(epochs=700, best=333, **more):
    val = [1 + abs(epoch - best) / 7 for epoch in range(1, epochs + 1)]
    history = {"lr": [0.1] * epochs, "train_loss": [1 + abs(epoch - 501) for epoch in range(1, epochs + 1)],
               "train": [], "val": val, "test": [value / 3 for value in val]}  # fmt: skip
    return make_result(history=history, best_epoch=best, larger_is_better=False, **more)


def test_scores_stay_and_lines_are_short():
    result = long_result()
    line = result.to_json(thin=True)
    again = RunResult.from_json(line)
    for column in ("val", "test"):
        assert again.at_best(column) == pytest.approx(result.at_best(column), rel=1e-5)
    assert again.smallest("train_loss") == pytest.approx(result.smallest("train_loss"), rel=1e-5)
    assert len(again.history["val"]) == 700
    assert again.history["val"][-1] == pytest.approx(result.history["val"][-1], rel=1e-5)
    assert len(json.loads(line)["history"]["val"]) < 140
    assert list(json.loads(line)["history"]) == ["epoch", "train_loss", "val", "test"]
    assert RunResult.from_json(again.to_json(thin=True)) == again


def test_short_histories_stay_whole():
    result = long_result(epochs=20, best=7)
    again = RunResult.from_json(result.to_json(thin=True))
    assert None not in again.history["test"]


def test_mean_of_thinned_runs_is_smooth():
    runs = [
        RunResult.from_json(long_result(epochs, best).to_json(thin=True)) for epochs, best in ((700, 333), (410, 57))
    ]
    curve = mean_curve([run.history["val"] for run in runs], points=1000)
    assert 333 not in curve.epochs
    assert 57 not in curve.epochs
    assert len(curve.epochs) > 50


@pytest.mark.parametrize(
    "history",
    [{"epoch": [1, 2], "val": [1.0]}, {"epoch": [0], "val": [1.0]}, {"epoch": [10**12], "val": [1.0]}, {"epoch": 3}],
)
def test_bad_thinned_history(history):
    values = json.loads(long_result().to_json())
    with pytest.raises(ValueError, match="must hold"):
        RunResult.from_json(json.dumps({**values, "history": history}))


def test_tool_joins_ledgers(tmp_path):
    for name, key in (("a", "0" * 16), ("b", "1" * 16)):
        Ledger(tmp_path / f"{name}.jsonl").append(long_result(key=key))
    words = [sys.executable, "tools/thin_ledger.py", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "-o", tmp_path / "c"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.startswith("2 runs, "), done.stderr
    assert len(Ledger(tmp_path / "c").latest()) == 2

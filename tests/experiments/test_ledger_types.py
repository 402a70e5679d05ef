"""Lines of a ledger that are JSON, with a field of a wrong type: skipped, one warning each."""

import json

import pytest
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.experiments import Ledger
from graphprism.results import RunResult, Score, TableResult
from graphprism.training import Run
from tests.experiments.results_zoo import make_result

WRONG = {
    "key": (None, 1, ["a"], "\ud800"),
    "run": (None, 1, "a", ["a"]),
    "status": (None, 1, [], {}),
    "metric": (None, 1, ["mae"], {}),
    "larger_is_better": (None, 1, "true", []),
    "history": (None, 1, [], {"val": 1}, {"val": ["a"]}, {"val": [[1]]}, {"val": "123"}, {"val": None}),
    "best_epoch": (0, -1, 4, 1.5, "1", [1], True, 10**400),
    "parameters": (None, "10", 1.5, [1], True),
    "width": (None, "2", 2.5, {}),
    "step_ms": ("4", [4], {}, True),
    "seconds": (None, "6", [6], {}, 10**400),
    "engine": (None, 1, []),
    "hardware": (None, 1, "cpu", []),
    "versions": (None, [], {"torch": 2}, {"torch": None}, {"torch": ["2"]}),
    "commit": (1, [], {}),
    "data": (1, [], {}),
    "finished_at": (None, 1, []),
    "extra": (None, 1, [], {"lookup": 10**400}),
}
WRONG_RUN = {
    "dataset": (None, 1, ["zinc12k"]),
    "model": (None, 1, {}),
    "layers": (None, "8", 2.5, [8], True),
    "width": ("2", 2.5),
    "lr": (None, "0.1", [0.1], {}),
    "seed": (None, "0", 0.5),
    "fold": ("0", [0]),
    "residual": (None, 1, "yes"),
    "jk": (1, ["cat"]),
}
FIELDS = [(name, value) for name, values in WRONG.items() for value in values]
RUN_FIELDS = [(name, value) for name, values in WRONG_RUN.items() for value in values]


def _line(**changes):
    return json.dumps({**json.loads(make_result().to_json()), **changes})


def _changed(name, value, in_run):
    return _line(run={**Run().to_dict(), name: value}) if in_run else _line(**{name: value})


CASES = [(*each, False) for each in FIELDS] + [(*each, True) for each in RUN_FIELDS]


@pytest.mark.parametrize(("name", "value", "in_run"), CASES, ids=[f"{each[0]}-{each[1]!r:.12}" for each in CASES])
def test_ledger_skips_a_line_with_a_field_of_a_wrong_type(tmp_path, name, value, in_run):
    path = tmp_path / "ledger.jsonl"
    lines = [make_result(Run(seed=1)).to_json(), _changed(name, value, in_run), make_result(Run(seed=2)).to_json()]
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.warns(UserWarning, match="line 2: skipped, it does not hold a whole result") as caught:
        assert [result.run["seed"] for result in Ledger(path).read()] == [1, 2]
    assert len(caught) == 1


def test_report_skips_every_line_with_a_field_of_a_wrong_type(tmp_path):
    path, good = tmp_path / "ledger.jsonl", make_result().to_json()
    path.write_text("".join(f"{line}\n" for line in [good, *(_changed(*case) for case in CASES)]))
    run = CliRunner().invoke(app, ["report", "--ledger", str(path), "--out", str(tmp_path / "page.html")])
    assert run.exit_code == 0, run.output
    assert "The report of 1 run and" in run.stdout
    assert len(run.stderr.splitlines()) == len(CASES)


def test_ledger_says_which_field_is_wrong(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_text(_line(seconds="long") + "\n")
    with pytest.warns(UserWarning, match=r"line 1: .* \(`seconds` must be float, got 'long'\)"):
        assert Ledger(path).read() == []


@pytest.mark.parametrize("depth", [30, 900, 100_000])
def test_ledger_skips_a_line_that_is_nested_deeply(tmp_path, depth):
    path = tmp_path / "ledger.jsonl"
    path.write_text(_line(extra={"a": "HERE"}).replace('"HERE"', "[" * depth + "]" * depth) + "\n")
    with pytest.warns(UserWarning, match="must be nested at most 20 deep"):
        assert Ledger(path).read() == []


def test_ledger_reads_fields_of_other_versions(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_text(_line(later=[1], run={"model": "old", "colour": ["red"]}) + "\n")
    assert [result.run["model"] for result in Ledger(path).read()] == ["old"]


def test_report_draws_a_run_whose_loss_overflows(tmp_path):
    path = tmp_path / "ledger.jsonl"
    results = [make_result(Run(seed=seed), loss=(1e200 * seed, 1.7e308, 1e308)) for seed in range(3)]
    path.write_text("".join(f"{result.to_json()}\n" for result in results))
    run = CliRunner().invoke(app, ["report", "--ledger", str(path), "--out", str(tmp_path / "page.html")])
    assert run.exit_code == 0, run.output


def test_score_of_numbers_whose_squares_overflow():
    assert Score.of([1e200, 3e200]) == Score(2e200, pytest.approx(2**0.5 * 1e200), 2)
    assert Score.of([1.5e308, 1.5e308]) == Score(1.5e308, 0.0, 2)


TABLE = TableResult("t", "T", "", ("gcn",), ("test",), ()).to_json()
CELL = {"row": "gcn", "column": "test", "ours": {"mean": 1.0}, "paper": None, "note": "", "runs": []}


@pytest.mark.parametrize(
    "changes",
    [
        {"digits": "3"},
        {"rows": [1]},
        {"rows": "gcn"},
        {"unit": None},
        {"cells": 1},
        {"cells": [1]},
        {"cells": [{**CELL, "ours": {"mean": "1"}}]},
        {"cells": [{**CELL, "ours": {"mean": None}}]},
        {"cells": [{**CELL, "ours": [1.0]}]},
        {"cells": [{**CELL, "runs": [1]}]},
        {"cells": [{**CELL, "seconds": "1"}]},
        {"cells": [{**CELL, "note": 1}]},
        {"cells": [{**CELL, "status": "no such"}]},
        {"cells": [{**CELL, "status": []}]},
        {"larger_is_better": "yes"},
    ],
)
def test_table_with_a_field_of_a_wrong_type(changes):
    with pytest.raises(ValueError, match=r"must|valid"):
        TableResult.from_json(json.dumps({**json.loads(TABLE), **changes}))


def test_result_without_a_field():
    values = json.loads(make_result().to_json())
    del values["status"]
    with pytest.raises(ValueError, match="`status` is missing"):
        RunResult.from_json(json.dumps(values))

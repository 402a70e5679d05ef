import json
import os
import signal
from contextlib import ExitStack
from dataclasses import replace

import pytest

from graphprism._files import claim
from graphprism.datasets import load, molecules, save
from graphprism.experiments import CellSpec, Ledger, Reproduction, Settings, TableSpec
from graphprism.experiments.runner import Listener, run_missing, trainer_for
from graphprism.results import CellStatus, Score, TableResult
from graphprism.training import Run, train
from tests.experiments.processes import ROOT
from tests.experiments.results_zoo import make_result
from tests.experiments.tiny_table import TINY, save_tiny
from tests.training.node_sets import small_set

WORKERS = ROOT / "tests" / "experiments" / "run_tiny.py"
EAGER = Settings(seeds=2, engine="eager")


class Many:
    """A trainer that takes all runs at once."""

    engine = "lockstep"

    def __init__(self, train):
        self._train = train

    def groups(self, runs):
        return [list(runs)]

    def train(self, runs, dataset, folder, on_epoch):
        return self._train(runs)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return out, Reproduction.of(TINY, EAGER, data, out).run()


def test_table_has_the_numbers_of_real_runs(finished, data):
    out, table = finished
    alone = train(replace(TINY.cells[0].best, seed=1), load("tiny", data))
    results = {result.key: result for result in Ledger(out / "ledger.jsonl").read()}
    assert results[alone.key].history["test"] == alone.history["test"]
    assert {result.status for result in results.values()} == {"finished"}
    cell = table.cell("GCN", "Test")
    assert cell.ours.count == 2
    assert cell.ours.mean == pytest.approx(sum(results[key].at_best("test") for key in cell.runs) / 2)
    assert table.cell("Others", "Test").status is CellStatus.QUOTED


def test_writes_the_table_and_cleans_up(finished):
    out, table = finished
    assert TableResult.from_json((out / "tables" / "tiny.json").read_text("utf-8")) == table
    assert list((out / "locks").iterdir()) == []


def test_second_time_nothing_is_trained(finished, data):
    out, table = finished
    before = (out / "ledger.jsonl").read_bytes()
    heard = []
    never = Many(lambda runs: pytest.fail("must not train"))
    again = Reproduction.of(TINY, EAGER, data, out).run(Listener(on_run=heard.append), never)
    assert again == table
    assert len(heard) == 4
    assert (out / "ledger.jsonl").read_bytes() == before


def test_cells_that_are_not_asked_for_show_what_the_ledger_has(finished, data, tmp_path):
    out, table = finished
    few = Reproduction.of(TINY, replace(EAGER, rows=("GCN",)), data, out).run()
    assert few == table
    fresh = Reproduction.of(TINY, replace(EAGER, rows=("GCN",)), data, tmp_path).run()
    assert fresh.cell("MRS-GCN", "Test").status is CellStatus.NOT_RUN
    assert fresh.cell("GCN", "Test").ours is not None


def test_estimate_counts_what_is_left(finished, data, tmp_path):
    out, _ = finished
    found = Reproduction.of(TINY, EAGER, data, tmp_path, fetch=False).estimate()
    assert (found.runs, found.finished, found.steps, found.unknown) == (4, 0, 4 * 4 * 2, 4)  # 40 graphs are two batches
    found = Reproduction.of(TINY, replace(EAGER, seeds=5), data, out).estimate()
    assert (found.runs, found.finished, found.unknown) == (10, 4, 0)
    assert found.seconds > 0


def test_estimate_of_another_machine_is_unknown(finished, data, tmp_path):
    out, _ = finished
    for result in Ledger(out / "ledger.jsonl").read():
        Ledger(tmp_path / "ledger.jsonl").append(replace(result, hardware={"name": "another"}))
    found = Reproduction.of(TINY, replace(EAGER, seeds=5), data, tmp_path).estimate()
    assert (found.finished, found.unknown, found.seconds) == (4, 6, 0.0)


def test_diverged_run_is_a_line_and_stops_no_other(data, tmp_path):
    wild = Run("tiny", "gcn", layers=2, width=8, epochs=3, warmup=0, lr=1e30, clip=0)
    spec = TableSpec("t", "", "", (CellSpec("wild", "Test", best=wild), *TINY.cells))
    table = Reproduction.of(spec, replace(EAGER, seeds=1), data, tmp_path).run()
    assert table.cell("wild", "Test").status is CellStatus.DIVERGED
    assert table.cell("GCN", "Test").ours is not None
    assert [line.status for line in Ledger(tmp_path / "ledger.jsonl").read()] == ["diverged", "finished", "finished"]
    before = (tmp_path / "ledger.jsonl").read_bytes()
    Reproduction.of(spec, replace(EAGER, seeds=1), data, tmp_path).run()
    assert (tmp_path / "ledger.jsonl").read_bytes() == before


def test_missing_data_of_some_cells_is_said_and_of_all_an_error(data, tmp_path):
    gone = CellSpec("gone", "Test", best=Run("nowhere"))
    table = Reproduction.of(TableSpec("t", "", "", (gone, *TINY.cells)), replace(EAGER, seeds=1), data, tmp_path).run()
    assert table.cell("gone", "Test").status is CellStatus.NO_DATA
    assert any("nowhere: no data set of that name" in note for note in table.notes)
    with pytest.raises(FileNotFoundError, match="nowhere: no data set of that name"):
        Reproduction.of(TableSpec("t", "", "", (gone,)), EAGER, data, tmp_path)


def test_many_at_once_are_the_runs_that_are_free_and_missing(tmp_path):
    given = []

    def train_many(runs):
        given.append([run.seed for run in runs])
        return [make_result(run, engine="lockstep") for run in runs]

    runs = [replace(TINY.cells[0].best, seed=seed) for seed in range(5)]
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append(make_result(runs[0]))
    waits = []

    def finish_elsewhere(count):
        waits.append(count)
        ledger.append(make_result(runs[1]))
        other.__exit__(None, None, None)

    other = claim(tmp_path / "locks" / f"{runs[1].key}.lock")
    assert other.__enter__()
    run_missing(runs, {"tiny": molecules(12)}, ledger, tmp_path, Many(train_many), Listener(on_wait=finish_elsewhere))
    assert given == [[2, 3, 4]]
    assert waits == [1]
    assert sorted(result.key for result in ledger.read()) == sorted(run.key for run in runs)


def kill_in_the_middle(workers, killed):
    """Kills the first worker that has finished the second epoch of a run; gives what was said. Writes a file then."""
    said = []
    for line in workers.stdout:
        said.append(line.split())
        if said[-1][2] == "2":
            os.kill(int(said[-1][0]), signal.SIGKILL)
            killed.touch()
            return said
    raise AssertionError(workers.stderr.read())


def test_two_processes_train_each_run_once_and_one_that_is_killed_is_replaced(warm_python, data, tmp_path):
    workers = warm_python.start(WORKERS, data, tmp_path, 2, 8, 2)
    before = kill_in_the_middle(workers, tmp_path / "killed")
    killed, key, _ = before[-1]
    said, errors = workers.communicate()
    assert workers.returncode == 1, f"one of two was killed: {errors}"
    after = [line.split() for line in said.splitlines()]
    assert len({pid for pid, _, _ in before + after}) == 2, "both had a part of the work"
    epochs = {}
    for pid, run, epoch in before + after:
        epochs.setdefault(run, []).append((pid == killed, int(epoch)))
    for run, trained in epochs.items():
        mine = [epoch for by_killed, epoch in trained if by_killed == (run == key)]
        whole = list(range(1, 9))
        assert mine == (whole[: len(mine)] if run == key else whole)
    assert epochs[key][-1] == (False, 8)
    keys = [result.key for result in Ledger(tmp_path / "ledger.jsonl").read()]
    assert len(keys) == 4
    assert set(keys) == set(epochs)
    table = json.loads((tmp_path / "tables" / "tiny-8-epochs.json").read_text("utf-8"))
    again = Reproduction.of(TINY, Settings(seeds=2, epochs=8, engine="eager"), data, tmp_path).run()
    assert json.loads(again.to_json()) == table
    alone = train(replace(TINY.cells[0].best, epochs=8), load("tiny", data))
    assert Ledger(tmp_path / "ledger.jsonl").find(alone.key).history["test"] == alone.history["test"]


def test_time_limit_stops_between_epochs_and_the_next_call_resumes(finished, data, tmp_path, monkeypatch):
    heard, stopped = [], []
    monkeypatch.setattr("graphprism.experiments.runner.time.monotonic", lambda: 2.0 * len(heard))
    limited = Reproduction.of(TINY, replace(EAGER, seconds=9), data, tmp_path)
    listener = Listener(on_epoch=lambda report: heard.append(report.epoch), on_stop=stopped.append)
    table = limited.run(listener)
    assert heard == [1, 2, 3, 4, 1]  # the second run stops after its first epoch
    assert stopped == [3]
    assert table.cell("MRS-GCN", "Test").ours is None
    monkeypatch.undo()
    heard.clear()
    whole = Reproduction.of(TINY, EAGER, data, tmp_path).run(listener)
    assert [cell.ours for cell in whole.cells] == [cell.ours for cell in finished[1].cells]
    assert heard[:3] == [2, 3, 4]
    assert stopped == [3]


def test_table_and_plan_leave_out_results_on_other_data(data, tmp_path):
    settings = replace(EAGER, rows=("GCN",), columns=("Test",), seeds=1, seconds=1e-9)
    reproduction = Reproduction.of(TINY, settings, data, tmp_path)
    reproduction.ledger.append(replace(make_result(TINY.cells[0].best), data="another"))
    assert reproduction.run().cell("GCN", "Test").status is CellStatus.NOT_RUN
    assert reproduction.estimate().finished == 0


def test_waiting_for_other_processes_does_not_read_the_ledger_for_each_of_their_runs(data, tmp_path, monkeypatch):
    runs, reads, polls = [replace(TINY.cells[0].best, seed=seed) for seed in range(3)], [], []
    read = Ledger.read
    monkeypatch.setattr(Ledger, "read", lambda self: reads.append(1) or read(self))

    def poll(_):
        polls.append(len(reads))
        if len(polls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("graphprism.experiments.runner.time.sleep", poll)
    tiny, ledger, trainer = {"tiny": load("tiny", data)}, Ledger(tmp_path / "ledger.jsonl"), trainer_for(runs, "eager")
    with ExitStack() as others:
        for run in runs:
            others.enter_context(claim(tmp_path / "locks" / f"{run.key}.lock"))
        with pytest.raises(KeyboardInterrupt):
            run_missing(runs, tiny, ledger, tmp_path, trainer)
    assert polls == [1, 1, 1]


def test_time_limit_says_nothing_if_another_process_has_done_the_rest(finished, data, tmp_path, monkeypatch):
    heard, stopped = [], []
    monkeypatch.setattr("graphprism.experiments.runner.time.monotonic", lambda: 2.0 * len(heard))
    limited = Reproduction.of(TINY, replace(EAGER, seconds=1), data, tmp_path)

    def on_epoch(report):
        heard.append(report.epoch)
        for result in Ledger(finished[0] / "ledger.jsonl").read():
            limited.ledger.append(result)

    limited.run(Listener(on_epoch=on_epoch, on_stop=stopped.append))
    assert heard == [1]
    assert stopped == []


def test_time_limit_is_above_zero():
    with pytest.raises(ValueError, match="`seconds` must be above 0, got 0"):
        Settings(seconds=0)


def test_plan_refuses_a_run_that_does_not_fit_its_data_before_anything_is_trained(data, tmp_path):
    save(small_set(), data / "small.npz")
    on_nodes = CellSpec("GCN", "Nodes", Score(50.0), Run("small", "gcn", layers=1, width=4, epochs=1))
    table = replace(TINY, cells=(*TINY.cells, on_nodes))
    with pytest.raises(ValueError, match=r"`batch_size` must be None \(the whole graph\) .* got 32"):
        Reproduction.of(table, EAGER, data, tmp_path)
    assert not [*tmp_path.iterdir()]

from contextlib import ExitStack
from dataclasses import replace
from threading import Thread

import pytest

from graphprism.datasets import molecules
from graphprism.experiments import Ledger
from graphprism.experiments.tune import Choice, Tuner, parse_choice
from graphprism.training import Run, train
from graphprism.training.train import lockstep_key
from tests.training.test_targets import WHOLE, ring

optuna = pytest.importorskip("optuna")

BASE = Run(dataset="ring", **{**WHOLE, "epochs": 6})
SPACE = {"lr": Choice(low=1e-4, high=1e-1), "dropout": Choice(values=(0.0, 0.5))}


def tuner(out, space=SPACE, base=BASE, dataset=None, **options):
    return Tuner(base, space, dataset or ring("binary"), out, accelerator="cpu", **options)


@pytest.fixture(autouse=True)
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def test_best_is_chosen_by_validation_and_can_be_trained_again(tmp_path):
    found = tuner(tmp_path).run(5)
    assert len(found.trials) == 5
    finished = [row for row in found.trials if row["state"] == "finished"]
    assert found.value == max(row["value"] for row in finished)
    again = train(found.best, ring("binary"), accelerator="cpu")
    assert again.at_best("val") == found.value
    assert found.best.key in Ledger(tmp_path / "ledger.jsonl").latest()


def test_trials_that_fall_behind_are_stopped_and_not_in_the_ledger(tmp_path):
    base = replace(BASE, epochs=12)
    found = tuner(tmp_path, {"lr": Choice(low=1e-6, high=0.1)}, base, ring("regression")).run(10)
    pruned = [row for row in found.trials if row["state"] == "pruned"]
    assert pruned
    assert all(row["epochs"] < 12 for row in pruned)
    assert all(result.status == "finished" for result in Ledger(tmp_path / "ledger.jsonl").read())


def test_search_that_was_cut_short_goes_on_with_its_trial(tmp_path):
    def stop(report):
        if report.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuner(tmp_path).run(3, on_epoch=stop)
    seen = []
    found = tuner(tmp_path).run(3, on_epoch=lambda report: seen.append(report.epoch))
    assert len(found.trials) == 3
    assert seen[0] == 4  # from its checkpoint
    assert "running" not in {row["state"] for row in found.trials}
    more = tuner(tmp_path).run(3, on_epoch=lambda report: seen.append(0))
    assert more == found
    assert 0 not in seen


@pytest.mark.parametrize("group", [1, 3])
def test_interrupted_search_takes_the_trials_of_one_that_was_not(tmp_path, group):
    seen = []

    def stop(report):
        seen.append(report.epoch)
        if len(seen) % 5 == 0:
            raise KeyboardInterrupt

    space = {"lr": Choice(low=1e-4, high=1e-1), "weight_decay": Choice(low=1e-6, high=1e-1)}
    whole = tuner(tmp_path / "whole", space, group=group).run(9)
    for _ in range(40):
        try:
            parts = tuner(tmp_path / "parts", space, group=group).run(9, on_epoch=stop)
            break
        except KeyboardInterrupt:
            continue
    assert len({row["lr"] for row in whole.trials}) == 9
    drawn = [[row[name] for row in found.trials] for found in (whole, parts) for name in ("lr", "weight_decay")]
    assert drawn[:2] == drawn[2:]
    ledgers = [[each.key for each in Ledger(tmp_path / name / "ledger.jsonl").read()] for name in ("whole", "parts")]
    assert all(len(keys) == len({*keys}) for keys in ledgers)
    if group == 1:  # of a group, other trials than before may be ahead when it is resumed
        assert parts == whole
        assert ledgers[0] == ledgers[1]


@pytest.mark.parametrize("name", ["_value", "set_user_attr"])
def test_search_that_was_cut_short_while_it_proposed_takes_that_trial(tmp_path, monkeypatch, name):
    owner, calls = (Tuner, [0]) if name == "_value" else (optuna.trial.Trial, [0])
    function = getattr(owner, name)

    def interrupted(*arguments):
        calls[0] += 1
        if calls[0] == (4 if name == "_value" else 6):  # in the second trial
            raise KeyboardInterrupt
        return function(*arguments)

    whole = tuner(tmp_path / "whole").run(3)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            tuner(tmp_path / "parts").run(3)
    assert tuner(tmp_path / "parts").run(3) == whole


class Pruner(optuna.pruners.BasePruner):
    """Prunes trial 1 from epoch 3 on, and trial 2 at its last epoch, the fourth, which is complete."""

    def prune(self, study, trial):
        return (trial.last_step or 0) >= {1: 3, 2: 4}.get(trial.number, 5)


@pytest.mark.parametrize("loses_checkpoint", [False, True])
@pytest.mark.parametrize("last", [3, 7, 11])
def test_trial_that_was_cut_short_ends_as_it_would_have(tmp_path, last, loses_checkpoint):
    def search(folder):
        made = tuner(folder, base=replace(BASE, epochs=4))
        made.study.pruner = Pruner()
        return made

    def stop(report):
        seen.append(report.epoch)
        if len(seen) == last:
            raise KeyboardInterrupt

    seen = []
    whole = search(tmp_path / "whole").run(4)
    assert [(row["state"], row["epochs"]) for row in whole.trials[:3]] == [
        ("finished", 4),
        ("pruned", 3),
        ("finished", 4),
    ]
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "parts").run(4, stop)
    if loses_checkpoint:  # that of a killed process may be some epochs older than what it reported
        for path in (tmp_path / "parts").glob("checkpoints/*/*.pt"):
            path.unlink()
    assert search(tmp_path / "parts").run(4) == whole


@pytest.mark.parametrize("when", ["set_user_attr", "report"])
def test_trial_that_is_proposed_or_trained_is_not_taken_over(tmp_path, monkeypatch, when):
    function, other, taken, threads = getattr(optuna.trial.Trial, when), tuner(tmp_path), [], []

    def take_over():
        with ExitStack() as claims:
            taken.append(len(other._cut_short(claims)))

    def written(*arguments):
        function(*arguments)
        if not threads:  # another search looks for trials of killed ones, now or as soon as it may
            threads.append(Thread(target=take_over))
            threads[0].start()
            threads[0].join(0.5)

    with monkeypatch.context() as patch:
        patch.setattr(optuna.trial.Trial, when, written)
        tuner(tmp_path).run(1)
    threads[0].join(30)
    assert taken == [0]


def test_trial_of_a_group_that_ended_before_it_was_told_is_in_the_ledger_once(tmp_path, monkeypatch):
    space, base, data = (
        {"lr": Choice(low=1e-4, high=1e-1)},
        Run(width=4, epochs=2, batch_size=16, warmup=0),
        molecules(40),
    )
    calls, tell = [0], Tuner._tell

    def interrupted(*arguments):
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        tell(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Tuner, "_tell", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tuner(tmp_path, space, base, data, group=3).run(3)
    tuner(tmp_path, space, base, data, group=3).run(3)
    results = Ledger(tmp_path / "ledger.jsonl").read()
    assert len(results) == len({each.key for each in results}) == 3


def test_repeated_proposal_is_in_the_ledger_once(tmp_path):
    search = tuner(tmp_path, {"dropout": Choice(values=(0.0, 0.3, 0.5))})
    for _ in range(3):
        search.study.enqueue_trial({"dropout": 0.5})
    found = search.run(2)
    assert [row["dropout"] for row in found.trials if row["state"] == "finished"] == [0.5, 0.5]
    results = Ledger(tmp_path / "ledger.jsonl").read()
    assert len(results) == len({each.key for each in results}) == 1


@pytest.mark.parametrize("group", [1, 3])
def test_every_setting_is_tried_once_where_there_are_no_more(tmp_path, group):
    space = {"dropout": Choice(values=(0.0, 0.5)), "layers": Choice(low=1, high=2), "lr": Choice(values=(0.01, 0.1))}
    first = tuner(tmp_path, space, group=group)
    assert first.num_settings == 8
    assert len(first.run(3).trials) == 3  # fewer than there are: chosen by earlier trials
    found = tuner(tmp_path, space, group=group).run(50)
    tried = [(row["dropout"], row["layers"], row["lr"]) for row in found.trials]
    assert len(set(tried)) == 8
    assert len(tried) <= 8 + 3  # the first three may be equal
    assert tuner(tmp_path / "real", {"dropout": Choice(low=0.0, high=0.9)}).num_settings is None


def test_no_trial_is_pruned_in_the_warm_up_of_its_rate(tmp_path):
    base = replace(BASE, epochs=12, warmup=5)
    found = tuner(tmp_path, {"lr": Choice(low=1e-6, high=0.1)}, base, ring("regression")).run(10)
    pruned = [row["epochs"] for row in found.trials if row["state"] == "pruned"]
    assert pruned
    assert min(pruned) >= 7
    varied = tuner(tmp_path / "b", {"warmup": Choice(low=0, high=9)}, base, ring("regression"))
    assert varied.study.pruner._n_warmup_steps == 11


def test_processes_that_draw_the_same_values_wait_for_each_other(tmp_path):
    dataset, space = ring("binary"), {"dropout": Choice(values=(0.0, 0.5, 0.7))}
    searches = [tuner(tmp_path, space, dataset=dataset) for _ in range(2)]
    for _ in range(2):
        searches[0].study.enqueue_trial({"dropout": 0.5})
    failed = []

    def search(each):
        try:
            each.run(2)
        except Exception as error:
            failed.append(error)

    threads = [Thread(target=search, args=(each,)) for each in searches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    trials = searches[0].found().trials
    assert [row["state"] for row in trials[:2]] == ["finished"] * 2
    assert trials[0]["value"] == trials[1]["value"]


def test_other_settings_are_another_search(tmp_path):
    tuner(tmp_path).run(1)
    assert tuner(tmp_path, base=replace(BASE, layers=1)).found().trials == []


def test_groups_have_what_lockstep_needs_in_common(tmp_path):
    space = {"lr": Choice(low=1e-4, high=1e-2), "layers": Choice(low=1, high=3)}
    base, dataset = Run(width=4, epochs=2, batch_size=16, warmup=0), molecules(40)
    search = tuner(tmp_path, space, base, dataset, group=3)
    found = search.run(6)
    runs = [Run.from_dict(trial.user_attrs["run"]) for trial in search.study.trials]
    assert len({lockstep_key(run) for run in runs[:3]}) == len({lockstep_key(run) for run in runs[3:]}) == 1
    assert len({run.lr for run in runs}) == 6
    assert {result.engine for result in Ledger(tmp_path / "ledger.jsonl").read()} == {"lockstep"}
    assert len(found.trials) == 6


@pytest.mark.parametrize(
    ("text", "name", "choice"),
    [
        ("layers=2..8", "layers", Choice(low=2, high=8)),
        ("weight_decay=0..1", "weight_decay", Choice(low=0.0, high=1.0)),
        ("residual=false|true", "residual", Choice(values=(False, True))),
        ("model=gcn|mrs-gcn", "model", Choice(values=("gcn", "mrs-gcn"))),
        ("weight-decay=0|1e-4", "weight_decay", Choice(values=(0, 1e-4))),
    ],
)
def test_choices_as_text(text, name, choice):
    assert parse_choice(text) == (name, choice)
    assert parse_choice(text)[1].is_whole == choice.is_whole


@pytest.mark.parametrize("text", ["lr", "lr=", "rate=1..2", "lr=2..1", "lr=a..b", "seed=0..3"])
def test_wrong_choices_are_one_sentence(text):
    with pytest.raises(ValueError, match="`vary` must"):
        parse_choice(text)


def test_wrong_values_show_before_anything_runs(tmp_path):
    with pytest.raises(ValueError, match="`model` must be one of"):
        tuner(tmp_path, {"model": Choice(values=("gcn", "transformer"))})
    with pytest.raises(ValueError, match="`space` must have a field"):
        tuner(tmp_path, {})


def test_tuner_refuses_runs_that_do_not_fit_their_data_before_any_trial(tmp_path):
    with pytest.raises(ValueError, match=r"`batch_size` must be None \(the whole graph\) .* got 32"):
        tuner(tmp_path / "base", base=replace(BASE, batch_size=32))
    with pytest.raises(ValueError, match=r"`batch_size` must be None \(the whole graph\) .* got 16"):
        tuner(tmp_path / "space", {"batch_size": Choice(values=(None, 16))})
    assert not [*tmp_path.iterdir()]


def test_tuner_takes_fields_that_fit_together(tmp_path):
    space = {"neighbors": Choice(values=(4, 8)), "batch_size": Choice(values=(16, 32))}
    assert tuner(tmp_path, space).run(1).trials

import csv
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.cli.run_file import read_run_file, write_run_file
from graphprism.cli.run_training import train_runs
from graphprism.datasets import molecules
from graphprism.experiments import Ledger
from graphprism.training import Run

SMALL = ("--model", "gcn", "--layers", "1", "--width", "4", "--epochs", "3")

pytestmark = pytest.mark.usefixtures("few_molecules")


def train(*arguments):
    return CliRunner().invoke(app, ["train", *map(str, arguments)], env={"COLUMNS": "200"})


def test_saved_settings_give_the_same_runs(tmp_path):
    runs = [
        Run(model=model, lr=lr, seed=seed, layers=3, jk="max", dropout=0.25, warmup=0)
        for model in ("gcn", "mrs-gcn")
        for lr in (1e-3, 1e-05)
        for seed in (0, 4)
    ]
    write_run_file(tmp_path / "run.toml", runs)
    options = read_run_file(tmp_path / "run.toml", ["seeds", "folds"])
    assert train_runs(options, molecules(12)) == runs


def test_file_comes_before_defaults_and_options_before_the_file(tmp_path):
    file = tmp_path / "run.toml"
    settings = 'model = "gcn"\nlayers = 1\nwidth = 4\nepochs = 2\nseeds = [0, 3]\nself-loops = false\n'
    file.write_text(f'{settings}out = "{tmp_path}/out"\n')
    run = train(file, "--width", "6")
    assert run.exit_code == 0, run.output
    found = [Run.from_dict(result.run) for result in Ledger(tmp_path / "out" / "ledger.jsonl").latest().values()]
    assert [(each.width, each.epochs, each.seed) for each in found] == [(6, 2, 0), (6, 2, 3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layrs = 2\n", "'layrs' is no option of a run; did you mean layers?"),
        ("layers = \n", "must be a file in TOML"),
        ("layers = [1, 2]\n", "`layers` must be one value"),
        ("seed = 3\n", "'seed' is no option of a run; did you mean seeds?"),
    ],
)
def test_wrong_file_is_one_line(tmp_path, text, message):
    file = tmp_path / "run.toml"
    file.write_text(text)
    run = train(file, "--out", tmp_path / "out")
    assert run.exit_code == 2
    assert message in run.stderr
    assert run.stderr.count("\n") == 1


def test_save_and_run_again_finds_the_results(tmp_path):
    first = train(*SMALL, "--out", tmp_path / "out", "--save", tmp_path / "run.toml")
    assert first.exit_code == 0, first.output
    again = train(tmp_path / "run.toml", "--out", tmp_path / "out")
    assert "finished before" in again.stderr


def test_csv_log_continues(tmp_path):
    assert train(*SMALL, "--out", tmp_path / "out", "--log", "csv").exit_code == 0
    (file,) = (tmp_path / "out" / "logs").glob("*.csv")
    rows = list(csv.DictReader(file.read_text().splitlines()))
    (result,) = Ledger(tmp_path / "out" / "ledger.jsonl").latest().values()
    assert [float(row["val"]) for row in rows] == result.history["val"]
    assert [int(row["epoch"]) for row in rows] == [1, 2, 3]


def test_log_that_starts_later_keeps_earlier_epochs(tmp_path):
    from graphprism.cli.epoch_log import EpochLog
    from graphprism.training import EpochReport

    report = EpochReport(Run(), 1, 9, *[0.5] * 8)
    first = EpochLog("csv", tmp_path)
    for epoch in (1, 2, 3):
        first(replace(report, epoch=epoch))
    EpochLog("csv", tmp_path)(replace(report, epoch=3, val=0.25))
    lines = (tmp_path / f"{Run().key}.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["epoch", "1", "2", "3"]
    assert lines[-1].split(",")[4] == "0.25"


def test_unknown_log_is_one_line(tmp_path):
    run = train(*SMALL, "--out", tmp_path / "out", "--log", "wandb")
    assert run.exit_code == 2
    assert "`log` must be one of ['csv', 'tensorboard'], got 'wandb'" in run.stderr


def test_tensorboard_log(tmp_path):
    pytest.importorskip("tensorboard")
    assert train(*SMALL, "--out", tmp_path / "out", "--log", "tensorboard").exit_code == 0
    assert list((tmp_path / "out" / "logs").glob("*/events.out.tfevents.*"))

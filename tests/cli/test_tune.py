import pytest
from typer.testing import CliRunner

from graphprism.cli.app import app

pytest.importorskip("optuna")
pytestmark = pytest.mark.usefixtures("few_molecules")


def test_tune_writes_the_best_settings_that_train_takes(tmp_path):
    common = ("--out", str(tmp_path / "out"), "--accelerator", "cpu")
    # names are the same in any case
    small = ("--dataset", "Molecules", "--width", "4", "--layers", "1", "--epochs", "1", "--model", "gcn")
    run = CliRunner().invoke(app, ["tune", *small, "--trials", "2", "--vary", "lr=1e-3..1e-2", *common])
    assert run.exit_code == 0, run.output
    assert "2 finished" in run.stdout
    assert run.stderr.startswith("molecules: 2 trials of gcn over lr=1e-3..1e-2; 1 epoch each at most\n")
    best = str(tmp_path / "out" / "best.toml")
    again = CliRunner().invoke(app, ["train", best, *common])
    assert "finished before" in again.stderr
    for command in (["tune", best, "--trials", "1", "--vary", "clip=0.5|2.0"], ["estimate", best]):
        other = CliRunner().invoke(app, [*command, "--dataset", "MOLECULES", *common])
        assert other.exit_code == 0, other.output
        assert "MOLECULES" not in other.output


def test_wrong_field_is_one_line(tmp_path):
    run = CliRunner().invoke(app, ["tune", "--vary", "rate=1..2", "--out", str(tmp_path)])
    assert run.exit_code == 2
    assert run.stderr.count("\n") == 1


def test_tune_says_which_of_several_models_it_takes(tmp_path):
    common = ("--out", str(tmp_path / "out"), "--accelerator", "cpu")
    small = ("--width", "4", "--layers", "1", "--epochs", "1", "--model", "gcn,mrs-gcn")
    run = CliRunner().invoke(app, ["tune", *small, "--trials", "1", "--vary", "lr=1e-3..1e-2", *common])
    assert run.exit_code == 0, run.output
    assert "of gcn,mrs-gcn the first is tuned (--model mrs-gcn takes another)\n" in run.stderr

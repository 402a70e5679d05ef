import re
import signal
import time

import pytest
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.datasets import molecules, save
from graphprism.ledger import Ledger

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


def test_tune_searches_each_of_several_models_and_compares_them(tmp_path):
    common = ("--out", str(tmp_path / "out"), "--accelerator", "cpu")
    small = ("--width", "4", "--layers", "1", "--epochs", "1", "--model", "gcn, mrs-gcn")
    run = CliRunner().invoke(app, ["tune", *small, "--trials", "2", "--vary", "lr=1e-3..1e-2", *common])
    assert run.exit_code == 0, run.output
    assert run.stderr.startswith(
        "molecules: 2 trials of each of gcn, mrs-gcn over lr=1e-3..1e-2; 1 epoch each at most\n"
    )
    for model in ("gcn", "mrs-gcn"):
        assert f"\n{model}, trial 1: finished mae" in run.stderr
        assert f"molecules: {model}, 2 finished" in run.stdout
    best = re.search(r"Best validation MAE of each model, after 2 trials: (\S+) (\S+), (\S+) (\S+)\.\n", run.stdout)
    assert {best[1], best[3]} == {"gcn", "mrs-gcn"}
    assert float(best[2]) <= float(best[4])
    texts = {
        name: (tmp_path / "out" / name).read_text() for name in ("best.toml", "best-gcn.toml", "best-mrs-gcn.toml")
    }
    assert texts["best.toml"] == texts[f"best-{best[1]}.toml"] != texts[f"best-{best[3]}.toml"]
    again = CliRunner().invoke(app, ["train", str(tmp_path / "out" / f"best-{best[3]}.toml"), *common])
    assert "finished before" in again.stderr


def test_tune_refuses_values_of_any_model_before_the_first_trial(tmp_path):
    words = ("--model", "gcn,mrs-gcn", "--vary", "split=degree|degre", "--out", str(tmp_path / "out"))
    run = CliRunner().invoke(app, ["tune", "--epochs", "1", *words, "--accelerator", "cpu"])
    assert run.exit_code == 2
    assert run.stderr.startswith("error: ")
    assert "trial" not in run.stderr


@pytest.mark.parametrize(
    ("words", "models"), [((), "mrs-gcn"), (("--vary", "model=gcn|sage"), "mrs-gcn"), (("--model", "sage"), "sage")]
)
def test_tune_searches_the_split_model_by_default(tmp_path, words, models):
    small = ("--width", "4", "--layers", "1", "--epochs", "1", "--trials", "1", "--vary", "lr=1e-3..1e-2")
    run = CliRunner().invoke(app, ["tune", *small, *words, "--out", str(tmp_path / "out"), "--accelerator", "cpu"])
    assert run.exit_code == 0, run.output
    assert run.stderr.startswith(f"molecules: 1 trial of {models} over lr=1e-3..1e-2")


def test_interrupted_search_says_what_is_kept_and_proposes_no_trial_again(warm_python, tmp_path):
    save(molecules(60), tmp_path / "few.npz")
    words = ["--dataset", "few", "--width", "8", "--layers", "2", "--model", "mrs-gcn", "--epochs", "60"]
    words += ["--trials", "4", "--vary", "lr=1e-4..1e-2", "--data", tmp_path, "--accelerator", "cpu"]
    command = ["-W", "ignore", "-m", "graphprism", "tune", *words]
    whole = warm_python.run(*command, "--out", tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    with warm_python.start(*command, "--out", tmp_path / "parts") as process:
        process.stderr.readline()  # what is searched
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130, said
    kept = r"1 of 4 trials has ended and is kept(, the next one is kept up to epoch \d+)?"
    assert re.fullmatch(f"stopped: {kept}; the same command resumes\n", said), said
    again = warm_python.run(*command, "--out", tmp_path / "parts")
    assert again.returncode == 0, again.stderr
    trials = [line for text in (first, again.stderr) for line in text.splitlines() if line.startswith("trial ")]
    assert trials == [line for line in whole.stderr.splitlines() if line.startswith("trial ")]
    keys = [[each.key for each in Ledger(tmp_path / out / "ledger.jsonl").read()] for out in ("whole", "parts")]
    assert keys[0] == keys[1]
    assert len(set(keys[0])) == len(keys[0])


def test_search_interrupted_in_its_first_trial_says_what_is_kept(warm_python, tmp_path):
    save(molecules(60), tmp_path / "few.npz")
    words = ["--dataset", "few", "--width", "8", "--layers", "2", "--epochs", "100000", "--vary", "lr=1e-4..1e-2"]
    command = ["-m", "graphprism", "tune", *words, "--data", tmp_path, "--accelerator", "cpu", "--out", tmp_path / "o"]
    with warm_python.start("-W", "ignore", *command) as process:
        process.stderr.readline()
        deadline, written = time.monotonic() + 60, set()
        # the second one: the first is written before its epoch is reported
        while time.monotonic() < deadline and len(written) < 2:
            written |= {each.stat().st_ino for each in (tmp_path / "o" / "checkpoints").glob("*/checkpoint.pt")}
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    words = r"stopped: no trial of 20 has ended, the first one is kept up to epoch \d+; the same command resumes\n"
    assert re.fullmatch(words, said), said

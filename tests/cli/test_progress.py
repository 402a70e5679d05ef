import re

import pytest

from graphprism._text import duration
from graphprism.cli.progress import EpochProgress, StepProgress, epoch_line, is_due
from graphprism.training import EpochReport, Run


def report(epoch, epochs=20, **fields):
    values = {"lr": 0.1, "train_loss": 0.5, "train": 0.5, "val": 0.25, "test": 0.3, "steps_per_second": 12.34}
    return EpochReport(
        **{
            "run": Run(),
            "epoch": epoch,
            "epochs": epochs,
            **values,
            "seconds": 2.0,
            "remaining_seconds": 125.0,
            **fields,
        }
    )


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.parametrize("total", [1, 3, 4, 7, 10, 400])
@pytest.mark.parametrize("lines", [1, 4, 8])
def test_lines_are_few_and_the_last_step_has_one(total, lines):
    due = [done for done in range(1, total + 1) if is_due(done, total, lines)]
    assert len(due) == min(total, lines)
    assert due[-1] == total


def test_words_of_an_epoch():
    assert epoch_line(report(3)) == "mrs-gcn seed 0 epoch 3/20 loss 0.5000 val 0.2500 12.3 steps/s 2 min 05 s left"
    assert "val" not in epoch_line(report(3, val=float("nan")))
    assert " loss 0.5000 val 61.80 % 12.3 steps/s" in epoch_line(report(3, val=61.8), "accuracy")
    assert epoch_line(report(3), "mae") == epoch_line(report(3))


def test_duration_never_has_sixty_seconds():
    assert duration(59.6) == "1 min 00 s"
    assert duration(3599.9) == "1 h 00 min"


def test_plain_lines_without_control_characters(capsys):
    with EpochProgress() as shown:
        for epoch in range(1, 21):
            shown(report(epoch))
        shown.say("a word")
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 9
    assert lines[-2].startswith("mrs-gcn seed 0 epoch 20/20 loss")
    assert lines[-1] == "a word"
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", err)
    assert shown.last.epoch == 20


def test_bar_on_a_terminal(terminal, capsys):
    with EpochProgress() as shown:
        shown(report(7))
        shown.say("a word")
    err = capsys.readouterr().err
    assert "\x1b[" in err
    assert "epoch 7/20 loss 0.5000 val 0.2500" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", err)
    assert "a word" in err


def test_bar_fits_into_eighty_columns(monkeypatch, terminal, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with EpochProgress() as shown:
        shown(report(7, steps_per_second=123.4, remaining_seconds=25.0))
    assert "123 steps/s 25 s left" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)


def test_quiet(terminal, capsys):
    with EpochProgress(quiet=True) as shown:
        shown(report(20))
        shown.say("a word")
    assert capsys.readouterr() == ("", "")
    assert shown.last.epoch == 20


def test_nothing_is_known_before_the_first_epoch():
    with EpochProgress() as shown:
        assert shown.last is None


def test_words_in_brackets_are_not_markup(terminal, capsys):
    with EpochProgress() as shown:
        shown.say("[red]data[/red]")
    assert "[red]data[/red]" in capsys.readouterr().err


def test_steps_of_a_command(capsys, monkeypatch):
    with StepProgress(10, "row") as progress:
        for number in range(10):
            progress.epoch(report(1))
            progress.advance(f"step {number}")
        progress.say("a word")
    lines = [f"{done} of 10 rows done" for done in (3, 5, 8, 10)]
    assert capsys.readouterr().err.splitlines() == [*lines, "a word"]


def test_steps_show_an_epoch_every_half_minute_without_a_terminal(capsys, monkeypatch):
    now = iter([0.0, 10.0, 31.0, 32.0, 62.0])
    monkeypatch.setattr("graphprism.cli.progress.monotonic", lambda: next(now))
    with StepProgress(1) as progress:
        for epoch in (1, 2, 3, 4):
            progress.epoch(report(epoch))
    lines = capsys.readouterr().err.splitlines()
    assert [re.search(r"epoch \d+/20", line)[0] for line in lines] == ["epoch 2/20", "epoch 4/20"]


def test_steps_of_a_command_on_a_terminal(terminal, capsys):
    with StepProgress(2) as progress:
        progress.advance("[red]step[/red]")
        progress.epoch(report(7))
    err = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert "1/2" in err
    assert "seed 0, molecules: epoch 7 of 20, loss 0.5000, 2 min 05 s left" in err

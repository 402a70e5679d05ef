"""Tables at 80 columns: they wrap, and cut nothing that has to be read or typed."""

import pytest
from rich.console import Console
from typer.testing import CliRunner

from graphprism._text import rich_table
from graphprism.cli.app import app

pytestmark = pytest.mark.usefixtures("few_molecules")
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
SMALL = ("--width", "4", "--layers", "1", "--epochs", "1", "--accelerator", "cpu")


def call(*words):
    run = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "80"})
    assert run.exit_code == 0, run.output
    table = [line for line in run.stdout.splitlines() if line[:1] in "┏┃┡│└"]
    assert {len(line) for line in table} <= {*range(80 + 1)}
    assert len({len(line) for line in table}) == 1  # none is cut at the right
    assert all(line[-1] in "┓┃┩│┘" for line in table)
    return run.stdout


def words_of(text):
    """Cells of a table, each in one piece."""
    return {word for line in text.splitlines() for cell in line.split("│") for word in cell.split()}


def test_advise_shows_its_splits_whole():
    out = call("advise", "molecules", "--seconds", 0)
    assert ELLIPSIS not in out
    assert {"degree,", "attr(edge_attr),", "relations", "parameters"} <= words_of(out.replace("┃", "│"))


def test_tune_shows_its_values_whole(tmp_path):
    space = ("lr=1e-4..2e-4", "weight_decay=1e-5..1e-4", "dropout=0.0|0.2|0.5", "residual=false|true")
    vary = [word for each in space for word in ("--vary", each)]
    out = call("tune", *SMALL, "--trials", 6, *vary, "--metric", "rmse", "--out", tmp_path)
    assert ELLIPSIS not in out
    rates = [word for word in words_of(out) if word.startswith("0.0001")]
    assert rates
    assert all(len(word) >= 8 for word in rates)


def test_data_list_and_train_show_names_whole(tmp_path):
    assert ELLIPSIS not in call("data", "list", "--data", tmp_path)
    out = call("train", *SMALL, "--model", "gated-gcn,mrs-gated-gcn", "--lr", "0.00012,0.0034", "--out", tmp_path)
    assert ELLIPSIS not in out
    assert "mrs-gated-gcn," in words_of(out)


def test_inspect_shows_its_splits_whole():
    assert ELLIPSIS not in call("inspect", "molecule")


def test_rich_table_breaks_headers_before_cells():
    header = [f"a-very-long-header-{number}" for number in range(6)]
    console = Console(width=80, record=True)
    console.print(rich_table("title", header, [["12345678"] * 6], ""))
    text = console.export_text()
    assert text.count("12345678") == 6
    assert ELLIPSIS not in text

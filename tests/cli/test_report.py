import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.experiments import Ledger
from tests.report.document import read
from tests.report.samples import depth_runs, depth_table, directed_table, node_runs


def report(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    """A folder with runs, a table and a figure, as commands leave them; the working folder holds it."""
    monkeypatch.chdir(tmp_path)
    runs, folder = depth_runs()[:6], tmp_path / "outputs"
    for run in runs:
        Ledger(folder / "ledger.jsonl").append(run)
    (folder / "tables").mkdir()
    (folder / "tables" / "depth.json").write_text(depth_table(runs).to_json())
    (folder / "figure-2").mkdir()
    (folder / "figure-2" / "figure-2.svg").write_text("<svg/>")
    spec = {"seeds": 3, "layers": 16, "graphs": "molecules", "split": "degree"}
    (folder / "figure-2" / "figure-2.json").write_text(json.dumps({"spec": spec}))
    return folder


def test_page_of_all_that_is_there(outputs):
    run = report()
    assert run.exit_code == 0, run.output
    assert run.stdout == f"The report of 6 runs and 1 table is in {Path('outputs/report.html')}.\n"
    document = read((outputs / "report.html").read_text("utf-8"))
    assert len(document.one("section", id="runs").one("tbody").all("tr")) == 6
    assert document.one("section", id="table-depth")
    assert document.one("figcaption").text == "Figure 2: 3 seeds, 16 layers, molecules, split by degree"


def test_other_places(outputs, tmp_path):
    moved = outputs.rename(tmp_path / "moved")
    run = report("--ledger", moved / "ledger.jsonl", "--tables", moved / "tables", "--out", tmp_path / "new" / "a.html")
    assert run.exit_code == 0, run.output
    assert "6 runs and 1 table" in run.stdout
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.html"]


def test_a_folder_of_results(outputs, tmp_path):
    moved = outputs.rename(tmp_path / "moved")
    run = report("--out", moved)
    assert run.stdout == f"The report of 6 runs and 1 table is in {moved / 'report.html'}.\n"
    other = (moved / "ledger.jsonl").rename(tmp_path / "other.jsonl")
    assert "0 runs and 1 table" in report("--out", moved).stdout
    assert "6 runs and 1 table" in report("--out", moved, "--ledger", other).stdout  # what is named counts


def test_copies_of_a_result_count_once(outputs):
    lines = (outputs / "ledger.jsonl").read_text().splitlines()
    later = json.dumps({**json.loads(lines[0]), "finished_at": "2031-01-01T00:00:00+00:00"})
    slower = json.dumps({**json.loads(lines[0]), "seconds": 1e6})  # trained a second time
    (outputs / "ledger.jsonl").write_text("\n".join([*lines, later]) + "\n")
    assert "6 runs and" in report("--out", outputs).stdout
    (outputs / "ledger.jsonl").write_text("\n".join([*lines, slower]) + "\n")
    assert "7 runs and" in report("--out", outputs).stdout


def test_named_ledger_shows_only_what_belongs_to_it(outputs, tmp_path):
    other = tmp_path / "other" / "ledger.jsonl"
    runs = depth_runs()[6:12]
    for run in runs:
        Ledger(other).append(run)
    page = tmp_path / "a.html"
    # neither tables nor figures of `outputs`
    assert "6 runs and 0 tables" in report("--ledger", other, "--out", page).stdout
    assert not read(page.read_text("utf-8")).all("figure")
    (other.parent / "tables").mkdir()
    (other.parent / "tables" / "directed.json").write_text(directed_table(node_runs()).to_json())
    (other.parent / "tables" / "depth.json").write_text(depth_table(runs).to_json())
    assert "6 runs and 1 table" in report("--ledger", other, "--out", page).stdout
    document = read(page.read_text("utf-8"))
    assert document.one("section", id="table-depth")
    assert not document.all("section", id="table-directed")


def test_named_ledger_leaves_out_numbers_of_other_runs(outputs, tmp_path):
    """Two ledgers beside one folder of tables: a mean over runs of both belongs to neither."""
    runs = depth_runs()
    other = outputs / "other.jsonl"
    for run in runs[6:10]:  # all three seeds of a cell, and one of the next
        Ledger(other).append(run)
    (outputs / "tables" / "depth.json").write_text(depth_table(runs[:12]).to_json())
    page = tmp_path / "a.html"
    assert "4 runs and 1 table" in report("--ledger", other, "--out", page).stdout
    shown = read(page.read_text("utf-8")).one("section", id="table-depth").all("a")
    keys = [key for link in shown for key in link.attributes.get("data-runs", "").split()]
    assert sorted(keys) == sorted(run.key for run in runs[6:9])


def test_nothing_yet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert report().exit_code == 0
    assert "graphprism reproduce --help" in (tmp_path / "outputs" / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--ledger", "nowhere.jsonl"], "nowhere.jsonl: there is no such file"),
        (["--tables", "nowhere"], "nowhere: there is no such file or folder"),
        ([], "; run its command again or remove the file"),
    ],
)
@pytest.mark.parametrize("bad", ["{", "[]", '{"cells": [1]}', '{"cells": [], "rows": []}'])
def test_wrong_input_is_one_sentence_and_writes_nothing(outputs, arguments, words, bad):
    (outputs / "tables" / "bad.json").write_text(bad)
    run = report(*arguments)
    assert run.exit_code == 2
    assert words in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert not (outputs / "report.html").exists()


def test_torn_line_of_the_ledger_is_said_and_skipped(outputs):
    with (outputs / "ledger.jsonl").open("a") as ledger:
        ledger.write('{"key": "to')
    run = report()
    assert run.exit_code == 0, run.output
    assert "6 runs" in run.stdout
    assert run.stderr.startswith("warning: ")
    assert "line 7: skipped" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_old_page_stays_where_the_new_one_cannot_be_written(outputs):
    (outputs / "page").mkdir()
    (outputs / "page" / "report.html").mkdir()
    (outputs / "page" / "report.html" / "in the way").touch()
    run = report("--out", outputs / "page")
    assert run.exit_code == 2
    assert run.stderr.startswith("error: ")
    assert [path.name for path in outputs.rglob("*") if path.name.endswith(".tmp")] == []

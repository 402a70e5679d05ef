import importlib
import json
import re
import signal
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.cli.reproduce import command_of
from graphprism.datasets import molecules, save
from graphprism.experiments import TABLES, TRAINING_LOSS, Ledger, Measured, Option, Settings
from graphprism.experiments.plan import plan, runs_to_do
from graphprism.experiments.tables.figure_2 import one_thread
from graphprism.experiments.tables.memory import MEMORY
from graphprism.results import CellStatus, TableResult
from tests.experiments.results_zoo import make_result

FEW = ("--rows", "GCN", "--columns", "Test (MAE)", "--seeds", "1", "--epochs", "2", "--engine", "eager")
PROTOCOL = "NOT THE PUBLISHED PROTOCOL: 2 epochs"


def reproduce(*words):
    return CliRunner().invoke(app, ["reproduce", *map(str, words)])


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A few molecules under the names of the real data sets."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("zinc12k", "zinc"):
        save(replace(molecules(48), name=name), folder / f"{name}.npz")
    return folder


@pytest.fixture(scope="module")
def orderings(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    return out, reproduce("orderings-64", *FEW, "--data", data, "--out", out)


def test_prints_and_writes_the_table(orderings):
    out, run = orderings
    assert run.exit_code == 0, run.output
    for words in (PROTOCOL, "MRS-GCN (random)", "0.404±0.011", "tables/orderings-64-2-epochs.json"):
        assert words in run.stdout
    assert max(map(len, run.stdout.splitlines()[:-1])) <= 100
    assert "1 of 1 run done" in run.stderr
    table = TableResult.from_json((out / "tables" / "orderings-64-2-epochs.json").read_text("utf-8"))
    assert table.cell("GCN", "Test (MAE)").ours.count == 1
    assert table.cell("MRS-GCN (PPR)", "Test (MAE)").status is CellStatus.NOT_RUN


def test_same_command_takes_all_from_the_ledger(orderings, data):
    out, run = orderings
    before = (out / "ledger.jsonl").read_bytes()
    again = reproduce("orderings-64", *FEW, "--data", data, "--out", out)
    assert again.stdout == run.stdout
    assert (out / "ledger.jsonl").read_bytes() == before


def test_dry_run_says_what_is_left_and_writes_nothing(orderings, data, tmp_path):
    out, _ = orderings
    words = ("orderings-64", "--rows", "GCN", "--epochs", "2", "--dry-run", "--data", data, "--engine", "eager")
    run = reproduce(*words, "--out", tmp_path / "new")
    assert run.exit_code == 0, run.output
    assert "gcn, 8 layers, lr 0.0003, zinc12k: 3 runs" in run.stdout
    assert "6 of 6 runs to do (0 are in the ledger), 24 steps; 6 runs of unknown time" in run.stdout
    assert not (tmp_path / "new").exists()
    run = reproduce(*words, "--out", out)
    assert "5 of 6 runs to do (1 are in the ledger), 20 steps; about " in run.stdout
    assert " s by like runs on this machine." in run.stdout


@pytest.mark.parametrize("name", [table.name for table in TABLES])
def test_dry_run_of_every_table_writes_nothing(name, tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("must not use the network"))
    run = reproduce(name, "--dry-run", "--data", tmp_path, "--out", tmp_path / "out")
    assert run.exit_code == 0, run.output
    assert re.search(r"\d+ (of \d+ )?(runs|rows) to do", run.stdout.splitlines()[-1])
    assert list(tmp_path.iterdir()) == []


def test_dry_run_of_measured_tables_names_their_steps(tmp_path):
    assert reproduce("memory", "--dry-run", "--seeds", "2", "--out", tmp_path).stdout.splitlines() == [
        "GCN: 2 runs", "MRS-GCN: 2 runs", "4 runs to do; nothing is kept between calls."
    ]  # fmt: skip
    lines = reproduce("figure-2", "--dry-run", "--models", "gcn,sage", "--graphs", "cora").stdout.splitlines()
    assert lines == ["gcn: 10 runs", "sage: 10 runs", "20 runs to do; nothing is kept between calls."]


def test_names_of_tables_are_unique():
    assert len({table.name for table in TABLES}) == len(TABLES)


def test_command_of_a_new_table_has_its_options(tmp_path, monkeypatch):
    monkeypatch.delenv("GRAPHPRISM_DATA", raising=False)  # the command prints it

    def measure(data, on_step, count, word):
        for number in range(count):
            on_step(f"step {number}")
        return f"{word} {data}"

    def write(result, out):
        out.mkdir()
        (out / "new.txt").write_text(result)
        return [out / "new.txt"]

    options = (Option("count", int, 3, "How many."), Option("word", str | None, None, "A word."))
    table = Measured(
        "new", "A new table.", measure, lambda data, count, word: ["step"] * count, options, "row", write, str.upper
    )
    group = typer.Typer(callback=lambda: None)
    group.command("new", help=table.help)(command_of(table))
    run = CliRunner().invoke(group, ["new", "--count", "2", "--word", "hello", "--out", str(tmp_path / "out")])
    assert run.exit_code == 0, run.output
    assert run.stdout.splitlines() == ["HELLO NONE", f"Written: {tmp_path / 'out' / 'new.txt'}."]
    assert run.stderr.splitlines() == ["1 of 2 rows done", "2 of 2 rows done"]
    assert (tmp_path / "out" / "new.txt").read_text() == "hello None"
    assert "How many." in CliRunner().invoke(group, ["new", "--help"]).stdout


def test_dry_run_fetches_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("must not use the network"))
    run = reproduce("zinc", "--dry-run", "--data", tmp_path, "--out", tmp_path)
    assert "36 of 36 runs to do (0 are in the ledger), 0 steps and those on zinc, fetched first" in run.stdout
    assert list(tmp_path.iterdir()) == []


def test_training_loss_draws_its_curves(data, tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for run in runs_to_do(plan(TRAINING_LOSS, Settings(seeds=2))):
        ledger.append(make_result(run))
    run = reproduce("training-loss", "--seeds", "2", "--data", data, "--out", tmp_path)
    assert run.exit_code == 0, run.output
    folder = tmp_path / "training-loss"
    assert (folder / "training-loss.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (folder / "training-loss.svg").read_text("utf-8")
    assert str(folder / "training-loss.svg") in run.stdout
    assert "+0.047" in run.stdout


def test_parameters_are_exact(tmp_path):
    run = reproduce("parameters", "--out", tmp_path)
    assert run.exit_code == 0, run.output
    table = TableResult.from_json((tmp_path / "tables" / "parameters.json").read_text("utf-8"))
    gaps = {cell.row: cell.gap for cell in table.cells if cell.column == "Parameters" and cell.gap is not None}
    assert gaps == {**dict.fromkeys(gaps, 0.0), "MRS-GCN": -16.0}
    assert len(gaps) == 11
    assert {cell.gap for cell in table.cells if cell.column == "Width"} == {0.0, None}
    assert table.cell("GAT+degree", "Parameters").ours.mean == 497_151


def test_runtime_times_every_step(data, tmp_path):
    run = reproduce("runtime", "--repeats", "2", "--data", data, "--out", tmp_path)
    assert run.exit_code == 0, run.output
    table = TableResult.from_json((tmp_path / "tables" / "runtime.json").read_text("utf-8"))
    assert len(table.cells) == 23  # GCN neither orders nor splits
    assert all(cell.ours.mean > 0 for cell in table.cells)
    assert any("zinc12k" in note for note in table.notes)


@pytest.mark.slow  # it takes a new interpreter, not the fork of one
def test_memory_is_that_of_a_process_of_its_own(data, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("graphprism.experiments.tables.memory"), "MEMORY", MEMORY[:1])
    fat = bytearray(1_000_000_000)  # of this process: a count that a child takes over from its parent would show it
    fat[::4096] = b"1" * len(fat[::4096])
    run = reproduce("memory", "--seeds", "1", "--data", data, "--out", tmp_path)
    assert run.exit_code == 0, run.output
    table = json.loads((tmp_path / "tables" / "memory.json").read_text("utf-8"))
    main = {cell["row"]: cell["ours"]["mean"] for cell in table["cells"] if cell["column"].startswith("Main")}
    assert list(main) == ["GCN"]
    assert 0.1 < main["GCN"] < 1.1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("depth", "--rows", "GCN,nix"), "`rows` must be among GCN, MRS-GCN,"),
        (("depth", "--columns", "3"), "`columns` must be among 1, 2, 4, 8, 16, 32, got 3"),
        (("zinc", "--seeds", "0"), "`seeds` must be at least 1, got 0"),
        (("zinc", "--epochs", "-1"), "`epochs` must be at least 1, got -1"),
        (("peptides", "--grid", "half"), "`grid` must be one of ['best', 'full'], got 'half'"),
        (("peptides", "--engine", "warp"), "`engine` must be one of"),
        (("runtime", "--repeats", "0"), "`repeats` must be at least 1, got 0"),
        (("memory", "--seeds", "0"), "`seeds` must be at least 1, got 0"),
    ],
)
def test_wrong_values_are_one_sentence(tmp_path, arguments, words):
    fails_in_one_sentence(words, *arguments, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def fails_in_one_sentence(words, *arguments):
    run = reproduce(*arguments)
    assert run.exit_code == 2, run.output
    errors = [line for line in run.stderr.splitlines() if line.startswith("error: ")]
    assert words in errors[0]
    assert len(errors) == 1
    assert "Traceback" not in run.output


def test_unknown_table_is_an_error():
    run = reproduce("table-9")
    assert run.exit_code == 2
    assert "No such command 'table-9'" in run.stderr


def test_missing_data_is_one_sentence(tmp_path, monkeypatch):
    def no_network(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    (tmp_path / "data").mkdir()
    fails_in_one_sentence("put zinc12k.npz into", "depth", "--data", tmp_path / "data", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_damaged_data_is_one_sentence(tmp_path):
    (tmp_path / "zinc12k.npz").write_bytes(b"nothing")
    fails_in_one_sentence("replace the file by a whole copy", "depth", "--data", tmp_path, "--out", tmp_path / "out")


SMALL_FIGURE = ("figure-2", "--models", "gcn", "--graphs", "molecules", "--seeds", "1", "--layers", "2")


@pytest.mark.parametrize("table", [SMALL_FIGURE, ("orderings-64", *FEW)])
def test_folder_that_cannot_be_written_is_one_sentence(data, tmp_path, table):
    (tmp_path / "file").write_text("")
    more = () if table == SMALL_FIGURE else ("--data", data)
    fails_in_one_sentence("Not a directory", *table, *more, "--out", tmp_path / "file" / "out")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_full_disk_is_one_sentence_and_the_same_command_goes_on(data, tmp_path):
    (tmp_path / "ledger.jsonl").symlink_to("/dev/full")
    words = ("orderings-64", *FEW, "--data", data, "--out", tmp_path)
    fails_in_one_sentence("could not be added to the ledger: No space left on device", *words)
    assert not (tmp_path / "tables").exists()
    (tmp_path / "ledger.jsonl").unlink()
    assert reproduce(*words).exit_code == 0


def test_ctrl_c_says_that_the_same_command_goes_on(warm_python, data, tmp_path):
    (tmp_path / "ledger.jsonl").write_text('{"torn')
    words = ("orderings-64", "--rows", "GCN", "--epochs", "100000", "--data", data, "--out", tmp_path)
    process = warm_python.start("-m", "graphprism", "reproduce", *words)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list((tmp_path / "checkpoints").glob("*/*")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130, errors
    lines = errors.strip().splitlines()
    assert lines[-1] == "stopped; the same command resumes"
    skipped = f"warning: {tmp_path / 'ledger.jsonl'}, line 1: skipped, it does not hold a whole result"
    assert sum(line.startswith(skipped) for line in lines) == 1
    assert not (tmp_path / "tables").exists()


def test_epochs_on_a_terminal(data, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    run = reproduce("orderings-64", *FEW, "--data", data, "--out", tmp_path)
    assert run.exit_code == 0, run.output
    assert "1/1" in run.stderr

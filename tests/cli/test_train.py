import os
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphprism import cli
from graphprism.cli.app import app
from graphprism.cli.run_training import train_runs
from graphprism.datasets import molecules, save
from graphprism.experiments import Ledger
from graphprism.training import Run
from tests.datasets.small_sets import one_graph

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2]), "OMP_NUM_THREADS": "1"}
SMALL = ["--dataset", "small", "--accelerator", "cpu", "--layers", "2", "--warmup", "0", "--epochs", "3"]
SMALL_RUN = {"dataset": "small", "layers": 2, "warmup": 0, "epochs": 3, "width": 8}
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    save(molecules(120), folder / "small.npz")
    save(one_graph(), folder / "nodes.npz")
    return folder


@pytest.fixture
def out(tmp_path):
    return tmp_path / "new" / "folder"


def run(data, out, *arguments, width=True):
    words = ["train", *SMALL, "--data", data, "--out", out, *(["--width", "8"] if width else []), *arguments]
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "150"})


@pytest.fixture(scope="module")
def first(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out")
    return folder, run(data, folder, "--budget", "3000", width=False)


def test_plan_table_and_sentence(first):
    _, done = first
    assert done.exit_code == 0, done.output
    assert "small: 100 / 10 / 10 graphs for training, validation and test, regression by mae." in done.stdout
    assert re.search(r"^gcn: 2 layers, width \d\d, \d,\d\d\d parameters\.$", done.stdout, re.MULTILINE)
    assert "mrs-gcn by degree: 2 layers, shared start, decay 1000, width " in done.stdout
    assert "3 epochs of batches of 32, adamw, learning rate 0.001, cosine, gradients clipped at 1" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.startswith("│")]
    assert [row.split("│")[1].strip() for row in rows] == ["gcn", "mrs-gcn"]
    assert re.search(r"^mrs-gcn's error is \d+ % (below|above) gcn's ", done.stdout, re.MULTILINE)


def test_table_shows_what_the_ledger_holds(first):
    folder, done = first
    results = Ledger(folder / "ledger.jsonl").read()
    assert [result.run["model"] for result in results] == ["gcn", "mrs-gcn"]
    for result in results:
        shown = f"{result.parameters:,}", f"{result.smallest('train_loss'):.4f}", f"{result.at_best('test'):.4f}"
        assert all(number in done.stdout for number in shown)
        assert f"width {result.width}, {result.parameters:,} parameters" in done.stdout


def test_progress_is_a_few_plain_lines(first):
    _, done = first
    assert len(done.stderr.splitlines()) == 6
    assert done.stderr.startswith("gcn seed 0 epoch 1/3 loss ")
    assert not CONTROL.search(done.stderr)
    assert not CONTROL.search(done.stdout)


def test_bar_on_a_terminal(data, out, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = run(data, out, "--model", "gcn")
    assert done.exit_code == 0, done.output
    assert "epoch 3/3 loss" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stderr)


def test_finished_runs_are_read_and_said_so(first, data):
    folder, done = first
    before = (folder / "ledger.jsonl").read_bytes()
    again = run(data, folder, "--budget", "3000", width=False)
    assert again.exit_code == 0
    assert again.stdout == done.stdout
    assert again.stderr.count(f"finished before, read from {folder / 'ledger.jsonl'}") == 2
    assert (folder / "ledger.jsonl").read_bytes() == before


def test_fresh_trains_again_and_gives_the_same_bits(data, out):
    for arguments in ([], ["--fresh"]):
        done = run(data, out, "--model", "gcn", *arguments)
        assert done.exit_code == 0, done.output
        assert "epoch 1/3" in done.stderr
    once, twice = Ledger(out / "ledger.jsonl").read()
    assert once.history["val"] == twice.history["val"]


def test_fresh_does_not_need_a_checkpoint_that_can_be_read(data, out):
    checkpoint = out / "checkpoints" / Run(**SMALL_RUN, model="gcn").key / "checkpoint.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"damaged")
    done = run(data, out, "--model", "gcn")
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
    assert "checkpoint.pt" in done.stderr
    assert run(data, out, "--model", "gcn", "--fresh").exit_code == 0


def test_every_option_reaches_the_run(data, out):
    said = {"split": "core", "jk": "max", "pe": 2, "norm": "batch", "dropout": 0.1, "optimizer": "adam", "clip": 0.5}
    more = {"weight_decay": 0.01, "schedule": "constant", "batch_size": 50, "precision": "float64"}
    more |= {"start": "independent", "decay": 5.0}
    words = [word for name, value in {**said, **more}.items() for word in (f"--{name.replace('_', '-')}", value)]
    done = run(data, out, "--model", "mrs-sage", "--residual", "--lr", "0.01", "--seeds", "5", *words)
    assert done.exit_code == 0, done.output
    (result,) = Ledger(out / "ledger.jsonl").read()
    assert Run.from_dict(result.run) == Run(
        **SMALL_RUN, **said, **more, model="mrs-sage", residual=True, lr=0.01, seed=5
    )
    network = "2 layers, residual, jk max, pe 2, batch norm, independent start, dropout 0.1, width 8"
    assert f"mrs-sage by core: {network}" in done.stdout


def test_targets_of_nodes_are_trained_by_the_same_command(data, out):
    done = run(data, out, "--dataset", "nodes")
    assert done.exit_code == 0, done.output
    results = Ledger(out / "ledger.jsonl").read()
    assert [(result.run["model"], result.metric, result.run["batch_size"]) for result in results] == [
        ("dir-gcn", "accuracy", None),
        ("mrs-dir-gcn", "accuracy", None),
    ]
    assert "nodes for training, validation and test, multiclass by accuracy" in done.stdout
    assert "3 epochs of the whole graph, at most, 400 without a better validation score" in done.stdout


def test_a_split_has_one_spelling():
    options = {"model": "mrs-gcn", "seeds": "0", "folds": "0"}
    written = "degree*attr(edge_attr,4);ppr", "degree  *  attr(edge_attr, 4) ; ppr"
    (one,), (other,) = (train_runs({**options, "split": each}, molecules(12)) for each in written)
    assert one.key == other.key
    assert one.split == "degree * attr(edge_attr, 4); ppr"


def test_several_rates_and_seeds(data, out):
    done = run(data, out, "--model", "gcn", "--lr", "0.1,0.01", "--seeds", "0..1", "--epochs", "1")
    assert done.exit_code == 0, done.output
    assert len(Ledger(out / "ledger.jsonl").read()) == 4
    assert "gcn, lr 0.01" in done.stdout
    assert "mean and deviation of 2 seeds" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "mrs-gnc"], "did you mean mrs-gcn?"),
        (["--dataset", "smal"], "did you mean small?"),
        (["--dataset", "xyzzy"], "xyzzy: no data set of that name in or for"),
        (["--dataset", "missing.npz"], "missing.npz: there is no such file"),
        (
            ["--dataset", "nodes", "--batch-size", "8"],
            "`batch_size` must be None (the whole graph) for targets of nodes",
        ),
        (["--dataset", "nodes", "--folds", "9"], "`fold` must be in [0, "),
        (["--split", "degre"], "degre"),
        (["--norm", "nix"], "nix"),
        (["--layers", "0"], "`layers` must be at least 1, got 0"),
        (["--lr", "0"], "`lr` must be above 0"),
        (["--seeds", "8..0"], "`seeds` must be numbers or ranges such as 0, 0..8 or 0,1,5, got '8..0'"),
        (["--engine", "lockstp"], "did you mean lockstep?"),
        (["--engine", "lockstep"], "`engine` must be auto or eager"),
        (["--accelerator", "tpu"], "`accelerator` must be one of auto, cpu, cuda, got 'tpu'"),
        (["--accelerator", "cuda", "--devices", "99"], "and 99 are asked for"),
    ],
)
def test_wrong_input_is_one_sentence_and_writes_nothing(data, out, arguments, words):
    done = run(data, out, *arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.startswith("error: ")
    # lines that are indented show the place in a split
    assert all(line.startswith("  ") for line in done.stderr.splitlines()[1:])
    assert done.stdout == ""
    assert not out.parent.exists()


def test_budget_too_small_is_one_sentence(data, out):
    done = run(data, out, "--budget", "5", width=False)
    assert done.exit_code == 2
    assert "`budget` must allow a width of 1" in done.stderr
    assert not out.parent.exists()


def test_out_that_is_a_file(data, tmp_path):
    (tmp_path / "file").write_text("mine")
    done = run(data, tmp_path / "file")
    assert done.exit_code == 2
    assert "no results can be written there" in done.stderr
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk without room")
def test_full_disk(data, out):
    out.mkdir(parents=True)
    (out / "ledger.jsonl").symlink_to("/dev/full")
    done = run(data, out, "--model", "gcn")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith(f"error: {out / 'ledger.jsonl'}: a result could not be added")


def test_diverged(data, out):
    done = run(data, out, "--model", "gcn", "--lr", "1e38", "--clip", "0")
    assert done.exit_code == 1
    (result,) = Ledger(out / "ledger.jsonl").read()
    assert result.status == "diverged"
    assert "diverged, its loss was not a finite number; try a smaller learning rate than 1e+38" in done.stderr
    again = run(data, out, "--model", "gcn", "--lr", "1e38", "--clip", "0")
    assert again.exit_code == 1
    assert "diverged before, read from" in again.stderr
    assert len(Ledger(out / "ledger.jsonl").read()) == 1


def test_interrupted_run_goes_on(warm_python, data, out):
    words = ["--model", "gcn", "--width", "8", "--epochs", "160"]
    command = ["-m", "graphprism", "train", *SMALL, *words, "--data", data, "--out", out]
    with warm_python.start("-W", "ignore", *command) as process:
        assert "epoch 20/160" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    found = re.fullmatch(r"(?:.*\n)*.*: stopped after epoch (\d+); the same command resumes\n", said)
    assert found, said
    assert "Traceback" not in said
    assert not (out / "ledger.jsonl").exists()
    done = run(data, out, *words)
    assert done.exit_code == 0, done.output
    epochs = [int(epoch) for epoch in re.findall(r"epoch (\d+)/160", done.stderr)]
    assert epochs[0] > int(found[1]) >= 20
    (result,) = Ledger(out / "ledger.jsonl").read()
    assert len(result.history["val"]) == 160


def test_interrupted_before_the_first_epoch(warm_python, tmp_path, out):
    save(molecules(1000), tmp_path / "many.npz")  # an epoch of seconds
    words = ["--dataset", "many", "--batch-size", "1", "--data", tmp_path, "--out", out]
    with warm_python.start("-W", "ignore", "-m", "graphprism", "train", *SMALL, *words) as process:
        assert process.stdout.readline().startswith("many: 834 / 83")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert said == "stopped before an epoch was finished; the same command starts where this one did\n"


@pytest.mark.filterwarnings("default:the `edge_weight`")
def test_train_on_weighted_edges(data, out):
    graph = one_graph()
    weight = 1.0 + graph.edge_index.sum(0) % 3
    for name, given in (("heavy", weight), ("signed", -weight)):
        save(replace(graph, name=name, edge_weight=given), data / f"{name}.npz")
    done = run(data, out, "--dataset", "heavy", "--model", "gcn,pyg-rgcn", "--seeds", "0..1")
    assert done.exit_code == 0, done.output
    assert "multiclass by accuracy, edges weighted." in done.stdout.splitlines()[0]
    told = "warning: the `edge_weight` of heavy is ignored: pyg-rgcn takes edges without weights\n"
    assert done.stderr.count(told) == 1
    refused = run(data, out, "--dataset", "signed", "--model", "gin,gcn")
    assert refused.exit_code == 2
    assert refused.stderr.startswith(
        "error: `edge_weight` must not be negative with gcn, which divides by sums of weights"
    )
    assert refused.stderr.count("\n") == 1

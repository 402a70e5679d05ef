"""Options and data sets that ask for much, or for nothing."""

import os
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from graphprism.analysis import certify
from graphprism.cli.app import app
from graphprism.cli.run_training import parse_numbers, train_runs
from graphprism.datasets import molecules, save
from graphprism.splitting import by_attribute, by_order
from graphprism.training import Task


@pytest.mark.parametrize("text", ["0..99999999999", "0..100000", "0..60000,100000..160000", "0..999999999999999999"])
def test_parse_numbers_refuses_more_than_can_be_run(text):
    with pytest.raises(ValueError, match="`seeds` must be at most 100,000 numbers, got '0"):
        parse_numbers("seeds", text)


@pytest.mark.parametrize("text", ["9" * 19, "0.." + "9" * 5000, "9" * 5000])
def test_parse_numbers_refuses_numbers_beyond_64_bits(text):
    with pytest.raises(
        ValueError, match=r"^`seeds` must be numbers or ranges such as 0, 0\.\.8 or 0,1,5, got '[09.]{1,60}'$"
    ):
        parse_numbers("seeds", text)


def test_train_runs_refuses_more_runs_than_can_be_run():
    options = {"model": "gcn", "seeds": "0..999", "folds": "0..999"}
    with pytest.raises(ValueError, match="must make at most 100,000 runs, got 1,000,000"):
        train_runs(options, molecules(12))


def test_train_on_a_set_without_training_graphs(tmp_path):
    dataset = molecules(12)
    dataset = replace(dataset, split=torch.ones_like(dataset.split))
    with pytest.raises(ValueError, match="`dataset` must have a graph for training, got PackedDataset"):
        Task.of(dataset)
    save(dataset, tmp_path / "a.npz")
    options = ["--dataset", str(tmp_path / "a.npz"), "--epochs", "1", "--out", str(tmp_path)]
    run = CliRunner().invoke(app, ["train", *options])
    assert run.exit_code == 2, run.output
    assert "must have a graph for training" in run.stderr


@pytest.mark.parametrize("largest", [10**6, 10**12, 2**61])
@pytest.mark.parametrize("given", [False, True])
def test_certify_relations_whose_numbers_are_far_apart(largest, given):
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    data = Data(edge_index=edges, num_nodes=4, edge_type=torch.tensor([0, 1, 2, largest]))
    near = Data(edge_index=edges, num_nodes=4, edge_type=torch.arange(4))
    certificate = certify(data, num_relations=largest + 1 if given else None)
    assert [relation.name for relation in certificate.relations] == ["0", "1", "2", str(largest)]
    assert certificate.rank == certify(near).rank


def test_certify_many_relations_of_which_few_occur():
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    data = Data(edge_index=edges, num_nodes=4, edge_type=torch.tensor([0, 1, 1, 0]))
    assert len(certify(data, num_relations=10**12).relations) == 2
    with pytest.raises(ValueError, match=r"`edge_type` must hold numbers in \[0, 1\), got 1"):
        certify(data, num_relations=1)


def test_certify_refuses_relations_that_are_floats():
    data = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, edge_type=torch.tensor([1e12]))
    with pytest.raises(TypeError, match="`edge_type` must hold integers"):
        certify(data)


def test_splits_of_many_relations_have_no_names():
    many = by_attribute("bond", 10**12)
    assert many.names is None
    assert (by_order("degree") * many).names is None
    assert by_attribute("bond", 3).names == ("0", "1", "2")


@pytest.mark.parametrize("option", ["--ledger", "--tables"])
def test_report_of_a_pipe(tmp_path, option):
    os.mkfifo(tmp_path / "pipe")
    run = CliRunner().invoke(app, ["report", option, str(tmp_path / "pipe"), "--out", str(tmp_path / "a.html")])
    assert run.exit_code == 2, run.output
    assert "pipe: must be a f" in run.stderr


def test_report_of_a_table_that_is_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "a.json")
    run = CliRunner().invoke(app, ["report", "--tables", str(tmp_path), "--out", str(tmp_path / "a.html")])
    assert run.exit_code == 2, run.output
    assert "a.json: not a table (must be a file, got a pipe" in run.stderr

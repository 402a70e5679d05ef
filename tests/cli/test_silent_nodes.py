"""Who is told that a model does not read the features of nodes without messages."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.cli.silent_nodes import silent_nodes
from graphprism.datasets import from_data, molecules, save
from graphprism.ledger import Ledger
from graphprism.nn import BASELINES, CONVOLUTIONS
from graphprism.training import Run

RUN = Run("own", layers=2, width=8, batch_size=None)


def star():
    """Nodes 0 to 3 send to 4, and 5 to 9 are alone."""
    edges = torch.tensor([[0, 1, 2, 3], [4, 4, 4, 4]])
    return from_data(Data(x=torch.rand(10, 3), edge_index=edges, y=torch.arange(10) % 2), shares=(0.6, 0.2, 0.2))


def test_nodes_without_messages_are_counted_by_model():
    models = ("gcn", "mrs-gcn", "dir-gcn", "sage", "mlp")
    among, alone = silent_nodes([replace(RUN, model=model) for model in models], star())
    assert among.startswith("9 of 10 nodes receive no message: gcn and mrs-gcn predict the same for all of them")
    assert alone.startswith("5 of 10 nodes receive no message: dir-gcn predicts the same")


def test_loops_residuals_and_graphs_leave_nothing_to_say():
    assert silent_nodes([replace(RUN, model="gcn", self_loops=True)], star()) == []
    assert silent_nodes([replace(RUN, model="gcn", residual=True, encode=True)], star()) == []
    assert silent_nodes([Run(model="gcn")], molecules(12)) == []
    assert silent_nodes([replace(RUN, model="gcn", undirected=True)], star())[0].startswith("5 of 10")


@pytest.mark.parametrize("model", sorted(set(CONVOLUTIONS) - set(BASELINES)))
def test_every_convolution_is_asked(model):
    silent_nodes([replace(RUN, model=model)], star())


@pytest.mark.parametrize(
    "options", [{"split": "degree; ppr"}, {"learned_split": True}, {"precision": "float64"}, {"jk": "lstm"}]
)
def test_options_of_the_network_change_nothing(options):
    assert len(silent_nodes([replace(RUN, model="mrs-gcn", **options)], star())) == 1


def test_networks_of_remedies_are_left_out():
    assert silent_nodes([replace(RUN, model="gcn", remedy="pairnorm")], star()) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "9 of 10 nodes receive no message: gcn predicts the same for all of them"),
        (["--undirected"], "5 of 10 nodes receive no message: gcn predicts the same for all of them"),
        (["--self-loops"], ""),
    ],
)
def test_train_says_so(tmp_path, more, said):
    save(star(), tmp_path / "own.npz")
    options = ["--model", "gcn", "--epochs", "1", "--accelerator", "cpu", "--out", str(tmp_path), *more]
    run = CliRunner().invoke(app, ["train", "--dataset", str(tmp_path / "own.npz"), *options], env={"COLUMNS": "200"})
    assert run.exit_code == 0, run.output
    assert said in run.stdout
    assert ("receive no message" in run.stdout) == bool(said)
    (trained,) = Ledger(tmp_path / "ledger.jsonl").read()
    assert (trained.run["self_loops"], trained.run["undirected"]) == (
        more == ["--self-loops"],
        more == ["--undirected"],
    )

"""Layers and orderings of the user's own, by name."""

import re
from dataclasses import replace

import pytest
import torch
from torch_geometric.nn import RGCNConv
from typer.testing import CliRunner

import graphprism as gp
from graphprism.cli.app import app
from graphprism.datasets import molecules
from graphprism.nn import CONVOLUTIONS, MODELS, Convolution, MRSGCNConv, register_convolution
from graphprism.splitting import ORDERINGS, by_order, parse_split, register_ordering, split_text
from graphprism.training import Run, train, train_lockstep
from graphprism.training.train import why_not_lockstep

RUN = Run(model="mrs-gcn", layers=2, width=8, batch_size=16, warmup=0, epochs=2, lr=0.01)
OWN_RUN = {"model": "mrs-own", "split": "own_order"}
OWN = """
import torch
from torch_geometric.nn import RGCNConv
from graphprism.nn import Convolution, MRSGCNConv, register_convolution
from graphprism.splitting import register_ordering

def own_order(graph):
    return -torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)

register_convolution(Convolution("mrs-own", lambda i, o, k: MRSGCNConv(i, o, **k.relational()), relational=True))
rgcn = Convolution("rgcn-own", lambda i, o, k: RGCNConv(i, o, k.num_relations), relational=True, edge_norm=None)
register_convolution(rgcn)
register_ordering("own_order", own_order)
"""


@pytest.fixture(autouse=True)
def _forget():
    """What a test registers is not known to the next one."""
    before = dict(CONVOLUTIONS), dict(ORDERINGS)
    yield
    for known, old in zip((CONVOLUTIONS, ORDERINGS), before, strict=True):
        known.clear()
        known.update(old)


def register():
    own = Convolution("mrs-own", lambda i, o, k: MRSGCNConv(i, o, **k.relational()), relational=True)
    register_convolution(own)
    register_ordering("own_order", lambda graph: -torch.bincount(graph.edge_index[1], minlength=graph.num_nodes))


def test_a_registered_layer_and_ordering_train_as_ours_do(tmp_path):
    with pytest.raises(ValueError, match=r"`model` must be one of .*`nn.register_convolution` makes one of your own"):
        replace(RUN, model="mrs-own")
    register()
    dataset = molecules(40)
    assert MODELS["mrs-own"] is CONVOLUTIONS["mrs-own"]
    assert parse_split("own_order * direction").num_relations == 6
    assert split_text(parse_split("own_order")) == "own_order"
    run = replace(RUN, **OWN_RUN)
    found = train(run, dataset, folder=tmp_path, accelerator="cpu")
    same = train(replace(run, model="mrs-gcn"), dataset, accelerator="cpu")  # the same layer by another name
    assert found.history["train_loss"] == pytest.approx(same.history["train_loss"], rel=1e-5)
    assert gp.load(tmp_path)(dataset).shape == (40, 1)
    assert why_not_lockstep(run, dataset) == "lockstep knows the layers of this package alone, not mrs-own"
    assert [each.engine for each in train_lockstep([run], dataset, accelerator="cpu")] == ["eager"]


def test_names_that_cannot_be_registered():
    make = CONVOLUTIONS["gcn"].factory
    for name in ("Own", "a b", "", "-a", "a--b"):
        with pytest.raises(ValueError, match="`name` of a convolution must be words of a-z and 0-9 with hyphens"):
            register_convolution(Convolution(name, make))
    with pytest.raises(ValueError, match="must be new, got 'gcn', which is one of this package"):
        register_convolution(Convolution("gcn", make))
    with pytest.raises(TypeError, match="`convolution` must be a Convolution, got type"):
        register_convolution(RGCNConv)
    for name in ("Own", "a-b", "", "1a", None):
        with pytest.raises(ValueError, match="`name` of an ordering must be a word of a-z"):
            register_ordering(name, torch.zeros)
    with pytest.raises(ValueError, match="must be new, got 'degree', which is one of this package"):
        register_ordering("degree", torch.zeros)
    with pytest.raises(TypeError, match="`ordering` must be a function from a graph"):
        register_ordering("own", "degree")
    with pytest.raises(ValueError, match="own_order"):
        by_order("own_order")


def test_commands_import_a_file_first(tmp_path):
    file = tmp_path / "random.py"  # a name that Python has, too
    file.write_text(OWN)
    words = ["train", "--dataset", "molecules", "--model", "mrs-own,rgcn-own", "--split", "own_order", "--layers", "1"]
    words += ["--width", "4", "--epochs", "1", "--batch-size", "512", "--out", tmp_path / "out", "--accelerator", "cpu"]
    without = CliRunner().invoke(app, [str(word).replace("own_order", "degree") for word in words])
    assert without.exit_code == 2
    assert "one of your own is known after `graphprism --import FILE.py`" in re.sub(r"\s+", " ", without.output)
    found = CliRunner().invoke(app, ["--import", str(file), *map(str, words)])
    assert found.exit_code == 0, found.output
    assert "rgcn-own" in found.output
    import random

    assert random.random  # that of Python
    missing = CliRunner().invoke(app, ["--import", str(tmp_path / "none.py"), "doctor"])
    assert missing.exit_code == 2
    assert "there is no such file" in re.sub(r"\W+", " ", missing.output)


def test_a_layer_with_the_arguments_of_pyg_says_how_it_is_called():
    must = r"forward\(x, adj\), got RGCNConv, which takes `edge_type`; a `Convolution` with edge_norm=None"
    options = {"num_layers": 2, "in_channels": 4}
    with pytest.raises(ValueError, match=must):
        gp.nn.GNN(lambda width: RGCNConv(4, width, 3), 4, 2, **options)
    make = Convolution("own", lambda i, o, k: RGCNConv(i, o, k.num_relations), relational=True)
    with pytest.raises(ValueError, match=must):
        gp.nn.GNN(make, 4, 2, **options)
    model = gp.nn.GNN(replace(make, edge_norm=None), 4, 2, **options)
    assert model(torch.rand(3, 4), torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 2])).shape == (3, 2)

"""Files of version 0.1 load, or end in one sentence that says what to do; it wrote ``tests/data``."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from graphprism.datasets import molecules, read
from graphprism.experiments import Ledger
from graphprism.experiments.migrate import migrate
from graphprism.nn import CONVOLUTIONS, GNN, MRSGATConv
from graphprism.training import CheckpointError, Run, load_best, train
from tests.nn.conv.cases import LAYERS
from tests.pins.node_set import node_set

DATA = Path(__file__).parent / "data"
with np.load(DATA / "state_dicts_0_1.npz") as file:
    ARRAYS = {name: file[name] for name in file.files}
INDEX = json.loads(str(ARRAYS["index"]))
# Node networks had one head of attention, and have two.
ONE_HEAD = ("nodes gat", "nodes mrs-gat", "nodes dir-gat", "nodes mrs-dir-gat")
# The run of best_0_1.pt, checkpoint_0_1.pt and of the first line of ledger_0_1.jsonl, on graphs_0_1.npz.
RUN = Run(model="mrs-gcn", layers=2, width=8, epochs=2, batch_size=16, seed=0, start="independent")


def state_and_output(entry):
    """Weights by their names in version 0.1, and what the module gave with them."""
    sizes = [math.prod(shape) for shape in INDEX[entry]["state"].values()]
    *parts, out = torch.from_numpy(ARRAYS[entry]).split([*sizes, math.prod(INDEX[entry]["output"])])
    named = zip(INDEX[entry]["state"].items(), parts, strict=True)
    return {name: part.view(shape) for (name, shape), part in named}, out.view(INDEX[entry]["output"])


def make(entry):
    level, _, name = entry.partition(" ")
    if level == "layer":
        return LAYERS[name](3)
    if level == "graphs":
        return GNN(
            name, 4, 2, 2, in_channels=5, norm="batch", residual=True, jk="cat", readout="sum", start="independent"
        )
    return GNN(name, 4, 3, 2, in_channels=5, encode=False, jk="max", normalize=True)


def run(module, entry):
    x, edges, types = (torch.from_numpy(ARRAYS[name]) for name in ("x", "edge_index", "edge_type"))
    is_plain = not entry.startswith("layer ") and " mrs-" not in entry
    return module.eval()(x, edges.long(), None if is_plain else types.long())


@pytest.mark.parametrize("entry", [entry for entry in INDEX if entry not in ONE_HEAD])
def test_state_dict_gives_the_same_function(entry, tolerance):
    module, (state, out) = make(entry), state_and_output(entry)
    module.load_state_dict(state)
    torch.testing.assert_close(run(module, entry), out, **tolerance(torch.float32))


@pytest.mark.parametrize("name", ["gat", "mrs-gat"])
def test_state_dict_of_attention_loads_into_layers_with_one_head(name, tolerance):
    def one_head(in_channels, out_channels, options):
        relations = options.num_relations
        return MRSGATConv(in_channels, out_channels, num_relations=relations, heads=1)

    conv = replace(CONVOLUTIONS[name], factory=one_head)
    module = GNN(conv, 4, 3, 2, in_channels=5, encode=False, jk="max", normalize=True)
    state, out = state_and_output(f"nodes {name}")
    module.load_state_dict(state)
    torch.testing.assert_close(run(module, f"nodes {name}"), out, **tolerance(torch.float32))


@pytest.mark.parametrize(("name", "made"), [("graphs", lambda: molecules(40)), ("nodes", node_set)])
def test_packed_file_loads(name, made):
    found, wanted = read(DATA / f"{name}_0_1.npz"), made()
    for key in ("name", "level", "task", "metric"):
        assert getattr(found, key) == getattr(wanted, key), key
    for key in ("x", "edge_index", "node_ptr", "edge_ptr"):
        assert torch.equal(getattr(found, key).double(), getattr(wanted, key).double()), key
    torch.testing.assert_close(found.y.double(), wanted.y.double())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / RUN.key).mkdir()
    for name in ("best", "checkpoint"):
        shutil.copyfile(DATA / f"{name}_0_1.pt", tmp_path / RUN.key / f"{name}.pt")
    return tmp_path


def test_best_weights_load(folder):
    network = load_best(folder, RUN, read(DATA / "graphs_0_1.npz"))
    saved = torch.load(folder / RUN.key / "best.pt", weights_only=True)["parts"]["model"]
    assert network.state_dict().keys() == saved.keys()
    assert all(torch.equal(value, saved[name]) for name, value in network.state_dict().items())


def test_checkpoint_of_an_unfinished_run_is_refused_in_one_sentence(folder):
    with pytest.raises(CheckpointError, match=r"got 'graphprism checkpoint 1'; remove .* to start this run anew"):
        train(RUN, read(DATA / "graphs_0_1.npz"), folder=folder, accelerator="cpu")


def test_ledger_names_the_command_that_migrates_it(tmp_path):
    path = Path(shutil.copyfile(DATA / "ledger_0_1.jsonl", tmp_path / "ledger.jsonl"))
    with pytest.warns(UserWarning, match=rf"line 2: .* python -m graphprism.experiments.migrate {path} brings it up"):
        (found,) = Ledger(path).read()
    assert found.key == RUN.key
    assert migrate(path) == 1
    on_graphs, on_nodes = Ledger(path).read()
    assert on_graphs == found
    assert Run.from_dict(on_nodes.run).key == on_nodes.key
    assert Run.from_dict(on_nodes.run).batch_size is None

"""The benchmark of plain against split networks compares pairs that begin as one function."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import erdos_renyi_graph

from graphprism.transforms import SplitEdges

FOLDER = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="benchmarks is not part of this distribution")


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_never_worse", FOLDER / "bench_never_worse.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def task(bench, request):
    torch.manual_seed(0)
    masks = {f"{fold}_mask": torch.arange(60) % 3 == number for number, fold in enumerate(("train", "val", "test"))}
    x = torch.rand(60, 12) * (torch.rand(60, 12) > 0.5)
    data = Data(x=x, edge_index=erdos_renyi_graph(60, 0.1), y=torch.arange(60) % 4, **masks)
    made = (bench.link_task if request.param == "link_pred.py" else bench.node_task)(data)
    made.data = SplitEdges("degree")(made.data)
    return made


@pytest.mark.parametrize(
    ("deviation", "runner"), [("full", "one_by_one"), ("diagonal", "one_by_one"), ("full", "at_once")]
)
@pytest.mark.parametrize("layers", [2, 8])
@pytest.mark.parametrize(
    ("task", "name"), [(name, name) for name in ("gcn.py", "gat.py", "link_pred.py")], indirect=["task"]
)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_pair_has_equal_losses_at_first_step(bench, monkeypatch, task, name, layers, deviation, runner):
    monkeypatch.setattr(bench, "one_by_one", getattr(bench, runner))
    split = {"num_relations": 3, "start": "shared", "decay": 1000.0, "deviation": deviation}
    losses = []
    for options in ({"num_relations": 1}, split):
        run, _ = bench.start(bench.RECIPES[name], task, layers, 8, 3, **options)
        # without a step in between, further losses differ by what is drawn: dropout masks and negative edges
        losses.append(torch.stack([task.loss(run(True)) for _ in range(2)]).detach())
    plain, other = losses
    torch.testing.assert_close(other, plain)
    assert len({round(loss, 6) for loss in plain.flatten().tolist()}) > 3

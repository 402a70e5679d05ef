"""A misspelt name in a `Run` names the nearest known one."""

import re

import pytest
import torch

from graphprism.analysis import rank_one_distance
from graphprism.analysis.certificate import aggregated_in_degrees
from graphprism.cli.inspect import _layer
from graphprism.datasets import load, molecules
from graphprism.experiments.spec import CellSpec, Settings
from graphprism.experiments.tables.figure_2_result import Figure2Spec
from graphprism.nn import GNN, MRSGCNConv
from graphprism.ops import edge_norm
from graphprism.splitting import by_order
from graphprism.training import Run, Task
from graphprism.training.processes import device_type
from graphprism.training.train import check_run

EDGES = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("options", "nearest"),
    [
        ({"model": "mrs-gnc"}, "mrs-gcn"),
        ({"model": "MRS-GCN"}, "mrs-gcn"),
        ({"model": "gpr_gnn"}, "gpr-gnn"),
        ({"split": "dergee"}, "degree"),
        ({"split": "degree(knid=in)"}, "kind"),
        ({"head": "halfing"}, "halving"),
        ({"activation": "rleu"}, "relu"),
        ({"pe_encoder": "deepsets"}, "deepset"),
        ({"optimizer": "Adam"}, "adam"),
        ({"schedule": "cosin"}, "cosine"),
        ({"precision": "float23"}, "float32"),
        ({"start": "share"}, "shared"),
        ({"model": "g2", "options": "exponend=2"}, "exponent"),
    ],
)
def test_run_suggests_the_nearest_name(options, nearest):
    with pytest.raises(ValueError, match=rf"; did you mean {re.escape(nearest)}\?"):
        Run(**options)


def test_run_suggests_nothing_where_nothing_is_close():
    with pytest.raises(ValueError, match=r"got 'transformer' \(`nn.register"):
        Run(model="transformer")
    with pytest.raises(ValueError, match=r"got 3$"):
        Run(model=3)


def test_run_from_dict_suggests_the_nearest_field():
    with pytest.raises(ValueError, match=r"got \['modle'\]; did you mean model\?$"):
        Run.from_dict({"modle": "gcn"})


def test_metric_of_a_run_suggests_the_nearest_name():
    with pytest.raises(ValueError, match=r"`metric` must be one of .*, got 'mea'; did you mean mae\?$"):
        Task.of(molecules(12), Run(metric="mea"))


def test_load_suggests_the_nearest_data_set(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^zinc21k: no data set of that name; did you mean zinc12k\?"):
        load("zinc21k", tmp_path)


def test_order_suggests_the_nearest_ordering():
    with pytest.raises(ValueError, match=r"got 'dergee'; did you mean degree\?$"):
        by_order("dergee")


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        (lambda: check_run(Run(norm="bacth"), molecules(12)), "batch"),
        (lambda: GNN("gcn", 8, 1, 1, norm="LayreNorm"), "LayerNorm"),
        (lambda: GNN("mrs-gnc", 8, 1, 1), "mrs-gcn"),
        (lambda: edge_norm(EDGES, (2, 2), "smy"), "sym"),
        (lambda: MRSGCNConv(4, 4, edge_norm="maen"), "mean"),
        (lambda: aggregated_in_degrees(EDGES, EDGES[0], 2, 2, aggregation="maen"), "mean"),
        (lambda: rank_one_distance(torch.eye(2), chosen_by="L1"), "l1"),
        (lambda: Figure2Spec(graphs="zink"), "zinc"),
        (lambda: Figure2Spec(chosen_by="L1"), "l1"),
        (lambda: CellSpec("a", "b", reading="tset"), "test"),
        (lambda: CellSpec("a", "b").configurations("ful"), "full"),
        (lambda: Settings(engine="eagre"), "eager"),
        (lambda: molecules(12).subset("trian"), "train"),
        (lambda: device_type("cduda"), "cuda"),
        (lambda: _layer("mrs-gnc"), "mrs-gcn"),
    ],
)
def test_call_suggests_the_nearest_name(call, nearest):
    with pytest.raises(ValueError, match=rf"; did you mean {re.escape(nearest)}\?$"):
        call()

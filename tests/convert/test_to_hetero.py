"""`to_hetero` of PyG and `to_mrs`: the first one comes first."""

import pytest
import torch
import torch_geometric.nn as pyg

import graphprism as gp

META = (["user", "shop"], [("user", "buys", "shop"), ("shop", "sells", "user")])


@pytest.mark.parametrize("model", [lambda: pyg.GraphSAGE((4, 4), 8, 2), lambda: pyg.SAGEConv((4, 4), 8)])
def test_to_mrs_says_that_to_hetero_comes_first(model):
    words = r"`to_hetero` and torch.fx must come before the conversion, .*`gp.to_mrs\(to_hetero\(model, metadata\)\)`"
    with pytest.raises(TypeError, match=words):
        pyg.to_hetero(gp.to_mrs(model(), "degree"), META)
    with pytest.raises(TypeError, match="must come before the conversion"):
        torch.fx.symbolic_trace(gp.to_mrs(model(), "degree"))


def test_to_mrs_takes_a_model_of_to_hetero():
    model = gp.to_mrs(pyg.to_hetero(pyg.GraphSAGE((4, 4), 8, 2), META), "degree")
    edges = {kind: torch.tensor([[0, 1, 1], [1, 0, 1]]) for kind in META[1]}
    out = model({kind: torch.rand(2, 4) for kind in META[0]}, edges)
    assert {kind: list(rows.shape) for kind, rows in out.items()} == {"user": [2, 8], "shop": [2, 8]}

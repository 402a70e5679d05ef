"""The network of training against the plain one."""

import pytest
import torch

from graphprism.nn import GNN
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.training import fused_gnn
from graphprism.training.fused_gnn import FusedGNN
from tests.nn.models.test_tables import GRAPHS, OWNER, gradients, make_inputs

X = torch.cat([graph.x.view(-1) for graph in GRAPHS])
PLAIN = [{}, {"residual": True}, {"jk": "cat"}, {"jk": "max"}]
OTHERS = [{"norm": "batch"}, {"dropout": 0.3}, {"normalize": True}]


def make_both(name, **options):
    options = {"num_node_types": 28, "num_edge_types": 4, "readout": "sum", **options}
    plain, fused = (kind(name, 8, 1, 3, **options).double() for kind in (GNN, FusedGNN))
    fused.load_state_dict(plain.state_dict())
    return plain, fused


@pytest.mark.parametrize("options", PLAIN + OTHERS, ids=str)
@pytest.mark.parametrize("name", ["gcn", "mrs-gcn", "mrs-sage"])
def test_fused_network_gives_what_the_plain_one_gives(name, options):
    plain, fused = make_both(name, **options)
    table = make_inputs(name)[2]
    outs = []
    for network in (plain, fused):
        torch.manual_seed(0)
        outs.append(network(X, table, batch=OWNER))
    torch.testing.assert_close(*outs)
    torch.testing.assert_close(gradients(outs[0], plain), gradients(outs[1], fused))


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [("mrs-gcn", each, 1) for each in PLAIN]
    + [("mrs-gcn", each, 0) for each in OTHERS]
    + [("mrs-sage", {}, 0), ("gcn", {}, 1)],
    ids=str,
)
def test_layers_are_fused_where_they_are_plain(monkeypatch, name, options, expected):
    calls = []
    stack = fused_gnn.relational_stack
    monkeypatch.setattr(fused_gnn, "relational_stack", lambda *args: calls.append(args) or stack(*args))
    _, fused = make_both(name, **options)
    adj, _, table, _ = make_inputs(name)
    assert isinstance(table, PaddedAdj)
    fused(X, table, batch=OWNER)
    assert len(calls) == expected
    fused(X, adj, batch=OWNER)
    assert len(calls) == expected

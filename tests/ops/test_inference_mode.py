"""A graph that was first used in `torch.inference_mode` serves training afterwards."""

import pytest
import torch

from graphprism.nn import DirConv, MRSGATConv, MRSGatedGCNConv, MRSGCNConv, MRSSAGEConv
from graphprism.ops import RelationalAdj
from tests.ops.cases import make_adj, normal

LAYERS = {
    "gcn": lambda: MRSGCNConv(4, 3),
    "gcn with loops": lambda: MRSGCNConv(4, 3, add_self_loops=True),
    "gat with loops": lambda: MRSGATConv(4, 3, add_self_loops=True),
    "sage": lambda: MRSSAGEConv(4, 3),
    "directed gated": lambda: DirConv(lambda: MRSGatedGCNConv(4, 3, batch_norm=False)),
}


def fresh(soft, weighted) -> RelationalAdj:
    adj = make_adj("random", soft=soft)
    types = adj.edge_type.detach() if soft else adj.edge_type
    return RelationalAdj(adj.edge_index, types, adj.edge_weight if weighted else None, num_relations=3, num_nodes=30)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("layer", LAYERS)
def test_graph_of_inference_mode_serves_training(layer, soft, weighted):
    conv, x, adj = LAYERS[layer]().double(), normal(30, 4), fresh(soft, weighted)
    with torch.inference_mode():
        assert not conv(x, adj).requires_grad
    found, expected = (torch.autograd.grad(conv(x, each).square().sum(), x) for each in (adj, fresh(soft, weighted)))
    torch.testing.assert_close(found, expected)

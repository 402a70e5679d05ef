"""Networks on tables against the same networks on a `RelationalAdj`."""

import copy

import torch

from graphprism.nn.models import CONVOLUTIONS
from graphprism.ops import RelationalAdj
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.splitting import by_order
from graphprism.testing import molecules
from graphprism.training.fused_gnn import FusedGNN
from tests.ops.tables import to_entries
from tests.pairwise import in_turn

OPTIONS = [{}, {"residual": True}, {"jk": "cat"}, {"jk": "max", "pe_channels": 2}, {"norm": "batch"}]
# a table has no transpose, and layers of PyG take no table
NAMES = [name for name, conv in CONVOLUTIONS.items() if conv.edge_norm is not None and not conv.directed]
GRAPHS = molecules(3)
SIZES = torch.tensor([graph.num_nodes for graph in GRAPHS])
OWNER = torch.repeat_interleave(torch.arange(3), SIZES)


def make_inputs(name):
    """The molecules in both forms, with types of edges where the network takes them."""
    convolution = CONVOLUTIONS[name]
    relations = convolution.relations(3)
    shifts = [0, *SIZES.cumsum(0).tolist()]
    edges = torch.cat([graph.edge_index + shift for graph, shift in zip(GRAPHS, shifts, strict=False)], dim=1)
    types = torch.cat([by_order("degree")(graph) for graph in GRAPHS]) if relations == 3 else None
    adj = RelationalAdj(edges, types, num_relations=relations, num_nodes=int(SIZES.sum()))
    table = PaddedAdj.build(adj, convolution.edge_norm, torch.float64)
    kinds = torch.arange(edges.size(1)) % 4 if convolution.takes_edge_attr else None
    if kinds is None:
        return adj, None, table, None
    # an empty slot must hold some type, whichever
    entries = to_entries(kinds.double(), adj, table).nan_to_num(nan=3.0).long()
    return adj, kinds, table, entries


def gradients(out, network):
    found = torch.autograd.grad(out.square().sum(), list(network.parameters()), allow_unused=True)
    return {name: grad for (name, _), grad in zip(network.named_parameters(), found, strict=True) if grad is not None}


@in_turn(name=[*NAMES, "mrs-gcn", "mrs-gated-gcn"], options=OPTIONS)
def test_tables_give_outputs_and_gradients_of_an_adjacency(name, options):
    torch.manual_seed(0)
    network = FusedGNN(name, 8, 1, 3, num_node_types=28, num_edge_types=4, readout="sum", **options).double()
    x = torch.cat([graph.x.view(-1) for graph in GRAPHS])
    pe = torch.randn(x.numel(), 2, dtype=torch.float64) if "pe_channels" in options else None
    adj, kinds, table, entries = make_inputs(name)
    other = copy.deepcopy(network)
    theirs = other(x, adj, edge_attr=kinds, batch=OWNER, pe=pe)
    ours = network(x, table, edge_attr=entries, batch=OWNER, pe=pe)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(network.state_dict(), other.state_dict())  # running statistics
    torch.testing.assert_close(gradients(ours, network), gradients(theirs, other))

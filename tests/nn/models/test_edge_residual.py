"""GatedGCN whose edge states are added up over layers, against loops over nodes and edges."""

import pytest
import torch

from graphprism.nn import GNN
from graphprism.testing import molecule

CHANNELS = 6


def make_model(conv, num_layers, **options):
    torch.manual_seed(3)
    types = {"num_node_types": 28, "num_edge_types": 4}
    model = GNN(conv, CHANNELS, 1, num_layers, **types, readout="sum", **options).double().eval()
    for layer in model.convs:  # in evaluation these decide what a batch norm does
        for norm in (layer.norm_node, layer.norm_edge):
            norm.running_mean.uniform_(-0.5, 0.5)
            norm.running_var.uniform_(0.5, 2)
    return model


def make_graph():
    graph = molecule(5)
    edge_type, bond = (
        torch.arange(graph.edge_index.size(1)).view(1, -1) * torch.tensor([[1], [3]]) % torch.tensor([[3], [4]])
    )
    return graph.x.view(-1), graph.edge_index, edge_type, bond


def by_hand(model, x, edge_index, edge_type, bond, add):
    """The network with loops; ``add`` says whether the incoming edge state is added."""
    h, e = model.encoder.weight[x], model.edge_encoder.weight[bond]
    for layer in model.convs:
        a, c, d = layer.lin_root, layer.lin_edge, layer.lin_gate_dst
        b, gates = layer.lin_message, layer.lin_gate_src
        new_e = torch.zeros_like(e)
        above, below = torch.zeros_like(h), torch.zeros_like(h)
        for number, (j, i) in enumerate(edge_index.t().tolist()):
            r = int(edge_type[number]) if b.lin.num_relations > 1 else 0
            s = r if gates.lin.num_relations > 1 else 0
            new_e[number] = d.weight @ h[i] + d.bias + h[j] @ gates.lin()[s] + gates.bias()[s]
            new_e[number] += c.weight @ e[number] + c.bias
            gate = new_e[number].sigmoid()
            above[i] += gate * (h[j] @ b.lin()[r] + b.bias()[r])
            below[i] += gate
        new = h @ a.weight.t() + a.bias + above / (below + 1e-6)
        h, new_e = (
            ((each - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias).clamp(min=0)
            for each, norm in ((new, layer.norm_node), (new_e, layer.norm_edge))
        )
        e = e + new_e if add else new_e
    return h.sum(0) @ model.head.weight.t() + model.head.bias


@pytest.mark.parametrize("layers", [1, 2, 8])
@pytest.mark.parametrize("conv", ["gated-gcn", "mrs-gated-gcn", "mrs-gated-gcn-9"])
@torch.no_grad()
def test_edge_residual_adds_the_incoming_edge_state(conv, layers):
    x, edge_index, edge_type, bond = make_graph()
    model = make_model(conv, layers, edge_residual=True)
    found = model(x, edge_index, edge_type, edge_attr=bond)
    expected = by_hand(model, x, edge_index, edge_type, bond, add=True)
    torch.testing.assert_close(found[0], expected, rtol=1e-12, atol=0)
    plain = make_model(conv, layers)
    plain.load_state_dict(model.state_dict())
    without = plain(x, edge_index, edge_type, edge_attr=bond)
    torch.testing.assert_close(without[0], by_hand(model, x, edge_index, edge_type, bond, False), rtol=1e-12, atol=0)
    # the state of the edges after the last layer is not used
    assert ((found - without).abs() / found.abs() > 1e-6).all() == (layers > 1)


@torch.no_grad()
def test_residual_adds_edge_states_with_and_without_the_option():
    x, edge_index, _, bond = make_graph()
    first, second = (make_model("gated-gcn", 3, residual=True, edge_residual=each) for each in (True, False))
    assert torch.equal(first(x, edge_index, edge_attr=bond), second(x, edge_index, edge_attr=bond))

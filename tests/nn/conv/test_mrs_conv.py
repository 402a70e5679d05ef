"""MRSConv: a prepared graph is sorted by relation once, so that later passes do not wait for a device."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphprism.nn import MRSConv
from graphprism.ops import RelationalAdj
from graphprism.testing import tolerance
from tests.nn.conv.cases import GRAPHS, IN, OUT, RELATIONS, make_example


class Difference(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(IN, OUT)

    def forward(self, x_i, x_j):
        return self.lin(x_j - x_i)


class Recorder(TorchDispatchMode):
    """Notes the names of all operations."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("weighted", [False, True])
def test_second_pass_neither_sorts_nor_reads_values(weighted):
    example = make_example(GRAPHS["random"], weighted=weighted)
    conv = MRSConv(Difference, aggr="max", num_relations=RELATIONS).double()
    adj = RelationalAdj(
        example.edge_index, example.edge_type, example.edge_weight, num_relations=RELATIONS, num_nodes=12
    )
    torch.testing.assert_close(conv(example.x, adj), example.run(conv), **tolerance(torch.double))
    with Recorder() as recorder:
        conv(example.x, adj)
    assert not {"sort", "argsort", "bincount", "_local_scalar_dense"} & set(recorder.names)
    torch.testing.assert_close(conv(example.x, adj), example.run(conv), **tolerance(torch.double))


def test_first_pass_in_inference_mode_leaves_a_graph_to_train_on():
    example = make_example(GRAPHS["random"])
    conv = MRSConv(Difference, num_relations=RELATIONS).double()
    adj = RelationalAdj(example.edge_index, example.edge_type, num_relations=RELATIONS, num_nodes=12)
    with torch.inference_mode():
        conv(example.x, adj)
    conv(example.x, adj).sum().backward()
    assert all(parameter.grad is not None for parameter in conv.parameters())


@pytest.mark.parametrize("names", ["x_j, x_i", "x_j, edge_attr", "x_i, edge_attr, x_j"])
def test_mrs_conv_refuses_names_of_pyg_in_another_order(names):
    forward = eval(f"lambda self, {names}: x_j")
    message = type("Message", (torch.nn.Module,), {"forward": forward})
    with pytest.raises(ValueError, match=r"`message` must take \(x_i, x_j, edge_attr\) in this order, got"):
        MRSConv(message)
    MRSConv(type("Message", (torch.nn.Module,), {"forward": lambda self, x_i, x_j: x_j}))
    MRSConv(type("Message", (torch.nn.Module,), {"forward": lambda self, receiver, sender: sender}))

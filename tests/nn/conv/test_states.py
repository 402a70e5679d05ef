"""A state is one function, whatever start, decay or form of deviations the layer has that it is loaded into."""

import io

import pytest
import torch
from torch_geometric.nn import GATConv, TransformerConv

from graphprism.convert import to_mrs
from graphprism.nn import MRSGATConv, MRSGCNConv, RelationalWeight
from tests.nn.conv.cases import GRAPHS, IN, OUT, layers, make_example, parted

EXAMPLE = make_example(GRAPHS["random"])


def loaded(target, state):
    """``target`` with a state that went through a file."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    target.load_state_dict(torch.load(file, weights_only=True))
    return target


@pytest.mark.parametrize("name", ["gcn", "gat", "gin", "gated-gcn-9", "general", "dir-sage"])
@pytest.mark.parametrize("deviation", ["full", "diagonal"])
def test_state_of_another_decay_is_the_same_function(name, deviation):
    for there, here in ((1000.0, 0.0), (0.0, 1000.0), (3.0, 1000.0)):
        trained = parted(layers(start="shared", decay=there, deviation=deviation)[name])(3).double()
        other = layers(start="shared", decay=here, deviation=deviation)[name](3).double()
        torch.testing.assert_close(EXAMPLE.run(loaded(other, trained.state_dict())), EXAMPLE.run(trained))


def test_state_of_another_decay_keeps_that_of_the_layer():
    layer = loaded(MRSGCNConv(IN, OUT, decay=3.0), MRSGCNConv(IN, OUT, decay=1000.0).state_dict())
    assert layer.lin.together.decay == 3.0
    assert layer.half().state_dict()["lin.together.decay"].dtype == torch.float32


def test_states_go_from_held_to_free_with_the_decay_that_they_had():
    held = parted(lambda r: RelationalWeight(IN, OUT, r, decay=5.0))(3).double()
    free = loaded(RelationalWeight(IN, OUT, 3, start="independent").double(), held.state_dict())
    torch.testing.assert_close(free(), held())


def test_diagonal_deviations_become_full_ones():
    diagonal = parted(lambda r: RelationalWeight(IN, OUT, r, decay=5.0, deviation="diagonal"))(3).double()
    full = loaded(RelationalWeight(IN, OUT, 3, decay=2.0).double(), diagonal.state_dict())
    torch.testing.assert_close(full(), diagonal())
    again = loaded(RelationalWeight(IN, OUT, 3, decay=9.0, deviation="diagonal").double(), full.state_dict())
    torch.testing.assert_close(again(), diagonal())


def test_full_deviations_that_no_factors_give_are_refused():
    state = parted(lambda r: MRSGCNConv(IN, OUT, num_relations=r))(3).state_dict()
    with pytest.raises(RuntimeError, match="one factor for each output channel"):
        MRSGCNConv(IN, OUT, deviation="diagonal").load_state_dict(state)


def test_infinite_decay_refuses_relations_that_differ():
    state = parted(lambda r: MRSGCNConv(IN, OUT, num_relations=r))(3).state_dict()
    with pytest.raises((RuntimeError, ValueError), match="`decay` is infinite"):
        MRSGCNConv(IN, OUT, decay=float("inf")).load_state_dict(state)
    equal = MRSGCNConv(IN, OUT, num_relations=3)
    layer = loaded(MRSGCNConv(IN, OUT, decay=float("inf")), equal.state_dict())
    torch.testing.assert_close(layer.lin(), equal.lin())


def test_state_without_a_decay_has_that_of_the_layer():
    trained = parted(lambda r: MRSGCNConv(IN, OUT, num_relations=r, decay=7.0))(3)
    state = {name: value for name, value in trained.state_dict().items() if not name.endswith("decay")}
    torch.testing.assert_close(loaded(MRSGCNConv(IN, OUT, decay=7.0), state).lin(), trained.lin())


@pytest.mark.parametrize("start", ["shared", "independent"])
@pytest.mark.parametrize("there", ["shared", "independent"])
def test_other_numbers_of_relations_are_named(start, there):
    state = MRSGCNConv(IN, OUT, num_relations=4, start=there).state_dict()
    with pytest.raises(RuntimeError, match="`lin` must hold 3 relations, got 4"):
        MRSGCNConv(IN, OUT, start=start).load_state_dict(state)


def test_converted_layer_takes_the_state_of_another_decay():
    torch.manual_seed(0)
    conv = TransformerConv(IN, OUT).double()
    trained, other = (to_mrs(conv, decay=decay) for decay in (1000.0, 2.0))
    for deviation in trained.model.deviations:
        torch.nn.init.normal_(deviation)
    x, edges = EXAMPLE.x, EXAMPLE.edge_index
    torch.testing.assert_close(loaded(other, trained.state_dict())(x, edges), trained(x, edges))


def test_the_state_of_a_bipartite_layer_of_pyg():
    theirs = GATConv((5, 6), 4, heads=2, add_self_loops=False)
    ours = loaded(MRSGATConv((5, 6), 4, heads=2, num_relations=1), theirs.state_dict())
    x, edges = (torch.randn(7, 5), torch.randn(3, 6)), torch.tensor([[0, 3, 6, 2], [0, 1, 1, 2]])
    torch.testing.assert_close(ours(x, edges), theirs(x, edges))

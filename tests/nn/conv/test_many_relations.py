"""Layers with rows for active pairs only: equal to those with rows for all pairs, and no tensor of N x R rows."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from graphprism.nn import MRSGATConv, MRSGatedGCNConv
from graphprism.ops import pair_rows
from graphprism.testing import (
    assert_batch_equals_parts,
    assert_edge_order_invariant,
    assert_every_parameter_has_gradient,
    assert_gradients_correct,
    assert_permutation_equivariant,
    tolerance,
)
from tests.nn.conv.cases import GRAPHS, IN, LAYERS, OUT, make_example, make_layer
from tests.pairwise import all_pairs, in_turn

KINDS = {"plain": {}, "weighted": {"weighted": True}, "soft": {"soft": True}, "both": {"weighted": True, "soft": True}}
ZOO = ("no-edges", "self-loops", "multi-edges", "hub", "directed", "random")
OPTIONS = {
    "gat-edges": lambda r: MRSGATConv(IN, OUT, num_relations=r, heads=2, edge_dim=3),
    "gat-pair": lambda r: MRSGATConv((IN, 3), OUT, num_relations=r, heads=3, concat=False),
    "gat-lazy": lambda r: MRSGATConv((-1, -1), OUT, num_relations=r),
    "gated-edges": lambda r: MRSGatedGCNConv(IN, OUT, num_relations=r, edge_dim=3),
    "gated-pair": lambda r: MRSGatedGCNConv((IN, 3), OUT, num_relations=r, gate_per_relation=True),
    "gated-lazy": lambda r: MRSGatedGCNConv((-1, -1), OUT, num_relations=r),
}


@pytest.fixture
def choose(monkeypatch):
    """Sets whether layers compute rows of active pairs only."""

    def set_active(active):
        monkeypatch.setattr(pair_rows, "_FEWEST_PAIRS", 0 if active else 1 << 60)
        monkeypatch.setattr(pair_rows, "_PAIRS_PER_ENTRY", 0)

    return set_active


def derivatives(layer, inputs, **kwargs):
    """The output, and the gradients of all parameters and inputs that have one."""
    torch.manual_seed(0)
    found = layer(*inputs, **kwargs)
    flat = [each for value in (*inputs, *kwargs.values()) for each in (value if isinstance(value, tuple) else (value,))]
    leaves = [each for each in flat if isinstance(each, torch.Tensor) and each.requires_grad]
    return found, *torch.autograd.grad(found.square().sum(), [*layer.parameters(), *leaves], allow_unused=True)


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for each, other in zip(ours, theirs, strict=True):
        assert (each is None) == (other is None)
        if each is not None:
            torch.testing.assert_close(each, other, **tolerance(torch.double))


@all_pairs(name=[*LAYERS], graph=ZOO, kind=KINDS)
def test_active_pairs_give_what_all_pairs_give(choose, name, graph, kind):
    layer, example = make_layer(name), make_example(GRAPHS[graph], **kind)
    inputs = (example.x, example.edge_index, example.edge_type, example.edge_weight)
    for each in inputs:
        if each is not None and each.is_floating_point():
            each.requires_grad_()
    found = []
    for active in (True, False):
        choose(active)
        found.append(derivatives(layer, inputs))
    assert_same(*found)


@in_turn(name=[*OPTIONS], kind=KINDS)
def test_active_pairs_with_options(choose, name, kind):
    example = make_example(GRAPHS["random"], relations=7, **kind)
    pair, edges = not name.endswith("edges"), example.edge_index.clone()
    x = example.x.requires_grad_()
    if pair:
        edges[1] %= 4
        x = (x, torch.randn(4, 3, dtype=torch.double, generator=torch.Generator().manual_seed(1)).requires_grad_())
    kwargs = {} if pair else {"edge_attr": torch.randn(40, 3, dtype=torch.double).requires_grad_()}
    found = []
    for active in (True, False):
        choose(active)
        torch.manual_seed(0)
        layer = OPTIONS[name](7).double()
        if name.endswith("lazy"):
            with torch.no_grad():
                layer(x, edges, example.edge_type, example.edge_weight)
        found.append(derivatives(layer, (x, edges, example.edge_type, example.edge_weight), **kwargs))
    assert_same(*found)


@in_turn(name=["gcn", "sage", "gat", "gated-gcn", "gated-gcn-9", "dir-gcn"], kind=KINDS)
def test_active_pairs_obey_the_laws(choose, name, kind):
    choose(True)
    layer, example = make_layer(name), make_example(GRAPHS["random"], **kind)
    assert_permutation_equivariant(layer, example)
    assert_edge_order_invariant(layer, example)
    assert_every_parameter_has_gradient(layer, example)
    assert_gradients_correct(layer, make_example(GRAPHS["multi-edges"], **kind))
    assert_batch_equals_parts(layer, [make_example(graph, **kind) for graph in GRAPHS.values()])


class Sizes(TorchDispatchMode):
    """Numbers in the tensors that operations return: in the largest, and in all together."""

    largest = total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        sizes = [each.numel() for each in tree_leaves(found) if isinstance(each, torch.Tensor)]
        self.largest, self.total = max(self.largest, *sizes, 0), self.total + sum(sizes)
        return found


def sizes_of_step(name, relations, num_nodes, num_edges):
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(num_nodes, (2, num_edges), generator=generator)
    types = torch.randint(relations, (num_edges,), generator=generator)
    layer = make_layer(name, relations=relations)
    x = torch.randn(num_nodes, IN, dtype=torch.double, requires_grad=True)
    with Sizes() as seen:
        layer(x, edges, types).sum().backward()
    return seen


@pytest.mark.parametrize("name", ["gcn", "sage", "gat", "gat-mean", "gated-gcn", "gated-gcn-9", "dir-gcn"])
def test_no_tensor_grows_with_nodes_times_relations(name):
    # at most 500 pairs, padded to 750, of 2 * OUT channels; 1000 nodes; 400 matrices
    assert sizes_of_step(name, 400, 1000, 500).largest <= 20 * 1000


# each message function is called, however few edges it has; each network of GIN sees all nodes
@pytest.mark.parametrize(("name", "factor"), [("general", 2), ("gin", 4.5)])
def test_four_times_the_relations_cost_at_most(name, factor):
    few, many = (sizes_of_step(name, relations, 100, 1000).total for relations in (50, 200))
    assert many <= factor * few

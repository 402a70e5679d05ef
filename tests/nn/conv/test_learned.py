"""Relations that are learned: LMGC against its formula, and a learned split that starts at a fixed one."""

import warnings

import pytest
import torch

from graphprism.nn import GNN, LearnedSplit, LMGCConv, MRSGCNConv, MRSSAGEConv
from graphprism.ops import RelationalAdj
from graphprism.testing import (
    Example,
    assert_batch_equals_parts,
    assert_deterministic,
    assert_edge_order_invariant,
    assert_every_parameter_has_gradient,
    assert_permutation_equivariant,
    graph_zoo,
    random_graph,
    tolerance,
)

GRAPHS = {**graph_zoo(), "random": random_graph(12, 40)}
IN, OUT, HEADS, RELATIONS = 5, 4, 3, 3


def lmgc(**options):
    torch.manual_seed(0)
    return LMGCConv(IN, OUT, HEADS, **options).double()


class WithoutTypes(torch.nn.Module):
    """A layer without relations, called as those with them."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, edge_index, edge_type=None, edge_weight=None):
        return self.layer(x, edge_index, edge_weight)


class WithLearnedSplit(torch.nn.Module):
    """A layer on the scores of a learned split that has left its start."""

    def __init__(self, layer):
        super().__init__()
        self.split, self.layer = LearnedSplit(IN, RELATIONS), layer
        for parameter in self.split.parameters():
            torch.nn.init.normal_(parameter, std=0.5)

    def forward(self, x, edge_index, edge_type, edge_weight=None):
        return self.layer(x, edge_index, self.split(x, edge_index, edge_type), edge_weight)


def example(graph):
    edge_index, num_nodes = graph.edge_index, graph.num_nodes
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(num_nodes, IN, generator=generator, dtype=torch.double)
    return Example(x, edge_index, torch.randint(RELATIONS, (edge_index.size(1),), generator=generator))


def layers():
    torch.manual_seed(0)
    return {
        "lmgc": WithoutTypes(lmgc()),
        "learned gcn": WithLearnedSplit(MRSGCNConv(IN, OUT, start="independent")).double(),
        "learned sage": WithLearnedSplit(MRSSAGEConv(IN, OUT, decay=3.0)).double(),
    }


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("name", layers())
def test_numbering_of_nodes_and_order_of_edges(name, graph):
    layer = layers()[name]
    assert_permutation_equivariant(layer, example(graph))
    assert_edge_order_invariant(layer, example(graph))


@pytest.mark.parametrize("name", layers())
def test_batch_gradient_and_bits(name):
    layer = layers()[name]
    assert_batch_equals_parts(layer, [example(graph) for graph in GRAPHS.values()])
    assert_every_parameter_has_gradient(layer, example(GRAPHS["random"]))
    assert_deterministic(layer, example(GRAPHS["hub"]))


def test_lmgc_by_its_formula():
    layer, given = lmgc(), example(GRAPHS["random"])
    x, (source, target) = given.x, given.edge_index
    weight, bias = layer.lin().detach(), torch.randn(OUT, dtype=torch.double)
    with torch.no_grad():
        layer.bias.copy_(bias)
        layer.score_bias.normal_()
    joint = layer.score.detach().reshape(2 * HEADS * OUT, HEADS)  # M, the sender's heads first
    expected = bias.repeat(x.size(0), 1)
    pairs = [*zip(source.tolist(), target.tolist(), strict=True), *((i, i) for i in range(x.size(0)))]
    for j, i in pairs:
        heads = torch.cat([torch.cat([x[j] @ w for w in weight]), torch.cat([x[i] @ w for w in weight])])
        alpha = torch.tanh(torch.nn.functional.leaky_relu(heads, 0.2) @ joint + layer.score_bias.detach())
        for h in range(HEADS):
            expected[i] += alpha[h] * (x[j] @ weight[h]) / HEADS
    torch.testing.assert_close(layer(x, given.edge_index), expected, **tolerance(torch.double))


def test_lmgc_takes_weights_and_prepared_graphs():
    layer, given = lmgc(root=False, bias=False), example(GRAPHS["random"])
    weight = torch.rand(given.edge_index.size(1), dtype=torch.double)
    adj = RelationalAdj(given.edge_index, None, weight, num_nodes=given.x.size(0))
    found = layer(given.x, given.edge_index, weight)
    torch.testing.assert_close(layer(given.x, adj), found, **tolerance(torch.double))
    twice = layer(given.x, given.edge_index, 2 * weight)
    torch.testing.assert_close(twice, 2 * found, **tolerance(torch.double))


def test_lmgc_waits_for_its_input_size():
    assert LMGCConv(-1, 4)(torch.randn(3, 7), torch.tensor([[0, 1], [1, 2]])).shape == (3, 4)


@pytest.mark.parametrize("layer", [MRSGCNConv(IN, OUT, start="independent"), MRSSAGEConv(IN, OUT)], ids=["gcn", "sage"])
def test_learned_split_starts_at_the_fixed_one(layer):
    given, split = example(GRAPHS["random"]), LearnedSplit(IN, RELATIONS).double()
    scores = split(given.x, given.edge_index, given.edge_type)
    assert scores.equal(torch.nn.functional.one_hot(given.edge_type, RELATIONS).double())
    layer = layer.double()
    found = layer(given.x, given.edge_index, scores)
    torch.testing.assert_close(found, given.run(layer), **tolerance(torch.double))


def test_scores_of_a_learned_split_sum_to_one():
    given, layer = example(GRAPHS["random"]), layers()["learned gcn"]
    scores = layer.split(given.x, given.edge_index, given.edge_type)
    torch.testing.assert_close(scores.sum(1), torch.ones_like(scores[:, 0]))
    assert not scores.equal(scores.round())


def test_network_with_a_learned_split_starts_as_the_network_without():
    given = example(GRAPHS["random"])
    torch.manual_seed(0)
    plain = GNN("mrs-gcn", 8, 2, 3, in_channels=IN).double()
    learned = GNN("mrs-gcn", 8, 2, 3, in_channels=IN, learned_split=True).double()
    assert not learned.load_state_dict(plain.state_dict(), strict=False).unexpected_keys
    arguments = (given.x, given.edge_index, given.edge_type)
    torch.testing.assert_close(learned(*arguments), plain(*arguments), **tolerance(torch.double))
    learned(*arguments).sum().backward()
    assert learned.learned_split.out.weight.grad.abs().max() > 0
    with pytest.raises(ValueError, match="`learned_split` must be False unless"):
        GNN("gcn", 8, 2, 3, learned_split=True)


def test_learned_split_takes_sparse_rows():
    given, split = example(GRAPHS["random"]), LearnedSplit(IN, RELATIONS).double()
    torch.nn.init.normal_(split.out.weight)
    dense = split(given.x, given.edge_index, given.edge_type)
    with warnings.catch_warnings():  # torch calls CSR a beta, once in a process
        warnings.simplefilter("ignore", UserWarning)
        sparse = split(given.x.to_sparse_csr(), given.edge_index, given.edge_type)
    torch.testing.assert_close(sparse, dense, **tolerance(torch.double))

"""Attention of a generically converted layer: one softmax over the edges of a node, whatever their relations."""

import copy
import pickle

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.nn import GATv2Conv, MessagePassing, TransformerConv, conv
from torch_geometric.utils import softmax

import graphprism as gp
from graphprism.convert import steps, to_mrs
from graphprism.convert.softmax_switch import SoftmaxSwitch
from tests.convert.cases import CASES, EDGES, N, X

TYPES = torch.arange(EDGES.size(1)) % 3
ATTENTIVE = ["AGNNConv", "GATv2Conv", "GeneralConv", "HANConv", "HEATConv", "HGTConv", "PointTransformerConv"]
ATTENTIVE += ["RGATConv", "SuperGATConv", "TransformerConv"]


def part(model: torch.nn.Module) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "deviation" in name:
                parameter.copy_(3 * torch.randn(parameter.shape, generator=generator))
    return model


def sums(alpha: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Sum of the attention of every node that receives anything, (N', ...)."""
    total = torch.zeros(int(target.max()) + 1, *alpha.shape[1:], dtype=alpha.dtype).index_add(0, target, alpha)
    return total[target.unique()]


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: GATv2Conv(X.size(1), 4, heads=2),
        lambda: GATv2Conv(X.size(1), 4, heads=2, add_self_loops=False),
        lambda: TransformerConv(X.size(1), 4, heads=2),
    ],
    ids=["gatv2", "gatv2, no loops", "transformer"],
)
def test_attention_of_a_node_sums_to_one(make, soft):
    torch.manual_seed(0)
    model = part(to_mrs(make().double().eval(), "degree"))
    types = torch.softmax(torch.randn(EDGES.size(1), 3).double(), dim=1) if soft else TYPES
    _, (edges, alpha) = model(X, EDGES, edge_type=types, return_attention_weights=True)
    total = sums(alpha, edges[1])
    torch.testing.assert_close(total, torch.ones_like(total))


@pytest.mark.parametrize("name", ATTENTIVE)
def test_softmax_of_pyg_is_over_the_edges_of_all_relations(name, monkeypatch):
    make, args = CASES[name]
    torch.manual_seed(0)
    model = part(to_mrs(make().double().eval(), example=args))
    seen = []

    def watched(src, index, *more):
        seen.append((softmax(src, index, *more), index))
        return seen[-1][0]

    monkeypatch.setattr(steps, "softmax", watched)
    model(*args)
    assert seen
    for alpha, index in seen:
        torch.testing.assert_close(sums(alpha, index), torch.ones_like(sums(alpha, index)))


def test_attentive_cases_are_all():
    """Every converted convolution of PyG that calls `softmax` is tested here."""
    users = {name for name in conv.__all__ if name != "MessagePassing" and SoftmaxSwitch(getattr(conv, name)).methods}
    # GATConv becomes our layer, FusedGATConv inherits from it and is refused
    assert users - {"GATConv", "FusedGATConv"} == set(ATTENTIVE)


def test_gatv2_by_hand():
    torch.manual_seed(0)
    model = part(to_mrs(GATv2Conv(X.size(1), 4, add_self_loops=False).double().eval(), "degree"))
    layer = model.model
    stacks = {
        name: layer.together(dict(layer.conv.named_parameters())[name], deviation)
        for name, deviation in zip(layer.names, layer.deviations, strict=True)
    }
    logits, values = [], []
    for j, i, r in zip(*EDGES.tolist(), TYPES.tolist(), strict=True):
        left, right = (stacks[f"{side}.weight"][r] @ X[end] for side, end in (("lin_l", j), ("lin_r", i)))
        left, right = left + stacks["lin_l.bias"][r], right + stacks["lin_r.bias"][r]
        logits.append((stacks["att"][r].flatten() * torch.nn.functional.leaky_relu(left + right, 0.2)).sum())
        values.append(left)
    out = torch.zeros(N, 4).double()
    for i in range(N):
        here = (EDGES[1] == i).nonzero().flatten().tolist()
        if here:
            alpha = torch.stack([logits[e] for e in here]).softmax(0)
            out[i] = sum(a * values[e] for a, e in zip(alpha, here, strict=True))
    torch.testing.assert_close(model(X, EDGES, edge_type=TYPES), out + layer.conv.bias)


class Attention(MessagePassing):
    """A layer of one's own: the logits in a method of its own, another softmax over channels of an edge."""

    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.lin, self.att = torch.nn.Linear(X.size(1), 4), torch.nn.Linear(4, 1)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.lin(x))

    def message(self, x_j, index):
        self._alpha = self.weights(x_j, index)
        return self._alpha * x_j.softmax(dim=-1)

    def weights(self, x_j, index):
        return softmax(self.att(x_j), index)


@pytest.mark.parametrize("loops", [False, True])
def test_attention_on_edges_of_another_class(loops):
    torch.manual_seed(0)
    model = part(to_mrs(GATv2Conv(X.size(1), 4, add_self_loops=loops).double().eval(), "degree"))
    expected = model(X, EDGES, edge_type=TYPES)
    torch.testing.assert_close(model(X, EdgeIndex(EDGES, sparse_size=(N, N)), edge_type=TYPES), expected)
    each = torch.vmap(lambda x: model(x, EDGES, edge_type=TYPES))(torch.stack([X, X]))
    torch.testing.assert_close(each, torch.stack([expected, expected]))


def test_layer_of_ones_own():
    torch.manual_seed(0)
    plain = Attention().double().eval()
    model = to_mrs(plain, "degree", example=(X, EDGES))
    torch.testing.assert_close(model(X, EDGES), plain(X, EDGES))
    part(model)
    # channels of an edge sum to one, so that the output of a node sums to its attention
    total = model(X, EDGES, edge_type=TYPES).sum(dim=1)
    torch.testing.assert_close(total, torch.isin(torch.arange(N), EDGES[1]).double())


class Weighted(MessagePassing):
    """Attention over all nodes, and messages from them."""

    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.lin, self.att = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)

    def forward(self, x, edge_index):
        everyone = torch.zeros(x.size(0), dtype=torch.long)
        return self.propagate(edge_index, x=self.lin(x) * softmax(self.att(x), everyone))

    def message(self, x_j):
        return x_j


def test_softmax_of_as_many_nodes_as_edges_stays_that_of_each_copy():
    torch.manual_seed(0)
    x, ring, types = torch.randn(4, 2).double(), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), torch.tensor([0, 1, 2, 1])
    model = part(to_mrs(Weighted().double().eval(), "degree", example=(x, ring)))
    per_copy = []
    for r in range(3):
        copies = {
            name: model.model.together(dict(model.model.conv.named_parameters())[name], deviation)[r]
            for name, deviation in zip(model.model.names, model.model.deviations, strict=True)
        }
        per_copy.append(torch.func.functional_call(model.model.conv, copies, (x, ring)))
    expected = torch.stack([per_copy[r][i] for i, r in zip(ring[1].tolist(), types.tolist(), strict=True)])
    torch.testing.assert_close(model(x, ring, edge_type=types)[ring[1]], expected)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_have_a_softmax_of_their_own(how):
    model = part(to_mrs(GATv2Conv(X.size(1), 4).double().eval(), "degree"))
    out = model(X, EDGES)
    other = how(model)
    assert other.model.softmax is not model.model.softmax
    assert torch.equal(other(X, EDGES), out)
    for layer in (model.model, other.model):
        assert layer.softmax.replacement is None
        assert not {"message", "edge_update", "propagate", "edge_updater"} & vars(layer.conv).keys()


def test_gradients_of_shared_attention():
    torch.manual_seed(0)
    model = part(to_mrs(GATv2Conv(2, 1).double().eval(), "degree"))
    edges = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 2]])
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: model(x, edges, edge_type=torch.tensor([0, 1, 2, 1])), (x,))
    model(x, edges).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_attention_weights_compile():
    torch.manual_seed(0)
    model = part(gp.to_mrs(GATv2Conv(X.size(1), 4, add_self_loops=False).double().eval(), "degree"))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(X, EDGES, edge_type=TYPES), model(X, EDGES, edge_type=TYPES))

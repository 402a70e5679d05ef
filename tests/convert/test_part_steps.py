"""Converted layers whose copies get the edges of their own relation alone."""

import copy

import pytest
import torch
from torch_geometric.nn import GATv2Conv, MessagePassing, ResGatedGraphConv, TransformerConv
from torch_geometric.utils import scatter, softmax

from graphprism.convert import to_mrs
from graphprism.convert.generic_layer import GenericLayer
from tests.convert.cases import ATTR, CASES, EDGES, N, X, outcome
from tests.convert.test_shared_softmax import part

TYPES = torch.arange(EDGES.size(1)) % 3
GENERIC = [name for name in CASES if outcome(name)[0] == "generic"]
# A batch norm in the network of messages, and a mesh whose four edges a face are of the same two faces.
WHOLE = {"GENConv", "MeshCNNConv"}
RANDOM = torch.Generator().manual_seed(1)


def layers(model: torch.nn.Module) -> list[GenericLayer]:
    return [module for module in model.modules() if isinstance(module, GenericLayer)]


def with_all_edges(model: torch.nn.Module) -> torch.nn.Module:
    """A copy whose relations all get all edges."""
    other = copy.deepcopy(model)
    for layer in layers(other):
        layer.edge_arguments = None
    return other


def converted(name: str, training: bool = False) -> torch.nn.Module:
    torch.manual_seed(0)
    return part(to_mrs(CASES[name][0]().double(), "degree", example=CASES[name][1])).train(training)


def flat(out: object) -> list[torch.Tensor]:
    if isinstance(out, torch.Tensor):
        return [out]
    parts = out.values() if isinstance(out, dict) else out
    return [tensor for each in parts for tensor in flat(each)]


def check_same(own: torch.nn.Module, whole: torch.nn.Module, *args: object, **kwargs: object) -> None:
    """Outputs and gradients of two models."""
    outs = [flat(model(*args, **kwargs)) for model in (own, whole)]
    for ours, theirs in zip(*outs, strict=True):
        torch.testing.assert_close(ours, theirs)
    for out in outs:
        sum((each * torch.linspace(-1, 1, each.numel()).view(each.shape)).sum() for each in out).backward()
    for (key, ours), theirs in zip(own.named_parameters(), whole.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None), key
        if ours.grad is not None:
            torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", GENERIC)
def test_parts_equal_all_edges(name, training):
    own = converted(name, training)
    whole = with_all_edges(own)
    check_same(own, whole, *CASES[name][1])


def test_which_layers_get_parts():
    found = {name for name in GENERIC if any(each.edge_arguments is None for each in layers(converted(name)))}
    assert found == WHOLE


class Layer(MessagePassing):
    """Messages of a function of the transformed rows of senders and of the receivers; notes how many there were."""

    def __init__(self, function, aggr="add"):
        super().__init__(aggr=aggr)
        self.lin, self.function, self.counts = torch.nn.Linear(X.size(1), 4), function, []

    def forward(self, x, edge_index, edge_weight=None):
        self.weight = edge_weight
        return self.propagate(edge_index, x=self.lin(x), w=None)

    def message(self, x_j, w, index):
        self.counts.append(x_j.size(0))
        return self.function(self, x_j, index)


def _normed(layer, x, index):
    return x / (1e-3 + scatter(x.abs(), index, dim_size=N, reduce="sum")[index])


# Each reads other edges: of a receiver, of all, or rows that the layer kept aside.
READS_OTHERS = {
    "degree": lambda layer, x, index: x / torch.bincount(index, minlength=N)[index].view(-1, 1),
    "norm": _normed,
    "mean": lambda layer, x, index: x - x.mean(dim=0),
    "maximum": lambda layer, x, index: x / x.abs().max(),
    "order": lambda layer, x, index: x.cumsum(0),
    "kept": lambda layer, x, index: x if layer.weight is None else x * layer.weight.view(-1, 1),
}


@pytest.mark.parametrize("name", [name for name in READS_OTHERS if name != "kept"])
@pytest.mark.parametrize("x", [X, torch.ones_like(X)], ids=["normal", "ones"])
def test_messages_that_read_other_edges_get_all(name, x):
    torch.manual_seed(0)
    model = to_mrs(Layer(READS_OTHERS[name]).double(), "degree", example=(x, EDGES))
    assert [layer.edge_arguments for layer in layers(model)] == [None]


def test_softmax_of_one_s_own_gets_all_edges():
    def attention(layer, x, index):
        weight = x[:, :1].exp()
        return x * weight / scatter(weight, index, dim_size=N, reduce="sum")[index]

    model = to_mrs(Layer(attention).double(), "degree", example=(torch.ones_like(X), EDGES))
    assert layers(model)[0].edge_arguments is None


def test_example_without_shared_ends_proves_nothing():
    path = torch.tensor([[0, 1, 2], [1, 2, 3]])
    model = to_mrs(Layer(lambda layer, x, index: x).double(), "degree", example=(X, path))
    assert layers(model)[0].edge_arguments is None
    model = to_mrs(Layer(lambda layer, x, index: x).double(), "degree", example=(X, EDGES[:, :0]))
    assert layers(model)[0].edge_arguments is None
    model = to_mrs(Layer(lambda layer, x, index: x).double(), "degree", example=(X, EDGES))
    assert layers(model)[0].edge_arguments is not None


@pytest.mark.parametrize("types", [torch.arange(EDGES.size(1)) % 3, torch.ones(EDGES.size(1), dtype=torch.long)])
def test_copies_compute_the_messages_of_their_relation_alone(types):
    model = to_mrs(Layer(lambda layer, x, index: x.relu()).double(), "degree", example=(X, EDGES))
    conv = layers(model)[0].conv
    conv.counts.clear()
    model(X, EDGES, edge_type=types)
    assert conv.counts == [count for count in torch.bincount(types, minlength=3).tolist() if count]


class Attention(Layer):
    def message(self, x_j, w, index):
        self.counts.append(x_j.size(0))
        return x_j * softmax(x_j[:, :1], index)


def test_attention_computes_logits_once_for_each_edge():
    model = to_mrs(Attention(None).double(), "degree", example=(X, EDGES))
    conv = layers(model)[0].conv
    conv.counts.clear()
    model(X, EDGES, edge_type=TYPES)
    assert conv.counts == torch.bincount(TYPES).tolist()


def test_rows_that_the_layer_kept_aside():
    """The probe sees none, a later call has some: as many as all edges."""
    torch.manual_seed(0)
    model = part(to_mrs(Layer(READS_OTHERS["kept"]).double(), "degree", example=(X, EDGES)))
    assert layers(model)[0].edge_arguments is not None
    weight = torch.rand(EDGES.size(1), generator=RANDOM).double()
    check_same(model, with_all_edges(model), X, EDGES, weight, edge_type=TYPES)


@pytest.mark.parametrize(
    "types",
    [
        torch.zeros(EDGES.size(1), dtype=torch.long),
        torch.full((EDGES.size(1),), 2),
        TYPES,
        torch.softmax(torch.randn(EDGES.size(1), 3, generator=RANDOM).double(), dim=1),
    ],
    ids=["first", "last", "all", "soft"],
)
@pytest.mark.parametrize("kind", [GATv2Conv, TransformerConv, ResGatedGraphConv])
def test_edge_attributes_that_the_probe_had_not(kind, types):
    torch.manual_seed(0)
    plain = kind(X.size(1), 4, edge_dim=ATTR.size(1)).double()
    model = part(to_mrs(plain, "degree"))
    check_same(model, with_all_edges(model), X, EDGES, ATTR, edge_type=types)
    model.zero_grad()
    check_same(model, with_all_edges(model), X, EDGES[:, :0], ATTR[:0], edge_type=types[:0])


def test_as_many_nodes_as_edges():
    torch.manual_seed(0)
    model = part(to_mrs(GATv2Conv(X.size(1), 4, add_self_loops=False).double(), "degree", example=(X, EDGES)))
    ring = torch.stack([torch.arange(N), torch.arange(N).roll(1)])
    check_same(model, with_all_edges(model), X, ring, edge_type=torch.arange(N) % 3)


def test_hooks_see_all_edges():
    model = to_mrs(TransformerConv(X.size(1), 4).double(), "degree")
    seen = []
    layers(model)[0].conv.register_message_forward_pre_hook(lambda conv, inputs: seen.append(inputs[-1]["value_j"]))
    model(X, EDGES, edge_type=TYPES)
    assert {each.size(0) for each in seen} == {EDGES.size(1)}


def test_dropout_of_messages_is_drawn_for_each_edge_once():
    torch.manual_seed(0)
    model = to_mrs(Layer(lambda layer, x, index: torch.dropout(x, 0.5, True)).double(), "degree", example=(X, EDGES))
    assert layers(model)[0].edge_arguments is not None
    mean = torch.stack([model(X, EDGES, edge_type=TYPES) for _ in range(2000)]).mean(dim=0)
    layers(model)[0].conv.function = lambda layer, x, index: x
    torch.testing.assert_close(mean, model(X, EDGES, edge_type=TYPES), rtol=0.1, atol=0.15)


class Positioned(Layer):
    """Takes positions of nodes, if there are any."""

    def forward(self, x, edge_index, pos=None):
        return self.propagate(edge_index, x=self.lin(x), pos=pos)

    def message(self, x_j, pos, index):
        return x_j if pos is None else x_j * pos[index]


def test_rows_of_nodes_that_the_probe_had_not():
    """As many nodes as edges: rows of nodes are not taken for those of edges."""
    torch.manual_seed(0)
    model = part(to_mrs(Positioned(None).double(), "degree", example=(X, EDGES)))
    both = torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]])
    pos = torch.arange(1.0, 5).view(-1, 1).double()
    check_same(model, with_all_edges(model), X[:4], both, pos, edge_type=torch.tensor([0, 0, 1, 1]))


class Gated(MessagePassing):
    """Gates of all edges, made before messages are passed, and returned after."""

    def __init__(self):
        super().__init__(aggr="add")
        self.lin, self.gate = torch.nn.Linear(X.size(1), 4), torch.nn.Linear(X.size(1), 1)

    def forward(self, x, edge_index):
        self._alpha = self.gate(x)[edge_index[0]].sigmoid()
        out = self.propagate(edge_index, x=self.lin(x), gate=self._alpha)
        return out, self._alpha

    def message(self, x_j, gate):
        return gate * x_j


def test_gates_of_all_edges():
    torch.manual_seed(0)
    model = part(to_mrs(Gated().double(), "degree", example=(X, EDGES)))
    assert layers(model)[0].edge_arguments is not None
    check_same(model, with_all_edges(model), X, EDGES, edge_type=TYPES)

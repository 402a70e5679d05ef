"""Converted layers whose copies get the edges of their own relation alone."""

import copy
import gc
import random
import weakref

import pytest
import torch
from torch_geometric.nn import GATv2Conv, MessagePassing, ResGatedGraphConv, SuperGATConv, TransformerConv
from torch_geometric.utils import scatter, softmax

from graphprism.convert import layer_call, part_steps, steps, to_mrs
from graphprism.convert.current_split import SplitEdgeIndex
from graphprism.convert.generic_layer import GenericLayer
from tests.convert.cases import ATTR, CASES, EDGES, N, X, outcome
from tests.convert.test_shared_softmax import part

TYPES = torch.arange(EDGES.size(1)) % 3
GENERIC = [name for name in CASES if outcome(name)[0] == "generic"]
# A batch norm in the network of messages, a mesh whose four edges a face are of the same two faces, and random edges in
# training.
WHOLE = {"GENConv", "MeshCNNConv", "SuperGATConv"}
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
        self.scale = torch.nn.Parameter(torch.zeros(4))

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
    "at first unseen": lambda layer, x, index: x + layer.scale * x.mean(dim=0),
    "hardly seen": lambda layer, x, index: x + (layer.scale + 1e-7) * x.mean(dim=0),
    "in training": lambda layer, x, index: x - x.mean(dim=0) if layer.training else x,
    "random": lambda layer, x, index: x * (torch.rand(1) > 0 if layer.training else 1.0),
    "kept": lambda layer, x, index: x if layer.weight is None else x * layer.weight.view(-1, 1),
}


@pytest.mark.parametrize("name", [name for name in READS_OTHERS if name != "kept"])
@pytest.mark.parametrize("x", [X, 1e-7 * X, torch.ones_like(X), torch.zeros_like(X)], ids=["normal", "tiny", "1", "0"])
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


def test_attention_computes_logits_and_messages_of_their_relation_alone():
    model = to_mrs(Attention(None).double(), "degree", example=(X, EDGES))
    conv = layers(model)[0].conv
    conv.counts.clear()
    model(X, EDGES, edge_type=TYPES)
    assert conv.counts == 2 * torch.bincount(TYPES).tolist()


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


class Embedded(Layer):
    """Takes numbers of kinds."""

    def __init__(self, function):
        super().__init__(function)
        self.kinds = torch.nn.Embedding(3, X.size(1))

    def forward(self, x, edge_index):
        return super().forward(self.kinds(x), edge_index)


def test_equal_kinds_prove_nothing():
    model = to_mrs(Embedded(READS_OTHERS["mean"]).double(), "degree", example=(torch.zeros(N).long(), EDGES))
    assert layers(model)[0].edge_arguments is None


class Optional(Layer):
    """Reads other edges where it is told to."""

    def forward(self, x, edge_index, centre=False, shift=None):
        self.centre, self.shift = centre, shift
        return self.propagate(edge_index, x=self.lin(x), w=None)

    def message(self, x_j, w):
        x_j = x_j - x_j.mean(dim=0) if self.centre else x_j
        return x_j if self.shift is None else x_j + self.shift * x_j.mean(dim=0)


@pytest.mark.parametrize("more", [{"centre": True}, {"shift": torch.ones(1).double()}])
def test_arguments_that_the_probe_had_not(more):
    torch.manual_seed(0)
    model = part(to_mrs(Optional(None).double(), "degree", example=(X, EDGES)))
    assert layers(model)[0].edge_arguments is not None
    check_same(model, with_all_edges(model), X, EDGES, edge_type=TYPES, **more)


class KeepsRows(Layer):
    """Keeps rows of nodes of its copy until after a softmax."""

    def __init__(self, place):
        super().__init__(None)
        self.place = place

    def forward(self, x, edge_index):
        self.kept = self.lin(x)
        return self.propagate(edge_index, x=self.kept, w=None)

    def message(self, x_j, w, index):
        if self.place == "no gradients":
            with torch.no_grad():
                alpha = softmax(x_j[:, :1], index)
            return alpha * self.lin(x_j @ self.lin.weight)
        alpha = softmax(x_j[:, :1], index)
        if self.place == "attention":
            self.attention = alpha
            return alpha * x_j
        return alpha * self.kept[index]


@pytest.mark.parametrize("place", ["rows", "attention", "no gradients"])
@pytest.mark.parametrize("in_parts", [False, True])
def test_state_during_a_softmax(place, in_parts):
    torch.manual_seed(0)
    model = part(to_mrs(KeepsRows(place).double(), "degree", example=(X, EDGES)))
    layer = layers(model)[0]
    assert layer.edge_arguments is None  # it keeps tensors
    whole = with_all_edges(model)
    if in_parts:  # and if it were not for that
        layer.edge_arguments = layers(to_mrs(Attention(None).double(), "degree", example=(X, EDGES)))[0].edge_arguments
    check_same(model, whole, X, EDGES, edge_type=TYPES)
    if place == "attention" and not in_parts:
        assert layer.conv.attention.size(0) == EDGES.size(1)


def test_cache_of_a_message():
    def normed(layer, x, index):
        if not layer.counts[1:]:
            layer.cache.append(torch.bincount(index, minlength=N).clamp(min=1))
        return x / layer.cache[-1][index].view(-1, 1)

    plain = Layer(normed).double()
    plain.cache = []
    model = to_mrs(plain, "degree", example=(X, EDGES))
    assert layers(model)[0].edge_arguments is None


class Signed(Layer):
    """Messages along two sets of edges."""

    def forward(self, x, pos_edge_index, neg_edge_index):
        x = self.lin(x)
        return self.propagate(pos_edge_index, x=x, w=None) - 2 * self.propagate(neg_edge_index, x=x, w=None)


def test_equal_edges_of_two_sets_have_their_own_relations():
    torch.manual_seed(0)
    plain = Signed(lambda layer, x, index: x).double()
    model = part(to_mrs(plain, "degree", example=(X, EDGES, EDGES.clone())))
    layer = layers(model)[0]
    assert layer.edge_arguments is not None
    call = layer_call.Call(layer.conv, layer.softmax, None, (X, EDGES, EDGES.clone()), {})
    entry = [SplitEdgeIndex(call.args[1], TYPES), SplitEdgeIndex(call.args[2], (TYPES + 1) % 3)]
    copies = [{"lin.weight": torch.full((4, X.size(1)), 1.0 + r).double()} for r in range(3)]
    own = part_steps.steps_in_parts(call, copies, 2, entry, layer.edge_arguments)
    for one, other in zip(own, steps.whole_steps(call, lambda: copies, 2, entry), strict=True):
        torch.testing.assert_close(one.message, other.message)


class Dropped(Layer):
    """Drops the last edge in every second call."""

    calls = 0

    def forward(self, x, edge_index):
        Dropped.calls += 1
        return self.propagate(edge_index[:, : edge_index.size(1) - Dropped.calls % 2], x=self.lin(x), w=None)


def test_copies_that_make_different_edges():
    model = to_mrs(Layer(lambda layer, x, index: x).double(), "degree", example=(X, EDGES))
    layer = layers(model)[0]
    plain = Dropped(lambda layer, x, index: x).double()
    call = layer_call.Call(plain, layer.softmax, EDGES, (X, EDGES), {})
    with pytest.raises(part_steps.Unsure):
        part_steps.steps_in_parts(call, [{}] * 3, 1, [SplitEdgeIndex(EDGES, TYPES)], layer.edge_arguments)


class Strict(Layer):
    """Refuses what its makers did not think of, in its own ways."""

    def __init__(self, kind):
        super().__init__(None)
        self.kind = kind

    def forward(self, x, edge_index, y=None):
        self.edges = edge_index.size(1)
        out = self.propagate(edge_index, x=self.lin(x), w=None)
        if self.kind == "training" and self.training:
            self.loss = torch.nn.functional.cross_entropy(out, y)
        if self.kind == "message":
            self.message(x[edge_index[0]], None)
        return out

    def message(self, x_j, w):
        if self.kind == "assert":
            assert x_j.size(0) == self.edges
        return x_j * {self.edges: 2.0}[x_j.size(0)] if self.kind == "key" else x_j


@pytest.mark.parametrize("kind", ["assert", "training", "message", "key"])
def test_whatever_a_layer_raises_in_a_probe(kind):
    torch.manual_seed(0)
    plain = Strict(kind).double().eval()
    model = to_mrs(plain, "degree", example=(X, EDGES))
    assert layers(model)[0].edge_arguments is None
    torch.testing.assert_close(model(X, EDGES), plain(X, EDGES))


def test_probe_draws_no_random_numbers_of_others():
    plain = SuperGATConv(X.size(1), 4, edge_sample_ratio=0.5)
    states = torch.get_rng_state(), random.getstate()
    to_mrs(plain, "degree")
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate()


def test_errors_after_the_messages_are_raised_at_once():
    model = to_mrs(Layer(lambda layer, x, index: x).double(), "degree", example=(X, EDGES))
    conv = layers(model)[0].conv

    def aggregate(*_, **__):
        raise RuntimeError("no memory")

    conv.aggregate = aggregate
    conv.counts.clear()
    with pytest.raises(RuntimeError, match="no memory"):
        model(X, EDGES, edge_type=TYPES)
    assert conv.counts == torch.bincount(TYPES).tolist()


def test_large_examples_are_tried_in_part():
    edges = torch.randint(3000, (2, 50_000), generator=RANDOM)
    x = torch.randn(3000, X.size(1), generator=RANDOM).double()
    seen = []

    def message(layer, x, index):
        seen.append(x.size(0))
        return x

    for function, known in ((message, True), (lambda layer, x, index: x - x.mean(dim=0), False)):
        model = to_mrs(Layer(function).double(), "degree", example=(x, edges))
        assert (layers(model)[0].edge_arguments is not None) == known
    assert sum(size > 5000 for size in seen) == 2  # the example, and the probe for parameters
    check_same(part(model), with_all_edges(model), x, edges)


def test_tensors_of_a_call_are_freed_without_the_garbage_collector():
    made = []

    class Watched(Layer):
        def message(self, x_j, w, index):
            out = x_j * softmax(x_j[:, :1], index)
            made.append(weakref.ref(out))
            return out

    model = to_mrs(Watched(None).double(), "degree", example=(X, EDGES))
    assert layers(model)[0].edge_arguments is not None
    made.clear()
    gc.disable()
    try:
        out = model(X, EDGES, edge_type=TYPES)
        assert len(made) == 3
        del out
        assert not any(each() is not None for each in made)
    finally:
        gc.enable()

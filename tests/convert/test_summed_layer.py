"""Layers whose weights act on sums of messages: by hand, laws, and what is refused."""

import copy

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.nn import MLP, MessagePassing, conv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import scatter, softmax

from graphprism.convert import to_mrs
from graphprism.convert.summed_layer import SummedLayer
from tests.convert.cases import EDGES, WEIGHT, F, N, X

TYPES = (EDGES[0] + EDGES[1]) % 3
OUT = 4


def dense(weight: torch.Tensor, edges: torch.Tensor = EDGES) -> torch.Tensor:
    """The matrix (N, N) that sums messages of weighted edges."""
    return torch.zeros(N, N, dtype=torch.float64).index_put((edges[1], edges[0]), weight, accumulate=True)


def normalised() -> torch.Tensor:
    """Coefficients of all edges, with the degrees of the whole graph."""
    return gcn_norm(EDGES, WEIGHT, N, add_self_loops=False)[1]


def split(weight: torch.Tensor) -> list[torch.Tensor]:
    return [dense(torch.where(r == TYPES, weight, 0)) for r in range(3)]


def converted(layer: torch.nn.Module, *args: object, **options: object) -> torch.nn.Module:
    """A converted layer whose relations differ."""
    torch.manual_seed(0)
    model = to_mrs(layer.double().eval(), example=args, **options)
    assert isinstance(model.model, SummedLayer)
    for deviation in model.model.deviations:
        deviation.data = torch.randn_like(deviation)
    return model


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The parameters of all relations, (R, ...), by name."""
    layer, own = model.model, dict(model.model.conv.named_parameters())
    found = zip(layer.names, layer.deviations, strict=True)
    return {name: layer.together(own[name], deviation, dim=0) for name, deviation in found}


def test_tag_conv_by_hand():
    """x W_0 + sum over k and r of A_r A^(k-1) x W_kr."""
    model = converted(conv.TAGConv(F, OUT, K=2), X, EDGES, WEIGHT)
    own, each = model.model.conv, weights(model)
    whole, parts = dense(normalised()), split(normalised())
    out = X @ own.lins[0].weight.T + own.bias
    for r in range(3):
        out = out + parts[r] @ X @ each["lins.1.weight"][r].T + parts[r] @ whole @ X @ each["lins.2.weight"][r].T
    assert torch.allclose(model(X, EDGES, WEIGHT, edge_type=TYPES), out, rtol=1e-12, atol=1e-12)


def test_gcn2_conv_by_hand():
    """With s the sums, s_r those of a relation: (1 - b) s + b sum of s_r W_r."""
    model = converted(conv.GCN2Conv(F, alpha=0.2, theta=0.5, layer=2, normalize=False), X, X + 1, EDGES, WEIGHT)
    own, each = model.model.conv, weights(model)["weight1"]
    out = 0.8 * dense(WEIGHT) @ X + 0.2 * (X + 1)
    out = (1 - own.beta) * out + own.beta * 0.2 * (X + 1) @ own.weight1
    for r, part in enumerate(split(WEIGHT)):
        out = out + own.beta * 0.8 * part @ X @ each[r]
    assert torch.allclose(model(X, X + 1, EDGES, WEIGHT, edge_type=TYPES), out, rtol=1e-12, atol=1e-12)


def test_mean_takes_the_number_of_all_neighbours():
    class Mean(MessagePassing):
        def __init__(self) -> None:
            super().__init__(aggr="mean")
            self.lin, self.in_channels = torch.nn.Linear(F, OUT), F

        def forward(self, x, edge_index):
            return self.lin(self.propagate(edge_index, x=x))

    model = converted(Mean(), X, EDGES)
    count = dense(torch.ones(EDGES.size(1), dtype=torch.float64)).sum(dim=1).clamp(min=1)
    parts = split((1 / count)[EDGES[1]])
    out = sum(part @ X @ weight.T for part, weight in zip(parts, weights(model)["lin.weight"], strict=True))
    assert torch.allclose(model(X, EDGES, edge_type=TYPES), out + model.model.conv.lin.bias, rtol=1e-12, atol=1e-12)


def test_softmax_aggregation_takes_the_weights_of_all_neighbours():
    """GENConv of DeeperGCN: its network gets a first map per relation."""
    attr = torch.rand(EDGES.size(1), F, dtype=torch.float64)
    model = converted(conv.GENConv(F, F, aggr="softmax", t=0.5, learn_t=True, norm=None), X, EDGES, attr)
    own, (weight,) = model.model.conv, weights(model).values()
    message = (X[EDGES[0]] + attr).relu() + own.eps
    alpha = softmax(message * own.aggr_module.t, EDGES[1], num_nodes=N) * message
    first, *others = own.mlp.children()
    hidden = first(X)
    for r in range(3):
        hidden = hidden + torch.zeros_like(X).index_add(0, EDGES[1], alpha * (r == TYPES)[:, None]) @ weight[r].T
    assert torch.allclose(
        model(X, EDGES, attr, edge_type=TYPES), torch.nn.Sequential(*others)(hidden), rtol=1e-12, atol=1e-12
    )


class Updated(MessagePassing):
    """Adds the node itself in ``update``."""

    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.lin, self.in_channels = torch.nn.Linear(F, OUT), F

    def forward(self, x, edge_index):
        return self.lin(self.propagate(edge_index, x=x))

    def update(self, inputs, x):
        return 2 * inputs + x


def test_update_is_a_part_of_the_sum_without_messages():
    model = converted(Updated(), X, EDGES)
    out = X @ model.model.conv.lin.weight.T + model.model.conv.lin.bias
    for part, weight in zip(split(torch.ones_like(WEIGHT)), weights(model)["lin.weight"], strict=True):
        out = out + 2 * part @ X @ weight.T
    assert torch.allclose(model(X, EDGES, edge_type=TYPES), out, rtol=1e-12, atol=1e-12)


class Network(MessagePassing):
    """A network behind the sum, beside the sum itself."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__(aggr="add")
        self.in_channels = F
        self.root = torch.nn.Linear(F, F)
        self.mlp = MLP([F, 5, F], norm=None, dropout=dropout)

    def forward(self, x, edge_index):
        sums = self.propagate(edge_index, x=x)
        return sums + self.mlp(self.root(x) + sums)


@pytest.mark.parametrize("training", [False, True])
def test_network_behind_the_sum_gets_a_first_map_per_relation(training):
    model = converted(Network(dropout=0.5), X, EDGES).train(training)
    layer = model.model
    assert (layer.at, layer.names) == ("mlp.lins.0", ["mlp.lins.0.weight"])
    parts, own = [part @ X for part in split(torch.ones_like(WEIGHT))], layer.conv
    hidden = own.mlp.lins[0](own.root(X))
    hidden = hidden + sum(part @ w.T for part, w in zip(parts, weights(model)["mlp.lins.0.weight"], strict=True))
    torch.manual_seed(3)
    hidden = torch.nn.functional.dropout(hidden.relu(), 0.5, training)
    expected = sum(parts) + own.mlp.lins[1](hidden)
    torch.manual_seed(3)
    assert torch.allclose(model(X, EDGES, edge_type=TYPES), expected, rtol=1e-12, atol=1e-12)
    assert "forward" not in vars(own.mlp.lins[0])  # what a call replaces is back


def test_frozen_weights_stay_frozen():
    layer = conv.SGConv(F, OUT).requires_grad_(False)
    model = to_mrs(layer)
    assert model.model.names == ["lin.weight"]
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_conversion_leaves_the_random_state_as_it_is():
    layer, state = conv.SGConv(F, OUT), torch.get_rng_state()
    to_mrs(layer)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("make", [lambda: conv.TAGConv(F, OUT), lambda: Network(), lambda: conv.ChebConv(F, OUT, 3)])
def test_every_parameter_gets_a_gradient(make):
    torch.manual_seed(0)
    model = to_mrs(make().double(), example=(X, EDGES))
    model(X, EDGES, edge_type=TYPES).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def test_gradients_of_all_inputs_and_parameters():
    model = converted(Network(), X, EDGES)
    x = X.clone().requires_grad_()
    names, values = zip(*model.named_parameters(), strict=True)

    def run(x, *parameters):
        return torch.func.functional_call(
            model, dict(zip(names, parameters, strict=True)), (x, EDGES), {"edge_type": TYPES}
        )

    assert torch.autograd.gradcheck(run, (x, *values))


@pytest.mark.parametrize("make", [lambda: conv.TAGConv(F, OUT), lambda: Network()])
def test_numbering_of_nodes_and_order_of_edges_do_not_matter(make):
    model = converted(make(), X, EDGES)
    generator = torch.Generator().manual_seed(1)
    nodes, order = torch.randperm(N, generator=generator), torch.randperm(EDGES.size(1), generator=generator)
    place = torch.argsort(nodes)
    out = model(X[nodes], place[EDGES][:, order], edge_type=TYPES[order])
    assert torch.allclose(out, model(X, EDGES, edge_type=TYPES)[nodes], rtol=1e-12, atol=1e-12)


def test_batch_is_its_parts():
    model = converted(conv.TAGConv(F, OUT), X, EDGES)
    both = model(torch.cat([X, 2 * X]), torch.cat([EDGES, EDGES + N], dim=1), edge_type=TYPES.repeat(2))
    parts = [model(x, EDGES, edge_type=TYPES) for x in (X, 2 * X)]
    assert torch.allclose(both, torch.cat(parts), rtol=1e-12, atol=1e-12)


def test_scores_weigh_messages():
    model = converted(conv.TAGConv(F, OUT), X, EDGES)
    scores = torch.nn.functional.one_hot(TYPES, 3)
    typed = model(X, EDGES, edge_type=TYPES)
    assert torch.allclose(model(X, EDGES, edge_type=scores.double()), typed, rtol=1e-12, atol=1e-12)


def test_copies_and_saved_states_are_equal():
    model = converted(Network(), X, EDGES)
    other = to_mrs(Network().double(), example=(X, EDGES))
    other.load_state_dict(model.state_dict())
    out = model(X, EDGES)
    assert torch.equal(other.eval()(X, EDGES), out)
    assert torch.equal(copy.deepcopy(model)(X, EDGES), out)


def test_independent_relations_start_with_different_weights():
    torch.manual_seed(0)
    model = to_mrs(conv.SGConv(F, OUT).double(), start="independent", example=(X, EDGES))
    each = weights(model)["lin.weight"]
    assert not torch.allclose(each[0], each[1])


def test_layers_of_a_model_convert_without_an_example():
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = conv.ChebConv(F, 8, K=2), conv.SGConv(8, OUT, K=2)

        def forward(self, x, edge_index):
            return self.second(self.first(x, edge_index).relu(), edge_index)

    plain = Net().eval()
    model = to_mrs(plain)
    x = X.float()
    assert torch.allclose(model(x, EDGES), plain(x, EDGES), atol=1e-5)


def test_no_edges_and_one_node():
    model = converted(conv.TAGConv(F, OUT), X, EDGES)
    own = model.model.conv
    out = model(X[:1], EDGES[:, :0])
    assert torch.allclose(out, X[:1] @ own.lins[0].weight.T + own.bias)


class Noisy(MessagePassing):
    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.lin, self.in_channels = torch.nn.Linear(F, OUT), F

    def forward(self, x, edge_index):
        return torch.nn.functional.dropout(self.propagate(edge_index, x=x), 0.5, self.training) * self.lin.weight.sum()


class Beside(MessagePassing):
    def __init__(self) -> None:
        super().__init__(aggr="add")
        self.lin, self.in_channels = torch.nn.Linear(F, F), F

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x) + self.lin(x)


class Twice(Beside):
    def forward(self, x, edge_index):
        return self.lin(self.lin(self.propagate(edge_index, x=x)).relu())


class Whole(Beside):
    def forward(self, x, edge_index):
        return self.lin(self.propagate(edge_index, x=x.float()).numpy(force=True).sum() + x)


class Extreme(MessagePassing):
    def __init__(self) -> None:
        super().__init__(aggr="max")
        self.lin, self.in_channels = torch.nn.Linear(F, F), F

    def forward(self, x, edge_index):
        return self.lin(self.propagate(edge_index, x=x))


class Rectified(Beside):
    """Positive messages, as those of the example, do not show what `update` does."""

    def forward(self, x, edge_index):
        return self.lin(self.propagate(edge_index, x=x))

    def update(self, inputs):
        return inputs.relu()


class Bounded(Beside):
    def forward(self, x, edge_index):
        return self.lin(self.propagate(edge_index, x=x).clamp(-50, 50))


class Squared(Beside):
    """Scores of an edge would count twice."""

    def forward(self, x, edge_index):
        return self.lin(self.propagate(edge_index, x=x))

    def aggregate(self, inputs, index, dim_size):
        return scatter(inputs * inputs.sum(dim=1, keepdim=True), index, 0, dim_size, "sum")


class NoiseBefore(Beside):
    """The same noise acts in the sum and beside it, which two calls do not have."""

    def forward(self, x, edge_index):
        x = torch.nn.functional.dropout(x, 0.5, self.training)
        return self.lin(self.propagate(edge_index, x=x)) + x


class Gated(Beside):
    """Without the network until its gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.network = torch.nn.Parameter(torch.zeros(F)), MLP([F, 5, F], norm=None)

    def forward(self, x, edge_index):
        sums = self.propagate(edge_index, x=x)
        return self.lin(sums) + self.gate * self.network(sums)


def test_gate_of_zero_does_not_hide_a_network():
    """With an open gate the layer is still the original with equal parameters."""
    torch.manual_seed(0)
    plain = Gated().double()
    model = to_mrs(plain, example=(X, EDGES))
    assert model.model.names == ["lin.weight"]
    plain.gate.data.fill_(2)
    model.model.conv.gate.data.fill_(2)
    assert torch.allclose(model(X, EDGES), plain(X, EDGES), rtol=1e-12, atol=1e-12)


class Dropping(Beside):
    """Noise in front of, in and behind the sum."""

    def forward(self, x, edge_index):
        x = torch.nn.functional.dropout(x, 0.5, self.training)
        return self.lin(self.propagate(edge_index, x=x))

    def message(self, x_j):
        return torch.nn.functional.dropout(x_j, 0.5, self.training)


@pytest.mark.parametrize("training", [False, True])
def test_noise_before_the_sum_converts_in_either_mode(training):
    plain = Dropping().double().train(training)
    model = to_mrs(plain, example=(X, EDGES))
    torch.manual_seed(1)
    expected = plain(X, EDGES)
    torch.manual_seed(1)
    assert torch.allclose(model(X, EDGES), expected, rtol=1e-12, atol=1e-12)


class Statistics(Beside):
    """Buffers that a call updates: in front of the sums, in and behind them, and by their value."""

    def __init__(self, *, acts: bool) -> None:
        super().__init__()
        self.before, self.within = (torch.nn.BatchNorm1d(F, affine=False) for _ in range(2))
        self.behind, self.acts = torch.nn.BatchNorm1d(F), acts
        self.register_buffer("average", torch.zeros(F))

    def forward(self, x, edge_index):
        sums = self.propagate(edge_index, x=self.before(x))
        if self.training:
            self.average.mul_(0.9).add_(sums.detach().mean(dim=0))
        return self.behind(self.lin(sums).relu()) if self.acts else self.lin(sums)

    def message(self, x_j):
        return self.within(x_j)


@pytest.mark.parametrize("acts", [False, True])
@pytest.mark.parametrize("traced", [False, True])
def test_call_updates_buffers_once(acts, traced):
    torch.manual_seed(0)
    plain = Statistics(acts=acts).double()
    model = to_mrs(plain, example=(X, EDGES))
    assert model.model.at == ("lin" if acts else "")
    called = torch.compile(model, backend="aot_eager", fullgraph=True) if traced else model
    assert torch.allclose(called(X, EDGES, edge_type=TYPES), plain(X, EDGES), rtol=1e-12, atol=1e-12)
    for found, expected in zip(model.model.conv.buffers(), plain.buffers(), strict=True):
        assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_layer_copied_in_inference_mode_runs():
    model = to_mrs(Statistics(acts=True).double().eval(), example=(X, EDGES))
    with torch.inference_mode():
        assert torch.equal(copy.deepcopy(model)(X, EDGES), model(X, EDGES))


def test_call_updates_spectral_norm_once():
    torch.manual_seed(0)
    plain = Network().double()
    torch.nn.utils.parametrizations.spectral_norm(plain.mlp.lins[0])
    model = to_mrs(plain, example=(X, EDGES))
    assert torch.allclose(model(X, EDGES), plain(X, EDGES), rtol=1e-12, atol=1e-12)
    for found, expected in zip(model.model.conv.buffers(), plain.buffers(), strict=True):
        assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [lambda: conv.SGConv(F, OUT), lambda: Network()])
def test_hooks_of_the_layer_see_one_output(make):
    model, seen = converted(make(), X, EDGES), []
    model.model.conv.register_forward_hook(lambda module, args, out: seen.append(out))
    out = model(X, EDGES, edge_type=TYPES)
    assert len(seen) == 1
    assert torch.equal(seen[0], out)


class Fused(Beside):
    SUPPORTS_FUSED_EDGE_INDEX = True

    def forward(self, x, edge_index):
        return self.lin(self.propagate(edge_index, x=x))

    def message_and_aggregate(self, edge_index, x):
        return edge_index.matmul(x, transpose=True)


def test_sorted_edges_pass_messages_one_by_one():
    """PyG takes a product for these, without a message to weigh by its relation."""
    model, x = converted(Fused(), X, EDGES).float(), X.float()
    order = (EDGES[1] * N + EDGES[0]).argsort()
    edges, types = EDGES[:, order], TYPES[order]
    sorted_edges = EdgeIndex(edges, sparse_size=(N, N), sort_order="col")
    expected = model(x, edges, edge_type=types)
    assert torch.allclose(model(x, sorted_edges, edge_type=types), expected, atol=1e-5)
    assert not torch.allclose(model(x, sorted_edges, edge_type=0 * types), expected, atol=1e-2)


class Pair(Beside):
    def forward(self, x, edge_index):
        sums = self.propagate(edge_index, x=x)
        return self.lin(sums), {"sums": sums}


def test_layer_may_return_more_than_a_tensor():
    model = converted(Pair(), X, EDGES)
    out, rest = model(X, EDGES, edge_type=TYPES)
    parts, each = split(torch.ones_like(WEIGHT)), weights(model)["lin.weight"]
    expected = model.model.conv.lin.bias + sum(part @ X @ weight.T for part, weight in zip(parts, each, strict=True))
    assert torch.allclose(out, expected, rtol=1e-12, atol=1e-12)
    assert torch.allclose(rest["sums"], sum(parts) @ X, rtol=1e-12, atol=1e-12)


PATH = torch.tensor([[0, 1, 2], [1, 2, 3]])


def test_largest_of_one_message_is_not_taken_for_a_sum():
    with pytest.raises(ValueError, match="no node of `example` gets two messages"):
        to_mrs(Extreme(), example=(X.float(), PATH))
    to_mrs(conv.SGConv(F, OUT), example=(X.float(), PATH))  # a sum by its name


@pytest.mark.parametrize("layer", [Rectified, Bounded, Squared, NoiseBefore])
@pytest.mark.parametrize("training", [False, True])
def test_what_only_looks_additive_is_refused(layer, training):
    with pytest.raises(ValueError, match=r"are not added|no weights act on their sum alone"):
        to_mrs(layer().train(training), example=(torch.ones(N, F), EDGES))


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (lambda: conv.SGConv(F, OUT, cached=True), "it caches its sums"),
        (Extreme, "and are not added"),
        (
            lambda: conv.GENConv(F, F, aggr="power", learn_p=True),
            "its messages depend on no parameters, and are not added",
        ),
        (Beside, "no weights act on their sum alone"),
        (Noisy, "no weights act on their sum alone"),
        (Twice, "no weights act on their sum alone"),
        (Whole, "no weights act on their sum alone"),
        (lambda: conv.APPNP(2, 0.1), "its messages depend on no parameters: it has none"),
    ],
)
def test_what_has_no_sums_by_relation_is_refused(layer, reason):
    with pytest.raises(ValueError, match=reason):
        to_mrs(layer(), example=(X.float(), EDGES))

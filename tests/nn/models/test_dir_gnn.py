from functools import reduce
from itertools import pairwise

import pytest
import torch

from graphprism.nn import DirGNN
from graphprism.nn.models import NODE_CONVOLUTIONS
from graphprism.nn.models.larger import larger
from graphprism.ops import RelationalAdj
from graphprism.testing import tolerance
from tests.nn.conv.cases import GRAPHS, IN, make_example

WIDTH, CLASSES = 6, 3
EXACT = tolerance(torch.double)


def make_model(conv, layers=3, **options):
    torch.manual_seed(0)
    return DirGNN(conv, IN, WIDTH, CLASSES, layers, **options).double()


def make_input(graph="random"):
    example = make_example(GRAPHS[graph])
    return example.x, example.edge_index, example.edge_type


def matrices_of(edge_index, edge_type, num_nodes):
    """Entry (i, j) of matrix r: edges from j to i of relation r, normalised by both ends; and its counterpart."""
    matrices = torch.zeros(3, num_nodes, num_nodes, dtype=torch.double)
    matrices.index_put_((edge_type, edge_index[1], edge_index[0]), torch.ones(()).double(), accumulate=True)
    whole = matrices.sum(0)
    return whole.sum(1).clamp(min=1).rsqrt()[:, None] * matrices * whole.sum(0).clamp(min=1).rsqrt()


def written_out(model, x, edge_index, edge_type, alpha):
    """Dir-GNN with dense matrices, from its definition."""
    matrices = matrices_of(edge_index, edge_type, x.size(0))
    h, states = x, []
    for number, conv in enumerate(model.convs):
        parts = []
        for layer, way, share in ((conv.conv_out, matrices.mT, alpha), (conv.conv_in, matrices, 1 - alpha)):
            way = way if layer.num_relations == 3 else way.sum(0, keepdim=True)
            parts.append(share * (sum(m @ h @ w for m, w in zip(way, layer.lin.weight, strict=True)) + layer.bias))
        h = sum(parts)
        if model.jk is not None or number < len(model.convs) - 1:
            h = h.clamp(min=0)
            h = h / h.square().sum(1, keepdim=True).sqrt().clamp(min=1e-12) if model.normalize else h
        states.append(h)
    if model.jk is None:
        return h
    joined = torch.cat(states, 1) if model.jk == "cat" else reduce(torch.maximum, states)
    return joined @ model.head.weight.T + model.head.bias


@pytest.mark.parametrize("conv", ["dir-gcn", "mrs-dir-gcn"])
@pytest.mark.parametrize("jk", [None, "cat", "max"])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("graph", ["random", "directed"])
def test_it_is_its_definition(conv, jk, normalize, graph):
    model = make_model(conv, jk=jk, normalize=normalize, alpha=0.3)
    for name, weight in model.named_parameters():  # biases start at zero, where they would hide a mistake
        if name.endswith("bias"):
            torch.nn.init.normal_(weight)
    data = make_input(graph)
    torch.testing.assert_close(model(*data), written_out(model, *data, 0.3), **EXACT)


@pytest.mark.parametrize("conv", NODE_CONVOLUTIONS)
@pytest.mark.parametrize("jk", [None, "cat", "max"])
def test_every_form_runs_and_learns(conv, jk):
    model = make_model(conv, jk=jk, normalize=True, dropout=0.1)
    out = model(*make_input())
    assert out.shape == (12, CLASSES)
    out.square().sum().backward()
    assert not [name for name, weight in model.named_parameters() if weight.grad is None]


@pytest.mark.parametrize("conv", NODE_CONVOLUTIONS)
def test_a_prepared_graph_gives_the_same(conv):
    x, edge_index, edge_type = make_input()
    model = make_model(conv, jk="max")
    types = {"edge_type": edge_type, "num_relations": 3} if conv.startswith("mrs-") else {}
    adj = RelationalAdj(edge_index, num_nodes=12, **types)
    torch.testing.assert_close(model(x, adj), model(x, edge_index, edge_type), **EXACT)


@pytest.mark.parametrize(
    ("conv", "alpha", "expected"),
    [
        # in, between, out; weights and bias of each convolution
        ("mlp", 0.5, (IN + 1) * WIDTH + (WIDTH + 1) * WIDTH + (WIDTH + 1) * CLASSES),
        ("mrs-gcn", 0.5, (3 * IN + 1) * WIDTH + (3 * WIDTH + 1) * WIDTH + (3 * WIDTH + 1) * CLASSES),
        ("dir-gcn", 0.5, 2 * ((IN + 1) * WIDTH + (WIDTH + 1) * WIDTH + (WIDTH + 1) * CLASSES)),
        ("mrs-dir-gcn", 1.0, (3 * IN + 1) * WIDTH + (3 * WIDTH + 1) * WIDTH + (3 * WIDTH + 1) * CLASSES),
        # one matrix for the node itself, one for the neighbours of each direction
        ("dir-sage", 0.5, (3 * IN + 2) * WIDTH + (3 * WIDTH + 2) * WIDTH + (3 * WIDTH + 2) * CLASSES),
        ("mrs-dir-sage", 0.5, (7 * IN + 2) * WIDTH + (7 * WIDTH + 2) * WIDTH + (7 * WIDTH + 2) * CLASSES),
    ],
)
def test_parameters(conv, alpha, expected):
    model = make_model(conv, alpha=alpha)
    assert sum(weight.numel() for weight in model.parameters()) == expected


@pytest.mark.parametrize("layer", ["gcn", "sage", "gat", "dir-gcn", "dir-sage", "dir-gat"])
def test_relations_that_start_alike_start_as_the_plain_network(layer):
    split, plain = make_model(f"mrs-{layer}", jk="cat", share_init=True), make_model(layer, jk="cat")
    state = {
        name: weight[:1] if weight.dim() == 3 and "lin" in name else weight
        for name, weight in split.state_dict().items()
    }
    plain.load_state_dict(state)
    torch.testing.assert_close(split(*make_input()), plain(*make_input()), **EXACT)
    assert not torch.allclose(make_model(f"mrs-{layer}", jk="cat")(*make_input()), plain(*make_input()))


@pytest.mark.parametrize("normalize", [False, True])
def test_a_generator_decides_what_is_dropped(normalize):
    model, data = make_model("mrs-dir-gcn", jk="max", normalize=normalize, dropout=0.5), make_input()

    def run(seed):
        return model(*data, generator=torch.Generator().manual_seed(seed))

    torch.testing.assert_close(run(1), run(1), rtol=0, atol=0)
    assert not torch.equal(run(1), run(2))
    model.eval()
    torch.testing.assert_close(run(1), run(2), rtol=0, atol=0)


def test_dropout_keeps_the_mean():
    model = DirGNN("mlp", 1, 100_000, 1, 1, jk="cat", dropout=0.3)
    with torch.no_grad():
        model.convs[0].weight.fill_(1)
        model.convs[0].bias.zero_()
        model.head.weight.fill_(1 / 100_000)
        model.head.bias.zero_()
    out = model(torch.ones(1, 1))
    assert out.item() == pytest.approx(1, abs=0.02)
    assert out.item() != 1


def test_one_layer_without_jumping_knowledge_is_its_convolution():
    model = make_model("mrs-gcn", layers=1, normalize=True, dropout=0.9)
    torch.testing.assert_close(model(*make_input()), model.convs[0](*make_input()), rtol=0, atol=0)


def test_the_larger_of_two_states_and_its_gradients():
    torch.manual_seed(0)
    states = [torch.randn(5, 4, dtype=torch.double, requires_grad=True) for _ in range(2)]
    torch.testing.assert_close(larger(*states), torch.maximum(*states), rtol=0, atol=0)
    assert torch.autograd.gradcheck(larger, states)
    assert torch.autograd.gradgradcheck(lambda *s: larger(*s).square(), states)
    tie = [torch.zeros(1, requires_grad=True) for _ in range(2)]
    larger(*tie).backward()
    assert [float(state.grad) for state in tie] == [1, 0]


@pytest.mark.parametrize("conv", ["mrs-gcn", "mrs-dir-gcn", "mrs-dir-sage", "mlp"])
def test_a_layer_that_is_watched_shows_its_whole_output(conv):
    model, data = make_model(conv, jk="max", normalize=True, alpha=0.3), make_input()
    expected, seen = model(*data), []
    for layer in model.convs:
        layer.register_forward_hook(lambda _layer, args, out: seen.append((args[0], out)))
    torch.testing.assert_close(model(*data), expected, **EXACT)
    assert len(seen) == 3
    for (_, out), (following, _) in pairwise(seen):
        torch.testing.assert_close(torch.nn.functional.normalize(out.relu(), dim=-1), following, **EXACT)


@pytest.mark.parametrize("conv", ["mrs-gcn", "mrs-dir-gcn", "mrs-dir-sage"])
@pytest.mark.parametrize("jk", [None, "cat", "max"])
def test_what_is_dropped_counts_as_if_it_was_scaled(conv, jk):
    # the lengths take the scale of dropout out again: what was to be seen
    model, data = make_model(conv, jk=jk, normalize=True, dropout=0.4), make_input()

    def run(watched):
        handles = [layer.register_forward_hook(lambda _, __, out: out / 0.6) for layer in model.convs[:-1] if watched]
        out = model(*data, generator=torch.Generator().manual_seed(3))
        for handle in handles:
            handle.remove()
        return out, torch.autograd.grad(out.square().sum(), model.parameters())

    for plain, scaled in zip(*map(run, (False, True)), strict=True):
        torch.testing.assert_close(plain, scaled, **EXACT)


def test_reset_draws_new_weights():
    model = make_model("mrs-dir-sage", jk="cat")
    before = [weight.clone() for weight in model.parameters()]
    model.reset_parameters()
    assert not any(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"conv": "dir-gin"}, r"`conv` must be one of .*'mrs-dir-gat'\], got 'dir-gin'"),
        ({"jk": "sum"}, "`jk` must be None"),
        ({"layers": 0}, "`num_layers` must be at least 1, got 0"),
        ({"alpha": 2.0}, r"`alpha` must be in \[0, 1\], got 2.0"),
    ],
)
def test_bad_arguments(options, words):
    with pytest.raises(ValueError, match=words):
        make_model(**{"conv": "dir-gcn", **options})


def test_a_network_with_edges_wants_them():
    with pytest.raises(ValueError, match="`edge_index` must be given with gcn, got None"):
        make_model("gcn")(make_input()[0])

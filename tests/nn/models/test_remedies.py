"""Every remedy equals a computation with dense matrices, written from its formula alone."""

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphprism.nn import REMEDIES, RemedyGNN
from graphprism.nn.models.remedies import SPLITTABLE

NODES, FEATURES, WIDTH, LAYERS = 7, 5, 4, 3
EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0, 4, 0, 5, 6], [1, 0, 2, 1, 3, 2, 0, 3, 0, 4, 6, 5]])  # two graphs
BATCH = torch.tensor([0, 0, 0, 0, 0, 1, 1])
TYPES = torch.tensor([0, 1, 2, 0, 1, 2, 1, 0, 2, 2, 0, 1])


def made(remedy, **options):
    torch.manual_seed(0)
    model = RemedyGNN(remedy, WIDTH, 2, LAYERS, in_channels=FEATURES, **options).double().eval()
    for parameter in model.parameters():  # biases start at zero, where they would hide a mistake
        torch.nn.init.normal_(parameter, std=0.6)
    return model, torch.randn(NODES, FEATURES, dtype=torch.float64)


def dense(edges):
    matrix = torch.zeros(NODES, NODES, dtype=torch.float64)
    matrix[edges[1], edges[0]] = 1
    return matrix


def normalised(matrix):
    root = torch.diag(matrix.sum(1).clamp(min=1) ** -0.5)
    return root @ matrix @ root


def pair_norm(h):
    h = h - h.mean(0)
    return h / (1e-5 + h.square().sum(1).mean()).sqrt()


def relations():
    """The normalised graph in three parts: degrees count the edges of all relations."""
    weights = normalised(dense(EDGES))
    return [weights * dense(EDGES[:, relation == TYPES]) for relation in range(3)]


def step(remedy, conv, layer, h, first, parts=None):
    a = normalised(dense(EDGES))

    def convolved():
        lin = getattr(conv, "phi", conv).lin
        if parts is None:
            return a @ h @ (lin.weight.t() if remedy == "a-dgn" else lin()[0])
        return sum(part @ h @ matrix for part, matrix in zip(parts, lin(), strict=True))

    if remedy == "gcnii":
        beta = math.log(0.5 / layer + 1)
        mixed = 0.9 * a @ h + 0.1 * first
        return ((1 - beta) * mixed + beta * mixed @ conv.weight1).relu()
    if remedy == "fagcn":
        scores = (h @ conv.att_l.weight.t() + (h @ conv.att_r.weight.t()).t()).tanh()
        return 0.3 * first + (a * scores.t()) @ h
    if remedy == "a-dgn":
        own = conv.W - conv.W.t() - 0.1 * torch.eye(WIDTH)
        return h + 0.1 * (h @ own.t() + convolved() + conv.bias).tanh()
    new = convolved() + conv.bias
    if remedy == "pairnorm":
        return torch.cat([pair_norm(new[graph == BATCH]) for graph in (0, 1)]).relu()
    if remedy == "g2":
        new, matrix = new.relu(), dense(EDGES)
        apart = (new[:, None] - new[None]) ** 2
        gate = ((matrix[..., None] * apart).sum(1) / matrix.sum(1)[:, None]).tanh()
        return (1 - gate) * h + gate * new
    return new.relu()


@pytest.mark.parametrize("remedy", REMEDIES)
def test_remedy_by_dense_matrices(remedy):
    model, x = made(remedy)
    first = h = x @ model.encoder.weight.t() + model.encoder.bias
    for layer, conv in enumerate(model.convs, 1):
        h = step(remedy, conv, layer, h, first)
    expected = h @ model.head.weight.t() + model.head.bias
    torch.testing.assert_close(model(x, EDGES, batch=BATCH), expected)


@pytest.mark.parametrize("given", ["types", "scores"])
@pytest.mark.parametrize("remedy", SPLITTABLE)
def test_split_under_a_remedy_by_dense_matrices(remedy, given):
    model, x = made(remedy, num_relations=3)
    first = h = x @ model.encoder.weight.t() + model.encoder.bias
    for layer, conv in enumerate(model.convs, 1):
        h = step(remedy, conv, layer, h, first, relations())
    expected = h @ model.head.weight.t() + model.head.bias
    types = TYPES if given == "types" else torch.nn.functional.one_hot(TYPES, 3).to(x)
    torch.testing.assert_close(model(x, EDGES, types, batch=BATCH), expected)


@pytest.mark.parametrize("remedy", SPLITTABLE)
def test_equal_matrices_of_all_relations_are_the_remedy_alone(remedy):
    plain, x = made(remedy)
    split, _ = made(remedy, num_relations=3)
    with torch.no_grad():
        for name, value in split.named_parameters():
            if name.endswith(".deviation"):
                value.zero_()
            elif name.endswith(".common"):
                matrix = plain.get_parameter(name.removesuffix("common") + "weight")
                value.copy_(matrix.t() if remedy == "a-dgn" else matrix.view_as(value))
            else:
                value.copy_(plain.get_parameter(name))
    torch.testing.assert_close(split(x, EDGES, TYPES, batch=BATCH), plain(x, EDGES, batch=BATCH))


@pytest.mark.parametrize(
    ("remedy", "options", "message"),
    [
        ("gcnii", {"num_relations": 3}, "`num_relations` must be 1 with gcnii, which cannot be split, got 3"),
        ("g2", {"num_relations": [3, 2]}, "`num_relations` must be one for all layers"),
        ("g2", {"num_relations": 3, "split_layers": "early"}, "`split_layers` must be 'all' with the remedy g2"),
        ("g2", {"num_relations": 3, "learned_split": True}, "`learned_split` must be False with the remedy g2"),
    ],
)
def test_split_that_a_remedy_cannot_have_is_named(remedy, options, message):
    with pytest.raises(ValueError, match=message):
        RemedyGNN(remedy, 4, 2, 3, in_channels=FEATURES, **options)


@pytest.mark.parametrize("remedy", REMEDIES)
def test_every_parameter_gets_a_gradient(remedy):
    model, x = made(remedy)
    model.train()(x, EDGES).square().sum().backward()
    assert [name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()] == []


class Additions(TorchDispatchMode):
    """Notes sums of rows by index, which a GPU adds up in any order."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name.startswith(("scatter_add", "scatter_reduce", "index_add")) and out.dim() > 1:
            self.found.append(name)
        return out


@pytest.mark.parametrize("batch", [None, BATCH], ids=["one graph", "batch"])
@pytest.mark.parametrize("remedy", REMEDIES)
def test_sums_of_rows_have_a_fixed_order(remedy, batch):
    model, x = made(remedy, readout=None)
    with Additions() as additions:
        model.train()(x, EDGES, batch=batch, batch_size=2).square().sum().backward()
    assert additions.found == []


def test_dropedge_gives_the_edges_that_stay_their_own_degrees():
    model, x = made("dropedge")
    model.train()
    seen = []
    model.convs[0].register_forward_pre_hook(lambda module, args: seen.append(args[1]))
    for seed in (1, 1, 2):
        model(x, EDGES, generator=torch.Generator().manual_seed(seed))
    weights = [adj.edge_weight for adj in seen]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    for weight in weights:
        kept = dense(EDGES[:, weight > 0])
        root = torch.diag(kept.sum(1).clamp(min=1) ** -0.5)
        found = torch.zeros_like(kept).index_put((EDGES[1], EDGES[0]), weight)
        # a node that hears nobody any more sends to nobody, as in a graph without its edges
        torch.testing.assert_close(found, root @ (kept * (kept.sum(1) > 0)) @ root)
    model.eval()
    model(x, EDGES)
    torch.testing.assert_close(
        torch.zeros_like(kept).index_put((EDGES[1], EDGES[0]), seen[-1].edge_weight), normalised(dense(EDGES))
    )


def test_unknown_remedy_is_named():
    with pytest.raises(ValueError, match="`remedy` must be one of"):
        RemedyGNN("hope", 4, 2, 3)


def test_pair_norm_of_a_batch_given_by_position():
    model, x = made("pairnorm", readout="mean")
    by_name = model(x, EDGES, batch=BATCH, batch_size=2)
    torch.testing.assert_close(model(x, EDGES, None, None, None, BATCH), by_name)

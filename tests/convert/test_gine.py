"""``GINEConv`` without ``edge_dim``: its network gets a first matrix per relation."""

import pytest
import torch
from torch.nn import BatchNorm1d, Linear, ReLU, Sequential
from torch_geometric.nn import GINEConv, GPSConv

import graphprism as gp
from graphprism.splitting import Graph, resolve_split
from tests.convert.test_convolutions import out_and_gradients, relative_error, soft
from tests.convert.test_models import OUT, F, N, features

EDGES = features("directed")[1]
TYPES = resolve_split("degree")(Graph(EDGES, N))


def convolution(**options) -> GINEConv:
    torch.manual_seed(0)
    mlp = Sequential(Linear(F, 8), BatchNorm1d(8), ReLU(), Linear(8, OUT))
    return GINEConv(mlp, train_eps=True, eps=0.3, **options).double().eval()


def arguments(rows: int = N) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    size = (rows, F), (EDGES.size(1), F)
    return tuple(torch.randn(each, dtype=torch.float64, requires_grad=True) for each in size)


@pytest.mark.parametrize("split", ["degree", soft])
@pytest.mark.parametrize("deviation", ["full", "diagonal"])
def test_gine_conv_is_the_same_function_at_first(split, deviation):
    plain, (x, attr) = convolution(), arguments()
    mrs = gp.to_mrs(plain, split, num_relations=3, deviation=deviation)
    for _ in range(2):  # prepared from the second call on
        pairs = zip(*(out_and_gradients(model, (x, EDGES, attr), [x, attr]) for model in (mrs, plain)), strict=True)
        assert max(relative_error(found, expected) for found, expected in pairs) < 1e-12


def moved_apart(**options) -> torch.nn.Module:
    mrs = gp.to_mrs(convolution(), "degree", decay=0, **options).model
    torch.manual_seed(2)
    for parameter in mrs.parameters():
        torch.nn.init.normal_(parameter)
    return mrs


def sums(x: torch.Tensor, attr: torch.Tensor, relation: int) -> torch.Tensor:
    chosen = TYPES.eq(relation)
    source, target = EDGES[:, chosen]
    return torch.zeros(N, F, dtype=x.dtype).index_add(0, target, (x[source] + attr[chosen]).relu())


def test_gine_conv_by_its_definition():
    layer, (x, attr) = moved_apart(), arguments()
    first, *rest = layer.conv.nn
    each = layer.conv.together(first.weight.t(), layer.conv.deviation)
    assert relative_error(each[0], each[1]) > 0.1
    hidden = first((1 + layer.conv.eps) * x) + sum(sums(x, attr, relation) @ each[relation] for relation in range(3))
    expected = Sequential(*rest)(hidden)
    assert relative_error(layer(x, EDGES, attr, edge_type=TYPES), expected) < 1e-12


def test_gine_conv_of_an_independent_start_is_a_sum_of_layers():
    layer, (x, attr) = moved_apart(start="independent"), arguments()
    rows = (((1 + eps) * x + sums(x, attr, number)) for number, eps in enumerate(layer.conv.eps))
    expected = sum(network(each) for network, each in zip(layer.conv.nns.each, rows, strict=True))
    assert relative_error(layer(x, EDGES, attr, edge_type=TYPES), expected) < 1e-12


def test_gine_conv_is_the_same_where_messages_are_watched():
    layer, (x, attr) = moved_apart(), arguments()
    expected, seen = layer(x, EDGES, attr, edge_type=TYPES), []
    layer.conv.register_message_forward_hook(lambda conv, inputs, out: seen.append(out))
    assert relative_error(layer(x, EDGES, attr, edge_type=TYPES), expected) < 1e-12
    assert len(seen) == 1


def test_gine_conv_takes_pairs_and_whole_numbers():
    plain, (x, _) = convolution(), arguments()
    pair, attr = (x, x[: int(EDGES[1].max()) + 1]), torch.randint(3, (EDGES.size(1), F))
    assert relative_error(gp.to_mrs(plain)(pair, EDGES, attr), plain(pair, EDGES, attr)) < 1e-12


def test_gps_conv_of_the_default_gine_conv_trains():
    plain, (x, attr) = GPSConv(F, GINEConv(Sequential(Linear(F, F), ReLU())), heads=1).double().eval(), arguments()
    mrs = gp.to_mrs(plain, "degree")
    assert relative_error(mrs(x, EDGES, edge_attr=attr), plain(x, EDGES, edge_attr=attr)) < 1e-12
    mrs.train()(x, EDGES, edge_attr=attr).square().mean().backward()
    assert all(parameter.grad is not None for parameter in mrs.parameters())


def test_gine_conv_without_edge_features_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="`edge_attr` must be given"):
        gp.to_mrs(convolution())(arguments()[0], EDGES)

"""Laws that hold for every layer, on every graph of the zoo."""

import pytest
import torch

from graphprism.ops import RelationalAdj
from graphprism.testing import (
    assert_batch_equals_parts,
    assert_deterministic,
    assert_edge_order_invariant,
    assert_every_parameter_has_gradient,
    assert_gradients_correct,
    assert_permutation_equivariant,
    tolerance,
)
from tests.nn.conv.cases import GRAPHS, IN, LAYERS, RELATIONS, make_example, make_layer
from tests.pairwise import all_pairs, in_turn

KINDS = {"plain": {}, "weighted": {"weighted": True}, "soft": {"soft": True}}
layers = pytest.mark.parametrize("name", LAYERS)
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@all_pairs(name=[*LAYERS], graph=GRAPHS, kind=KINDS)
def test_numbering_of_nodes_and_order_of_edges(name, graph, kind):
    layer, example = make_layer(name), make_example(graph, **kind)
    assert_permutation_equivariant(layer, example)
    assert_edge_order_invariant(layer, example)


@in_turn(name=[*LAYERS], kind=KINDS)
def test_batch_equals_parts(name, kind):
    assert_batch_equals_parts(make_layer(name), [make_example(graph, **kind) for graph in GRAPHS.values()])


@layers
@kinds
def test_every_parameter_gets_a_gradient(name, kind):
    assert_every_parameter_has_gradient(make_layer(name), make_example(GRAPHS["random"], **kind))


@all_pairs(
    name=[*LAYERS], kind={"weighted": {"weighted": True}, "soft": {"soft": True}}, graph=["multi-edges", "self-loops"]
)
def test_gradients(name, kind, graph):
    assert_gradients_correct(make_layer(name), make_example(GRAPHS[graph], **kind))


@layers
def test_same_bits_twice(name):
    assert_deterministic(make_layer(name), make_example(GRAPHS["hub"], weighted=True))


@in_turn(name=[*LAYERS], kind=KINDS)
def test_a_prepared_graph_gives_the_same(name, kind):
    layer, example = make_layer(name), make_example(GRAPHS["random"], **kind)
    adj = RelationalAdj(
        example.edge_index, example.edge_type, example.edge_weight, num_relations=RELATIONS, num_nodes=example.x.size(0)
    )
    torch.testing.assert_close(layer(example.x, adj), example.run(layer), **tolerance(torch.double))


@layers
def test_one_hot_scores_are_hard_types(name):
    layer, example = make_layer(name), make_example(GRAPHS["random"])
    scores = torch.nn.functional.one_hot(example.edge_type, RELATIONS).double()
    soft = layer(example.x, example.edge_index, scores)
    torch.testing.assert_close(soft, example.run(layer), **tolerance(torch.double))


@layers
def test_one_relation_needs_no_types(name):
    layer, example = make_layer(name, relations=1), make_example(GRAPHS["random"], relations=1)
    torch.testing.assert_close(layer(example.x, example.edge_index), example.run(layer), **tolerance(torch.double))


@layers
def test_relations_matter(name):
    layer, example = make_layer(name), make_example(GRAPHS["random"])
    other = layer(example.x, example.edge_index, (example.edge_type + 1) % RELATIONS)
    assert not torch.allclose(other, example.run(layer))


# One form of each layer: a start is compiled within `lin`, which they share. "gcn-shared" is compiled in a network by
# tests/nn/models/test_transforms_of_torch.py. The general form calls a message function with as many edges as its
# relation has, which a compiled graph cannot know.
COMPILED = [
    *(
        "gcn-diagonal",
        "sage-project",
        "gat",
        "gin-shared",
        "gated-gcn-9-shared",
        "gcne",
        "gine",
        "dir-gcn",
    ),
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("gcn", "sage", "gat-mean", "gat-shared", "gin", "gin-diagonal", "gated-gcn", "gated-gcn-9")
    ),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("gcn-shared", "gcne-shared", "gine-shared", "dir-sage")),
]


@pytest.mark.parametrize("name", COMPILED)
def test_compiles_whole(name):
    layer, example = make_layer(name), make_example(GRAPHS["random"], weighted=True)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(example.run(compiled), example.run(layer), **tolerance(torch.double))


@pytest.mark.parametrize("name", ["gcn", "sage", "gin", "dir-gcn"])
def test_a_leading_dimension_is_carried_along(name):
    layer, example = make_layer(name), make_example(GRAPHS["random"])
    signals = torch.randn(2, 12, IN, dtype=torch.double)
    out = layer(signals, example.edge_index, example.edge_type)
    expected = layer(signals[1], example.edge_index, example.edge_type)
    torch.testing.assert_close(out[1], expected, **tolerance(torch.double))


@layers
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precisions(name, dtype):
    graph = GRAPHS["random"]
    exact = make_example(graph).run(make_layer(name))
    out = make_example(graph, dtype=torch.double)
    out = make_layer(name, dtype=dtype)(out.x.to(dtype), out.edge_index, out.edge_type)
    assert out.dtype == dtype
    scale = exact.abs().max()
    loose = {key: 2 * value for key, value in tolerance(dtype).items()}  # two matrix products in a row
    torch.testing.assert_close(out.double() / scale, exact / scale, **loose)


@layers
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"edge_type": None}, ValueError, "`edge_type` must be given for 3 relations, got None"),
        ({"edge_type": torch.full((40,), 3)}, ValueError, r"`edge_type` must hold numbers in \[0, 3\), got 3"),
        ({"edge_type": torch.full((40,), -1)}, ValueError, r"`edge_type` must hold numbers in \[0, 3\), got -1"),
        ({"edge_type": torch.ones(39).long()}, ValueError, r"`edge_type` must have shape \[40\], got \[39\]"),
        ({"edge_type": torch.ones(40)}, TypeError, "`edge_type` must hold integers, got torch.float32"),
        ({"edge_index": torch.full((2, 40), 12)}, ValueError, r"must hold numbers in \[0, 12\), got 12"),
        ({"edge_index": torch.full((2, 40), -1)}, ValueError, r"must hold numbers in \[0, 12\), got -1"),
        ({"edge_index": torch.ones(3, 40).long()}, ValueError, r"`edge_index` must have shape \[2, E\], got \[3, 40\]"),
        ({"edge_weight": torch.ones(7)}, ValueError, r"`edge_weight` must have shape \[40\], got \[7\]"),
    ],
)
def test_bad_input(name, change, error, message):
    example = make_example(GRAPHS["random"])
    inputs = {"x": example.x, "edge_index": example.edge_index, "edge_type": example.edge_type, **change}
    with pytest.raises(error, match=message):
        make_layer(name)(**inputs)


@layers
def test_a_prepared_graph_must_fit(name):
    layer, example = make_layer(name), make_example(GRAPHS["random"])
    adj = RelationalAdj(example.edge_index, example.edge_type, num_relations=RELATIONS, num_nodes=12)
    with pytest.raises(ValueError, match="must be None with a `RelationalAdj`, which holds its own"):
        layer(example.x, adj, example.edge_type)
    with pytest.raises(ValueError, match="`adj` must join 5 to 5 nodes"):
        layer(example.x[:5], adj)
    other = RelationalAdj(example.edge_index, example.edge_type, num_relations=4, num_nodes=12)
    with pytest.raises(ValueError, match="`adj` must have 3 relations, got 4"):
        layer(example.x, other)


@in_turn(name=[*LAYERS], kind=KINDS)
def test_layers_give_the_same_for_int32_and_int64(name, kind):
    layer, example = make_layer(name), make_example(GRAPHS["random"], **kind)
    x, leaves = example.x.requires_grad_(), list(layer.parameters())
    values = [each.requires_grad_() for each in (example.edge_type, example.edge_weight) if _is_floating(each)]
    narrow = example.edge_type if example.edge_type.is_floating_point() else example.edge_type.int()
    found = []
    for edge_index, edge_type in ((example.edge_index, example.edge_type), (example.edge_index.int(), narrow)):
        out = layer(x, edge_index, edge_type, example.edge_weight)
        found.append((out, *torch.autograd.grad(out.square().sum(), (x, *leaves, *values))))
    for wide, other in zip(*found, strict=True):
        torch.testing.assert_close(other, wide)


def _is_floating(tensor):
    return tensor is not None and tensor.is_floating_point()

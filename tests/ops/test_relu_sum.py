"""Sums of messages after ReLU, on prepared graphs and on tables; kernels against their references.

`TRITON_INTERPRET=1` runs the kernels on the CPU, where triton is installed.
"""

import os

import pytest
import torch

from graphprism.ops import RelationalAdj
from graphprism.ops.batched.relu_sum import GRADIENT, SUM
from graphprism.ops.relu_sum import BACKENDS, relu_sum
from graphprism.testing import tolerance
from tests.ops.cases import GRAPHS
from tests.ops.tables import NOTHING, both_of, entry_of_edge

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
EXACT = tolerance(torch.double)
RELATIONS = 3
forms = pytest.mark.parametrize(("by_relation", "per_relation"), [(False, True), (True, False), (False, False)])


def draw(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def test_relu_sum_by_hand():
    adj = RelationalAdj(torch.tensor([[0, 1, 0], [2, 2, 1]]), torch.tensor([0, 1, 1]), num_relations=2, num_nodes=3)
    h, edges = torch.tensor([[1.0], [-5.0], [0.0]]), torch.tensor([[1.0], [7.0], [-3.0]])
    assert relu_sum(h, adj, edges).tolist() == [[0], [0], [4]]
    assert relu_sum(h, adj, edges, by_relation=True)[2].tolist() == [[2], [2]]
    assert relu_sum(h, adj).tolist() == [[0], [1], [1]]
    prepared = torch.tensor([[[1.0], [10.0]], [[0.0], [2.0]], [[0.0], [0.0]]])
    assert relu_sum(prepared, adj).tolist() == [[0], [10], [3]]


@pytest.mark.parametrize("impl", BACKENDS)
@pytest.mark.parametrize("graph", ["no-edges", "multi-edges", "hub", "random"])
def test_sums_by_relation_equal_the_reference(impl, graph):
    adj, _ = both_of(graph)
    rows = draw(adj.num_edges, 4).requires_grad_()
    found, expected = (BACKENDS.choose(each, rows.device)(rows, adj) for each in (impl, "reference"))
    torch.testing.assert_close(found.view(-1, 4), expected.view(-1, 4), **EXACT)
    grad = draw(*found.shape, seed=1)
    if adj.num_edges:
        (first,), (second,) = (torch.autograd.grad(each, rows, grad, retain_graph=True) for each in (found, expected))
        torch.testing.assert_close(first, second, **EXACT)


@forms
@pytest.mark.parametrize("has_edges", [False, True])
@pytest.mark.parametrize("norm", ["none", "sym"])
@pytest.mark.parametrize("name", GRAPHS)
def test_tables_give_what_the_graph_gives(name, norm, has_edges, by_relation, per_relation):
    adj, table = both_of(name, norm)
    h = draw(adj.size[0], *([RELATIONS, 4] if per_relation else [4])).requires_grad_()
    edges = draw(adj.num_edges, 4, seed=1).requires_grad_() if has_edges else None
    by_entry = None
    if edges is not None:  # what stands in empty slots must not count
        by_entry = torch.full((table.size[0] * table.num_slots, 4), NOTHING, dtype=torch.double)
        by_entry = by_entry.index_copy(0, entry_of_edge(adj, table), edges)
    expected = relu_sum(h, adj, edges, by_relation=by_relation)
    found = relu_sum(h, table, by_entry, by_relation=by_relation)
    torch.testing.assert_close(found, expected, **EXACT)
    leaves, grad = [each for each in (h, edges) if each is not None], draw(*expected.shape, seed=2)
    if adj.num_edges:
        firsts, seconds = (torch.autograd.grad(each, leaves, grad, retain_graph=True) for each in (found, expected))
        torch.testing.assert_close(firsts, seconds, **EXACT)


@forms
def test_runs_under_vmap_are_those_alone(by_relation, per_relation):
    _, table = both_of("random")
    h = draw(3, table.size[0], *([RELATIONS, 4] if per_relation else [4])).requires_grad_()
    edges = draw(3, table.size[0] * table.num_slots, 4, seed=1).requires_grad_()
    together = torch.vmap(lambda a, b: relu_sum(a, table, b, by_relation=by_relation))(h, edges)
    alone = torch.stack([relu_sum(a, table, b, by_relation=by_relation) for a, b in zip(h, edges, strict=True)])
    torch.testing.assert_close(together, alone, **EXACT)
    grad = draw(*alone.shape, seed=2)
    torch.testing.assert_close(
        torch.autograd.grad(together, (h, edges), grad), torch.autograd.grad(alone, (h, edges), grad), **EXACT
    )


def test_one_relation_of_a_graph_and_of_its_table_are_the_same():
    adj, table = both_of("random", "sym")
    x = draw(adj.size[0], 4)
    merged = adj.merged()
    assert (merged.num_relations, merged.edge_type) == (1, None)
    torch.testing.assert_close(relu_sum(x, merged), relu_sum(x, adj), **EXACT)
    torch.testing.assert_close(relu_sum(x, table.merged()), relu_sum(x, adj), **EXACT)
    assert adj.merged() is merged
    assert merged.merged() is merged
    weight = draw(1, 4, 5)
    expected = torch.stack([weight[0]] * RELATIONS)
    torch.testing.assert_close(
        table.merged().relational_linear(x, weight), table.relational_linear(x, expected), **EXACT
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("channels", "num_sums", "has_edges"), [(6, 1, True), (70, 3, True), (130, 12, False)])
@pytest.mark.parametrize("backend", [pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu)])
def test_kernels_equal_their_references(backend, dtype, channels, num_sums, has_edges):
    if backend not in SUM:
        pytest.skip("the kernels of Triton cannot run on this machine")
    device, runs, nodes, slots = "cpu" if INTERPRETED else "cuda", 2, 37, 4
    generator = torch.Generator().manual_seed(0)
    # as in a `PaddedAdj`: columns of wider tables
    numbers = torch.randint(nodes - 1, (runs, nodes, 2 * slots), generator=generator, dtype=torch.int32)
    relation = numbers % num_sums
    weight = torch.rand(runs, nodes, 2 * slots, generator=generator)
    empty = torch.rand(runs, nodes, slots, generator=generator) < 0.4
    numbers[..., :slots][empty], weight[..., :slots][empty] = nodes - 1, 0
    place, relation, weight = (each.to(device)[..., :slots] for each in (numbers, relation, weight.to(dtype)))
    rows = draw(runs, nodes, channels).to(device, dtype)
    rows[:, -1] = NOTHING
    edges = None
    if has_edges:
        edges = draw(runs, nodes * slots, channels, seed=1).to(device, dtype)
        edges[empty.to(device).flatten(1)] = NOTHING
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    upper = [None if each is None else each.to(wide) for each in (rows, edges)]
    args = place, weight.to(wide), relation, num_sums
    expected = SUM.choose("reference", rows.device)(*upper, *args)
    found = SUM.choose(backend, rows.device)(rows, edges, place, weight, relation, num_sums)
    assert found.dtype == dtype
    torch.testing.assert_close(found.to(wide), expected, **tolerance(dtype))
    grad = draw(*expected.shape, seed=2).to(device, dtype)
    wanted = GRADIENT.choose("reference", rows.device)(*upper, *args, grad.to(wide))
    back = GRADIENT.choose(backend, rows.device)(rows, edges, place, weight, relation, num_sums, grad)
    torch.testing.assert_close(back.to(wide), wanted, **tolerance(dtype))

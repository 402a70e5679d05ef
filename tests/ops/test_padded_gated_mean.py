"""The gated mean on tables against the reference of the op on graphs; kernels against their references.

`TRITON_INTERPRET=1` runs the kernels on the CPU, where triton is installed.
"""

import os

import pytest
import torch

from graphprism.ops import at_receivers, at_senders
from graphprism.ops.batched.gated_mean import GRADIENTS, MEAN, padded_gated_mean
from graphprism.ops.gated_mean import GateMaps, LinearMap, gated_mean
from graphprism.testing import tolerance
from tests.ops.cases import GRAPHS
from tests.ops.tables import both_of, entry_of_edge, repeated, to_entries

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
EXACT = tolerance(torch.double)
EPS = 1e-3
sizes = pytest.mark.parametrize(("relations", "gates"), [(1, 1), (3, 1), (3, 3), (12, 12)])


def draw(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def inputs(adj, relations, gates, channels=4):
    """Rows, edge rows and biases."""
    nodes, maps = adj.size[0], 2 + gates + relations
    shapes = [(nodes, maps * channels), (adj.num_edges, channels), (channels,), (channels,), (channels,)]
    shapes += [(gates, channels), (relations, channels)]
    return [draw(*shape, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)]


def by_entry(adj, rows, edges, root_bias, dst_bias, edge_bias, src_bias, message_bias):
    """The reference of the op on a graph, with maps that cut ``rows``, and the features of edges."""
    gates, relations, channels = src_bias.size(0), message_bias.size(0), root_bias.size(0)
    cuts = torch.eye(rows.size(1), dtype=rows.dtype).split([channels * k for k in (1, 1, gates, relations)], dim=1)
    biases = root_bias, dst_bias, src_bias.flatten(), message_bias.flatten()
    root, *maps = (LinearMap(*each) for each in zip(cuts, biases, strict=True))
    edges = edges + edge_bias
    mean = gated_mean((rows, rows), adj, GateMaps(*maps), edges, eps=EPS, impl="reference")
    source = maps[1].rows(rows).unflatten(1, (gates, channels))
    source = at_senders(source if gates > 1 else source[:, 0], adj)
    return root.rows(rows) + mean, at_receivers(maps[0].rows(rows), adj) + source + edges


@sizes
@pytest.mark.parametrize("name", GRAPHS)
def test_tables_give_what_the_graph_gives(name, relations, gates):
    adj, table = both_of(name, num_relations=relations)
    leaves = inputs(adj, relations, gates)
    out, edge = by_entry(adj, *leaves)
    rows, edges, *biases = leaves
    found, found_edge = padded_gated_mean(rows, to_entries(edges, adj, table), tuple(biases), table, gates, EPS)
    place = entry_of_edge(adj, table)
    torch.testing.assert_close(found, out, **EXACT)
    torch.testing.assert_close(found_edge[place], edge, **EXACT)
    empty = torch.ones(found_edge.size(0), dtype=torch.bool).index_fill(0, place, value=False)
    assert found_edge[empty].eq(0).all()
    grads = draw(*out.shape, seed=20), draw(*edge.shape, seed=21)
    grad_edge = draw(*found_edge.shape, seed=22).index_copy(0, place, grads[1])  # what empty slots get does not count
    expected = torch.autograd.grad((out, edge), leaves, grads)
    torch.testing.assert_close(torch.autograd.grad((found, found_edge), leaves, (grads[0], grad_edge)), expected)


def test_edges_may_have_no_rows_and_no_gradient():
    adj, table = both_of("random")
    rows, edges, *biases = inputs(adj, 3, 3)
    biases[2] = None
    zeros, leaves = torch.zeros_like(edges), [rows, *(each for each in biases if each is not None)]
    out, _ = by_entry(adj, rows, zeros, *biases[:2], 0.0, *biases[3:])
    found, _ = padded_gated_mean(rows, None, tuple(biases), table, 3, EPS)
    torch.testing.assert_close(found, out, **EXACT)
    first, second = (torch.autograd.grad(each.square().sum(), leaves) for each in (found, out))
    torch.testing.assert_close(first, second)


def test_only_the_edges_are_used():
    adj, table = both_of("random")
    rows, edges, *biases = inputs(adj, 3, 1)
    _, edge = padded_gated_mean(rows, to_entries(edges, adj, table), tuple(biases), table, 1, EPS)
    _, expected = by_entry(adj, rows, edges, *biases)
    leaves = rows, edges
    first, second = (torch.autograd.grad(each.square().sum(), leaves) for each in (edge, expected))
    torch.testing.assert_close(first, second)


@sizes
def test_runs_under_vmap_are_those_alone(relations, gates):
    adj, table = both_of("random", num_relations=relations)
    rows, edges, *biases = ([each.detach() + number for number in range(3)] for each in inputs(adj, relations, gates))
    edges = [to_entries(each, adj, table).nan_to_num() for each in edges]
    leaves = [torch.stack(each).requires_grad_() for each in (rows, edges, *biases)]

    def one(rows, edges, *biases):
        return padded_gated_mean(rows, edges, biases, table, gates, EPS)

    together = torch.vmap(one)(*leaves)
    alone = [torch.stack(each) for each in zip(*(one(*each) for each in zip(*leaves, strict=True)), strict=True)]
    torch.testing.assert_close(together, tuple(alone), **EXACT)
    grads = [draw(*each.shape, seed=9) for each in alone]
    torch.testing.assert_close(
        torch.autograd.grad(together, leaves, grads), torch.autograd.grad(alone, leaves, grads), **EXACT
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("has_edges", [True, False])
@pytest.mark.parametrize(
    ("name", "relations", "gates", "channels"),
    [("self-loops", 3, 1, 6), ("molecule", 1, 1, 70), ("molecule", 12, 12, 33)],
)
@pytest.mark.parametrize("backend", [pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu)])
def test_kernels_equal_their_references(backend, name, relations, gates, channels, has_edges, dtype):
    if backend not in MEAN:
        pytest.skip("the kernels of Triton cannot run on this machine")
    device, wide = "cpu" if INTERPRETED else "cuda", torch.promote_types(dtype, torch.float32)
    adj, table = both_of(name, num_relations=relations)
    rows, edges, *biases = (each.detach() for each in inputs(adj, relations, gates, channels))
    edges = to_entries(edges, adj, table)

    def runs(each):  # as columns of a larger tensor
        both = torch.stack([each, each.flip(0)]).to(device, dtype)
        return torch.cat([both.flatten(1), both.flatten(1)[:, :3]], dim=1)[:, : each.numel()].view(both.shape)

    rows, *biases = map(runs, (rows, *biases))
    edges = torch.stack([edges, edges]).to(device, dtype) if has_edges else None
    biases = [*biases[:2], biases[2] if has_edges else None, *biases[3:]]
    numbers, weights = (each.to(device) for each in repeated(table, 2))
    more = numbers, weights.to(dtype), relations, gates

    def upper(each):
        return None if each is None else each.to(wide)

    found = MEAN.choose(backend, rows.device)(rows, edges, tuple(biases), *more, EPS)
    expected = MEAN.choose("reference", rows.device)(upper(rows), upper(edges), tuple(map(upper, biases)), *more, EPS)
    # a sum of few small gates moves with the rounding of its edges
    near = {"rtol": 0.05, "atol": 0.05} if dtype == torch.bfloat16 else tolerance(dtype)
    for ours, theirs, kind in zip(found, expected, (dtype, dtype, wide, wide), strict=True):
        assert ours.dtype == kind
        torch.testing.assert_close(ours.to(wide), theirs, **near)
    grad, grad_edge = (draw(*each.shape, seed=5).to(device, dtype) for each in found[:2])
    for of_edge in (grad_edge, None):
        saved = [rows, *found[1:], tuple(biases)]
        back = GRADIENTS.choose(backend, rows.device)(grad, of_edge, *saved, *more)
        saved = [*map(upper, saved[:-1]), tuple(map(upper, biases))]
        wanted = GRADIENTS.choose("reference", rows.device)(upper(grad), upper(of_edge), *saved, *more)
        for ours, theirs in zip(back, wanted, strict=True):
            assert ours.dtype == dtype
            torch.testing.assert_close(ours.to(wide), theirs, **near)

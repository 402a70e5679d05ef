"""Sums of attention on tables against plain operations on graphs; kernels against their references.

`TRITON_INTERPRET=1` runs the kernels on the CPU, where triton is installed.
"""

import os

import pytest
import torch

from graphprism.ops import at_receivers, at_senders, edge_softmax, relational_sum
from graphprism.ops.batched.attention_sum import GRADIENTS, SUM, padded_attention_sum
from graphprism.testing import tolerance
from tests.ops.cases import GRAPHS
from tests.ops.tables import both_of, repeated, to_entries

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
EXACT = tolerance(torch.double)
SLOPE = 0.2
sizes = pytest.mark.parametrize(
    ("relations", "heads", "mean"), [(1, 1, True), (3, 2, True), (3, 2, False), (12, 3, True)]
)


def draw(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


def inputs(adj, relations, heads, channels=4, mean=True):
    """What is sent, both attention vectors, a logit for every edge, and a bias."""
    vector = heads, channels
    shapes = (
        (adj.size[0], relations, *vector),
        vector,
        vector,
        (adj.num_edges, heads),
        (channels if mean else heads * channels,),
    )
    return [draw(*shape, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)]


def by_entry(adj, h, att_src, att_dst, edge_logit, bias, mean):
    """The definition with plain operations on a graph."""
    as_sender, as_receiver = ((h * each).sum(dim=-1) for each in (att_src, att_dst))  # (N, R, H)
    logit = at_senders(as_sender, adj) + at_receivers(as_receiver, adj) + edge_logit
    alpha = edge_softmax(torch.nn.functional.leaky_relu(logit, SLOPE), adj)
    out = relational_sum(h, adj, alpha)
    return (out.mean(dim=1) if mean else out.flatten(1)) + bias


@sizes
@pytest.mark.parametrize("norm", ["none", "sym"])
@pytest.mark.parametrize("name", GRAPHS)
def test_tables_give_what_the_graph_gives(name, norm, relations, heads, mean):
    adj, table = both_of(name, norm, relations)
    leaves = *rows, edge_logit, bias = inputs(adj, relations, heads, mean=mean)
    out = by_entry(adj, *leaves, mean)
    found = padded_attention_sum(*rows, to_entries(edge_logit, adj, table), bias, table, SLOPE, mean)
    torch.testing.assert_close(found, out, **EXACT)
    grad = draw(*out.shape, seed=20)
    expected = torch.autograd.grad(out, leaves, grad)
    torch.testing.assert_close(torch.autograd.grad(found, leaves, grad), expected)


def test_edges_may_have_no_logits_and_nodes_no_bias():
    adj, table = both_of("random")
    *rows, edge_logit, _ = inputs(adj, 3, 2)
    out = by_entry(adj, *rows, torch.zeros_like(edge_logit), 0.0, True)
    found = padded_attention_sum(*rows, None, None, table, SLOPE, True)
    torch.testing.assert_close(found, out, **EXACT)
    first, second = (torch.autograd.grad(each.square().sum(), rows) for each in (found, out))
    torch.testing.assert_close(first, second)


@sizes
def test_runs_under_vmap_are_those_alone(relations, heads, mean):
    adj, table = both_of("random", num_relations=relations)
    *rows, logit, bias = (
        torch.stack([each.detach() * (1 + number) for number in range(3)])
        for each in inputs(adj, relations, heads, mean=mean)
    )
    logit = torch.stack([to_entries(each, adj, table) for each in logit])
    leaves = [each.requires_grad_() for each in (*rows, logit, bias)]
    together = torch.vmap(lambda *each: padded_attention_sum(*each, table, SLOPE, mean))(*leaves)
    alone = torch.stack([padded_attention_sum(*each, table, SLOPE, mean) for each in zip(*leaves, strict=True)])
    torch.testing.assert_close(together, alone, **EXACT)
    grad = draw(*alone.shape, seed=9)
    torch.testing.assert_close(
        torch.autograd.grad(together, leaves, grad), torch.autograd.grad(alone, leaves, grad), **EXACT
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("has_logit", [True, False])
@pytest.mark.parametrize(
    ("name", "relations", "heads", "channels", "mean"),
    [("self-loops", 3, 2, 6, True), ("molecule", 1, 1, 300, False), ("molecule", 12, 2, 33, False)],
)
@pytest.mark.parametrize("backend", [pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu)])
def test_kernels_equal_their_references(backend, name, relations, heads, channels, mean, has_logit, dtype):
    if backend not in SUM:
        pytest.skip("the kernels of Triton cannot run on this machine")
    device, wide = "cpu" if INTERPRETED else "cuda", torch.promote_types(dtype, torch.float32)
    adj, table = both_of(name, "sym", relations)
    h, *vectors, logit, bias = (each.detach() for each in inputs(adj, relations, heads, channels, mean))
    given = h, *(each / channels**0.5 for each in vectors), to_entries(logit, adj, table), bias
    *rows, logit, bias = (torch.stack([each, 2 - each]).to(device, dtype) for each in given)
    device = rows[0].device
    logit, bias = (logit, bias) if has_logit else (None, None)
    numbers, weights = (each.to(device) for each in repeated(table, 2))
    more = numbers, weights.to(dtype), SLOPE, mean
    upper = [None if each is None else each.to(wide) for each in (*rows, logit, bias)]
    found = SUM.choose(backend, device)(*rows, logit, bias, *more)
    expected = SUM.choose("reference", device)(*upper, *more)
    near = {"rtol": 0.03, "atol": 0.03} if dtype == torch.bfloat16 else {"rtol": 2e-5, "atol": 2e-5}
    near = tolerance(dtype) if dtype == torch.float64 else near
    for ours, theirs, kind in zip(found, expected, (dtype, wide, wide), strict=True):
        assert ours.dtype == kind
        torch.testing.assert_close(ours.to(wide), theirs, **near)
    grad = draw(*found[0].shape, seed=5).to(device, dtype)
    options = more[2:]
    back = GRADIENTS.choose(backend, device)(grad, *rows, *found[1:], *more[:2], *options)
    wanted = GRADIENTS.choose("reference", device)(grad.to(wide), *upper[:3], *found[1:], *more[:2], *options)
    for ours, theirs, kind in zip(back, wanted, (dtype, dtype, dtype, wide), strict=True):
        assert ours.dtype == kind
        scale = theirs.abs().max().clamp(min=1)
        torch.testing.assert_close(ours.to(wide) / scale, theirs / scale, **near)

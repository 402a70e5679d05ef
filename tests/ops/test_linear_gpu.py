"""The kernels that gather, sum and multiply at once, against the reference.

`TRITON_INTERPRET=1` runs them on the CPU, where triton is installed.
"""

import os
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest
import torch

from graphprism.nn import MRSGCNConv
from graphprism.ops import RelationalAdj, linear_csr, relational_linear
from graphprism.ops.linear_csr import kernel_pays
from graphprism.ops.mix_rows import mix, mix_rows, product
from graphprism.ops.mixed_linear import biased_linear, mixed_linear
from graphprism.ops.row_orders import node_tiles
from graphprism.testing import tolerance
from tests.ops.cases import GRAPHS, make_adj, normal

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [] if INTERPRETED else [pytest.mark.gpu]

# the interpreter multiplies the bits of bfloat16 as if they were integers
HALF = torch.float16 if INTERPRETED else torch.bfloat16
HUB = 300  # entries of node 5, as sender and as receiver


@pytest.fixture
def device(monkeypatch):
    if "triton" not in linear_csr.FORWARD:
        pytest.skip("the kernels of Triton cannot run on this machine")
    monkeypatch.setattr(linear_csr, "kernel_pays", lambda *_: True)
    monkeypatch.setattr(linear_csr, "waits_for_launches", lambda *_: False)
    if INTERPRETED:
        monkeypatch.setattr("graphprism.ops.backends._INTERPRETED", True)
    return "cpu" if INTERPRETED else "cuda"


def random_adj(num_relations, weighted=True, hubs=True, num_nodes=(150, 131), dtype=torch.float64):
    """Nodes of 0 to about 10 entries, some of none at all, and two hubs; more tiles than programs."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.stack([torch.randint(n - 30, (600,), generator=generator) for n in num_nodes])
    if hubs:
        ends = [torch.randint(n - 30, (2, HUB), generator=generator) for n in num_nodes]
        edges = torch.cat([edges, torch.stack([ends[0][0], torch.full((HUB,), 5)]),
                           torch.stack([torch.full((HUB,), 5), ends[1][1]])], dim=1)  # fmt: skip
    types = torch.randint(num_relations, (edges.size(1),), generator=generator)
    weight = torch.rand(edges.size(1), generator=generator, dtype=torch.float64).to(dtype) if weighted else None
    return RelationalAdj(edges, types, weight, num_relations=num_relations, num_nodes=num_nodes)


def leaf(*size, dtype, device, seed=0):
    return normal(*size, dtype=dtype, seed=seed).detach().to(device).requires_grad_()


def passes(x, adj, weight, grad, **more):
    out = relational_linear(x, adj, weight, **more)
    return out, *torch.autograd.grad(out, (x, weight), grad)


def assert_all_near(adj, channels, dtype, device, num_relations):
    """Output and both gradients, each beside the same in float64 and divided by its largest number."""
    x = leaf(adj.size[0], channels[0], dtype=dtype, device=device)
    weight = leaf(num_relations, *channels, dtype=dtype, device=device, seed=1)
    grad = leaf(adj.size[1], channels[1], dtype=dtype, device=device, seed=2).detach()
    adj = adj.to(device)
    wide = adj if adj.edge_weight is None else adj.with_weight(adj.edge_weight.detach().double())
    exact = passes(x.double(), wide, weight.double(), grad.double(), impl="reference")
    for ours, theirs in zip(passes(x, adj, weight, grad), exact, strict=True):
        assert ours.dtype == dtype
        scale = theirs.abs().max().clamp(min=1e-3) if theirs.numel() else 1
        allowed = tolerance(torch.bfloat16 if dtype == HALF else dtype)
        torch.testing.assert_close(ours.double() / scale, theirs / scale, **allowed)


@pytest.mark.parametrize("channels", [(8, 8), (16, 16), (31, 31), (32, 32), (64, 64), (64, 8), (1, 33)], ids=str)
@pytest.mark.parametrize("weighted", [True, False])
def test_both_passes_equal_the_reference(channels, weighted, device):
    assert_all_near(random_adj(3, weighted), channels, torch.float32, device, 3)


@pytest.mark.parametrize("dtype", [torch.float32, HALF], ids=str)
@pytest.mark.parametrize("num_relations", [1, 2, 4, 5, 9])
@pytest.mark.parametrize("hubs", [True, False])
def test_any_number_of_relations(num_relations, hubs, dtype, device):
    adj = random_adj(num_relations, hubs=hubs, dtype=dtype)
    assert (node_tiles(adj.incoming).num_pieces > 0) == hubs
    assert_all_near(adj, (16, 24), dtype, device, num_relations)


@pytest.mark.parametrize("hubs", [True, False])
@pytest.mark.parametrize("channels", [(16, 24), (32, 32)], ids=str)
def test_bias(channels, hubs, device):
    adj = random_adj(3, hubs=hubs, dtype=torch.float32).to(device)
    sizes = ((150, channels[0]), (3, *channels), (channels[1],))
    leaves = [leaf(*size, dtype=torch.float32, device=device, seed=k) for k, size in enumerate(sizes)]
    x, weight, bias = leaves
    outs = [biased_linear(x, adj, weight, bias), relational_linear(x, adj, weight, impl="reference") + bias]
    assert outs[0].grad_fn.name() == "_RelationalLinearBackward"
    grads = [torch.autograd.grad(out.square().sum(), leaves) for out in outs]
    for ours, theirs in zip((outs[0], *grads[0]), (outs[1], *grads[1]), strict=True):
        scale = theirs.abs().max()
        torch.testing.assert_close(ours / scale, theirs / scale, **tolerance(torch.float32))


@pytest.mark.parametrize("channels", [(0, 8), (3, 80)], ids=str)
def test_bias_of_no_input_and_of_many_outputs(channels, device):
    adj = random_adj(3, hubs=False, dtype=torch.float32).to(device)
    x = leaf(150, channels[0], dtype=torch.float32, device=device).detach()
    weight, bias = (leaf(*size, dtype=torch.float32, device=device) for size in ((3, *channels), channels[1:]))
    grad = leaf(131, channels[1], dtype=torch.float32, device=device, seed=1).detach()
    *_, found = torch.autograd.grad(biased_linear(x, adj, weight, bias), (weight, bias), grad)
    scale = grad.sum(dim=0).abs().max()
    torch.testing.assert_close(found / scale, grad.sum(dim=0) / scale, **tolerance(torch.float32))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("soft", [False, True])
def test_every_graph_with_the_gradients_of_weights_and_scores(name, soft, device):
    adj = make_adj(name, soft=soft, dtype=torch.float32).to(device)
    x, weight = leaf(adj.size[0], 8, dtype=torch.float32, device=device), normal(3, 8, 16, dtype=torch.float32)
    weight = weight.detach().to(device).requires_grad_()
    leaves = (x, weight, adj.edge_weight, *([adj.edge_type] if soft else []))
    found = {}
    for impl in ("csr", "reference"):
        out = relational_linear(x, adj, weight, impl=impl)
        found[impl] = (out, *torch.autograd.grad(out.square().sum(), leaves))
    for ours, theirs in zip(*found.values(), strict=True):
        scale = theirs.abs().max().clamp(min=1e-3) if theirs.numel() else 1
        torch.testing.assert_close(ours / scale, theirs / scale, **tolerance(torch.float32))


@pytest.mark.parametrize("num_relations", [3, 5])
@pytest.mark.parametrize("needed", [(True, False), (False, True)])
def test_only_the_gradient_that_is_asked_for(needed, num_relations, device):
    adj = random_adj(num_relations, dtype=torch.float32).to(device)
    inputs = [leaf(*size, dtype=torch.float32, device=device) for size in ((150, 16), (num_relations, 16, 16))]
    grad = torch.ones(131, 16, device=device)
    both = dict(zip((True, False), passes(inputs[0], adj, inputs[1], grad)[1:], strict=True))
    for tensor, need in zip(inputs, needed, strict=True):
        tensor.requires_grad_(need)
    relational_linear(inputs[0], adj, inputs[1]).backward(grad)
    assert [tensor.grad is not None for tensor in inputs] == list(needed)
    ours, theirs = inputs[0 if needed[0] else 1].grad, both[needed[0]]
    torch.testing.assert_close(ours / theirs.abs().max(), theirs / theirs.abs().max(), **tolerance(torch.float32))


@pytest.mark.parametrize("num_relations", [3, 5])
def test_what_is_infinite_meets_only_its_relation_and_its_neighbours(num_relations, device):
    adj = random_adj(num_relations, hubs=False, dtype=torch.float32).to(device)
    x, weight = torch.ones(150, 16, device=device), torch.ones(num_relations, 16, 16, device=device)
    x[7] = float("inf")
    touched = torch.zeros(131, dtype=torch.bool, device=device)
    touched[adj.dst[adj.src == 7]] = True
    out = relational_linear(x, adj, weight)
    assert touched.any()
    assert out[~touched].isfinite().all()
    assert (out[touched] == float("inf")).all()


def test_second_derivatives(device):
    adj = random_adj(3, dtype=torch.float32).to(device)
    x, weight = leaf(150, 8, dtype=torch.float32, device=device), leaf(3, 8, 8, dtype=torch.float32, device=device)
    found = []
    for impl in ("csr", "reference"):
        first = torch.autograd.grad(relational_linear(x, adj, weight, impl=impl).square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first[0].square().sum(), (x, weight)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours / theirs.abs().max(), theirs / theirs.abs().max(), **tolerance(torch.float32))


def test_same_bits_twice(device):
    adj = random_adj(3, dtype=torch.float32).to(device)
    x, weight = (leaf(*size, dtype=torch.float32, device=device) for size in ((150, 32), (3, 32, 32)))
    grad = torch.ones(131, 32, device=device)
    assert all(a.equal(b) for a, b in zip(passes(x, adj, weight, grad), passes(x, adj, weight, grad), strict=True))


def test_rows_that_do_not_stand_in_one_piece(device):
    adj = random_adj(3, dtype=torch.float32).to(device)
    x, weight = (leaf(*size, dtype=torch.float32, device=device) for size in ((16, 150), (3, 16, 16)))
    expected = relational_linear(x.t().contiguous(), adj, weight, impl="reference")
    torch.testing.assert_close(relational_linear(x.t(), adj, weight), expected, rtol=1e-4, atol=1e-4)


def test_nodes_are_not_sorted_under_capture(device, monkeypatch):
    """The host would wait for the device."""
    adj = random_adj(3, dtype=torch.float32).to(device)
    x, weight = (leaf(*size, dtype=torch.float32, device=device) for size in ((150, 32), (3, 32, 32)))
    grad = torch.ones(131, 32, device=device)
    expected = passes(x, adj, weight, grad, impl="reference")
    for capture, has_tiles in ((True, False), (False, True), (True, True)):
        monkeypatch.setattr(linear_csr, "is_captured", lambda _, capture=capture: capture)
        found = passes(x, adj, weight, grad)
        assert ("node_tiles" in adj.incoming.cache) == ("node_tiles" in adj.outgoing.cache) == has_tiles
        for ours, theirs in zip(found, expected, strict=True):
            scale = theirs.abs().max()
            torch.testing.assert_close(ours / scale, theirs / scale, **tolerance(torch.float32))


@pytest.mark.skipif(INTERPRETED, reason="needs a GPU")
def test_a_step_can_be_captured(device):
    adj = random_adj(3, dtype=torch.float32).to(device)
    x, weight = (leaf(*size, dtype=torch.float32, device=device) for size in ((150, 32), (3, 32, 32)))
    grad = torch.ones(131, 32, device=device)
    captured, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):  # autograd goes back to where it first met the leaves
        expected = passes(x, adj, weight, grad)
    torch.cuda.synchronize()
    with torch.cuda.graph(captured, stream=stream):
        found = passes(x, adj, weight, grad)
    captured.replay()
    torch.cuda.synchronize()
    assert all(ours.equal(theirs) for ours, theirs in zip(found, expected, strict=True))


@contextmanager
def no_sync():
    """Raises at operations for which the host waits for the device."""
    with warnings.catch_warnings():  # torch warns that the mode does not find all of them
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("hubs", [True, False])
def test_graph_made_in_a_forward_pass_after_some_uses(hubs, device):
    given = random_adj(3, weighted=False, hubs=hubs)
    adj = RelationalAdj.in_forward(given.edge_index.to(device), given.edge_type.to(device), None, 3, given.size)
    adj.one_pass = True  # on the CPU, too
    x, weight = (leaf(*size, dtype=torch.float32, device=device) for size in ((150, 16), (3, 16, 24)))
    grad, expected = torch.ones(131, 24, device=device), None
    for use in range(12):
        with nullcontext() if INTERPRETED else no_sync():
            found = passes(x, adj, weight, grad)
        expected = expected or passes(x, given.to(device), weight, grad, impl="reference")
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(
                ours / theirs.abs().max(), theirs / theirs.abs().max(), **tolerance(torch.float32)
            )
        assert ("node_tiles" in adj.incoming.cache) == ("node_tiles" in adj.outgoing.cache) == (use >= 8)


@pytest.mark.skipif(INTERPRETED, reason="needs a GPU")
def test_where_the_kernels_are_used():
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(40_000, (2, 600_000), generator=generator).cuda()
    csr = RelationalAdj(edges, num_nodes=40_000).incoming
    types = torch.arange(600_000, device="cuda") % 5
    many = RelationalAdj(edges, types, num_relations=5, num_nodes=40_000).incoming
    empty = RelationalAdj(edges[:, :0], num_nodes=40_000).incoming

    def taken(width=32, dtype=torch.float32, csr=csr):
        dense = torch.empty(40_000, width, dtype=dtype, device="cuda")
        return kernel_pays(csr, dense, dense.new_empty(1, width, width))

    assert taken()
    assert taken(width=64)
    assert taken(dtype=torch.bfloat16)
    assert not taken(dtype=torch.float64)
    assert not taken(width=65)
    assert taken(width=16)
    assert taken(csr=many)
    assert not taken(width=16, csr=many)  # too little to gather for two passes
    assert not taken(csr=empty)


def test_bias_in_any_layout_and_shape(device):
    adj = random_adj(3, hubs=False, dtype=torch.float32).to(device)
    x, weight = (leaf(*size, dtype=torch.float32, device=device) for size in ((150, 16), (3, 16, 16)))
    plain = relational_linear(x, adj, weight, impl="reference")
    values = torch.arange(32.0, device=device)
    for bias in (values[::2], values[:1], values[3], values[:16].expand(131, 16)):
        torch.testing.assert_close(biased_linear(x, adj, weight, bias), plain + bias, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("start", ["shared", "independent"])
def test_batched_gradients(start, device, monkeypatch):
    monkeypatch.setattr("graphprism.ops.csr._FEWEST_NUMBERS", 0)
    adj = random_adj(3, num_nodes=(150, 150), dtype=torch.float32).to(device)
    conv, x = MRSGCNConv(16, 16, start=start).to(device), leaf(150, 16, dtype=torch.float32, device=device)
    leaves = [x, *conv.parameters()]
    out = conv(x, adj)
    grads = normal(2, 150, 16, dtype=torch.float32).detach().to(device)
    found = torch.autograd.grad(out, leaves, grads, retain_graph=True, is_grads_batched=True)
    for number, grad in enumerate(grads):
        for ours, theirs in zip(found, torch.autograd.grad(out, leaves, grad, retain_graph=True), strict=True):
            scale = theirs.abs().max()
            torch.testing.assert_close(ours[number] / scale, theirs / scale, **tolerance(torch.float32))


@pytest.mark.parametrize("num_relations", [2, 3, 4, 5, 9])
@pytest.mark.parametrize("channels", [(16, 16), (5, 7), (64, 33), (143, 70), (20, 130)])
def test_mixtures_of_matrices(device, num_relations, channels):
    """Those of a shared start: gradients of what relations have in common and of deviations, and of a bias."""
    torch.manual_seed(0)
    conv = MRSGCNConv(*channels, num_relations=num_relations, decay=3.0).to(device)
    torch.nn.init.normal_(conv.lin.deviation)
    adj = random_adj(num_relations, dtype=torch.float32).to(device)
    mixture = conv.lin.mixture()
    x, bias = (leaf(*size, dtype=torch.float32, device=device) for size in ((150, channels[0]), (channels[1],)))
    out = mixed_linear(x, adj, mixture, bias)
    expected = relational_linear(x, adj, mix(*mixture[:3]), impl="reference") + bias
    grad = leaf(131, channels[1], dtype=torch.float32, device=device, seed=1).detach()
    leaves = [x, bias, conv.lin.common, conv.lin.deviation]
    for ours, theirs in zip(
        (out, *torch.autograd.grad(out, leaves, grad)),
        (expected, *torch.autograd.grad(expected, leaves, grad)),
        strict=True,
    ):
        scale = theirs.abs().max()
        torch.testing.assert_close(ours / scale, theirs / scale, **tolerance(torch.float32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, HALF])
@pytest.mark.parametrize("sizes", [(3, 2, 4096), (3, 3, 513), (7, 1, 5)], ids=str)
@pytest.mark.parametrize("has_added", [False, True])
def test_mix_rows(device, dtype, sizes, has_added):
    number, terms, numbers = sizes
    left, rows, added = (
        leaf(*size, dtype=torch.float64, device=device, seed=seed).detach().to(dtype)
        for seed, size in enumerate(((number, terms), (terms, numbers), (numbers,)))
    )
    given = added if has_added else None
    # a table that begins between multiples of 16 bytes, too
    for table in (rows, torch.cat([rows.new_zeros(1), rows.flatten()])[1:].view(terms, numbers)):
        found = mix_rows(left, table, given)
        expected = product(left.double(), rows.double(), None if given is None else given.double())
        precision = torch.bfloat16 if dtype == HALF else dtype
        torch.testing.assert_close(found.double(), expected, **tolerance(precision))


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0)], ids=str)
def test_mix_rows_without_numbers(sizes, device):
    left, rows, added = (torch.ones(size, device=device) for size in ((3, 2), (2, *sizes), sizes))
    assert mix_rows(left, rows, added).shape == (3, *sizes)


def test_pieces_of_hubs_beyond_2_31_numbers(device):
    """Rows of more than 2^31 numbers, of which only the first is stored and read."""
    from graphprism.ops.kernels.linear import sum_and_multiply  # needs Triton

    adj = RelationalAdj(torch.stack([torch.arange(200) % 7, torch.zeros(200, dtype=torch.long)]), num_nodes=(7, 1))
    tiles, num_nodes = node_tiles(adj.to(device).incoming), 2**27 + 2
    assert tiles.num_pieces == 3
    moved = replace(tiles, target=torch.where(tiles.target > 0, tiles.target - 1 + num_nodes, 0))
    x, weight = torch.ones(7, 16, device=device), torch.eye(16, device=device)[None]
    row = torch.zeros(1, 16, device=device)
    sum_and_multiply(moved, 1, None, x, weight, False, row.expand(num_nodes, 16))
    assert (row == 200).all()

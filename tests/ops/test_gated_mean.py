"""The gated mean of messages on a `RelationalAdj`: its definition by hand, and its kernels against the definition.

`TRITON_INTERPRET=1` runs the kernels on the CPU, where triton is installed.
"""

import os

import pytest
import torch

from graphprism.nn import MRSGatedGCNConv
from graphprism.ops import RelationalAdj
from graphprism.ops.gated_mean import BACKENDS, LinearMap, gated_mean, is_fused
from graphprism.testing import tolerance
from tests.ops.cases import GRAPHS, make_adj

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
EPS = 1e-3
HUB = 300  # entries of node 5, as sender and as receiver: three segments
on_gpu = [] if INTERPRETED else pytest.mark.gpu


@pytest.fixture
def device(monkeypatch):
    if "triton" not in BACKENDS:
        pytest.skip("the kernels of Triton cannot run on this machine")
    if INTERPRETED:
        monkeypatch.setattr("graphprism.ops.backends._INTERPRETED", True)
    return "cpu" if INTERPRETED else "cuda"


def draw(*size, seed=0, dtype=torch.double, device="cpu"):
    numbers = torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    return numbers.to(device, dtype).requires_grad_()


@pytest.fixture(autouse=True)
def cut_every_graph(monkeypatch):
    monkeypatch.setattr("graphprism.ops.csr._FEWEST_CUT", 0)


def hub_adj(num_relations, weighted=True, num_nodes=(150, 131)):
    """A bipartite graph with multi-edges, nodes without entries and two hubs."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.stack([torch.randint(n - 30, (400,), generator=generator) for n in num_nodes])
    ends = [torch.randint(n - 30, (HUB,), generator=generator) for n in num_nodes]
    hub = torch.full((HUB,), 5)
    edges = torch.cat([edges, torch.stack([ends[0], hub]), torch.stack([hub, ends[1]])], dim=1)
    types = torch.randint(num_relations, (edges.size(1),), generator=generator)
    weight = torch.rand(edges.size(1), generator=generator, dtype=torch.double) if weighted else None
    return RelationalAdj(edges, types, weight, num_relations=num_relations, num_nodes=num_nodes)


def leaves_of(adj, num_gates, channels, dtype=torch.double, device="cpu"):
    """Features of senders (4) and receivers (3), and both maps."""
    width = (num_gates + adj.num_relations) * channels
    shapes = [(adj.size[0], 4), (adj.size[1], 3), (3, channels), (channels,), (4, width), (width,)]
    return [draw(*shape, seed=seed, dtype=dtype, device=device) for seed, shape in enumerate(shapes)]


def mean_of(leaves, adj, num_gates, **more):
    maps = LinearMap(*leaves[2:4]), LinearMap(*leaves[4:6])
    return gated_mean((leaves[0], leaves[1]), adj, *maps, num_gates=num_gates, eps=EPS, **more)


def passes(leaves, adj, num_gates, grad, **more):
    inputs = [*leaves, *([adj.edge_weight] if adj.edge_weight is not None and adj.edge_weight.requires_grad else [])]
    out = mean_of(leaves, adj, num_gates, **more)
    return out, *torch.autograd.grad(out, inputs, grad)


def assert_as_defined(adj, num_gates, channels, device, dtype=torch.double):
    """Output and all gradients, each divided by its largest number, against the definition in float64."""
    adj, leaves = adj.to(device), leaves_of(adj, num_gates, channels, dtype, device)
    grad = draw(adj.size[1], channels, seed=9, dtype=dtype, device=device).detach()
    expected = passes([each.detach().double().requires_grad_() for each in leaves], adj, num_gates, grad.double(),
                      impl="reference")  # fmt: skip
    for ours, theirs in zip(passes(leaves, adj, num_gates, grad, impl="triton"), expected, strict=True):
        scale = theirs.abs().max().clamp(min=1e-3) if theirs.numel() else 1
        allowed = tolerance(dtype if dtype.itemsize > 2 else torch.bfloat16)
        torch.testing.assert_close(ours.double() / scale, theirs / scale, **allowed)


def test_by_hand():
    adj = RelationalAdj(torch.tensor([[0, 1], [2, 2]]), torch.tensor([0, 1]), num_relations=2, num_nodes=3)
    x, zero = torch.tensor([[1.0], [2.0], [0.0]]), torch.zeros(1)
    senders = LinearMap(torch.tensor([[0.0, 10.0, 100.0]]), torch.zeros(3))  # a gate of 1/2, messages 10 x and 100 x
    out = gated_mean((x, x), adj, LinearMap(torch.zeros(1, 1), zero), senders, num_gates=1, eps=1.0)
    assert out.flatten().tolist() == [0.0, 0.0, (10 / 2 + 200 / 2) / (1 / 2 + 1 / 2 + 1)]


def test_soft_types_and_other_numbers_of_gates_are_refused():
    adj = make_adj("random", soft=True)
    leaves = leaves_of(adj, 1, 4)
    with pytest.raises(ValueError, match="`adj` must have hard types"):
        mean_of(leaves, adj, 1)
    with pytest.raises(ValueError, match="`num_gates` must be 1 or the number of relations 3, got 2"):
        mean_of(leaves, make_adj("random"), 2)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("num_gates", [1, 3])
@pytest.mark.parametrize("impl", ["reference", pytest.param("triton", marks=on_gpu)])
def test_equals_the_layer_on_every_graph(name, num_gates, impl, device_of_impl):
    adj = make_adj(name).to(device_of_impl)
    layer = MRSGatedGCNConv(5, 4, gate_per_relation=num_gates > 1, batch_norm=False, start="independent", eps=EPS)
    layer = layer.double().to(device_of_impl)
    x = draw(adj.size[0], 5, device=device_of_impl)
    by_relation = layer.lin_gate_src, layer.lin_message
    senders = LinearMap(
        torch.cat([each.lin.weight.transpose(0, 1).flatten(1) for each in by_relation], dim=1),
        torch.cat([each.bias.weight.flatten() for each in by_relation]),
    )
    receivers = LinearMap(layer.lin_gate_dst.weight.t(), layer.lin_gate_dst.bias)
    out = layer.lin_root(x) + gated_mean((x, x), adj, receivers, senders, num_gates=num_gates, eps=EPS, impl=impl)
    expected, _ = layer._by_entry(x, x, adj, None)
    torch.testing.assert_close(out, expected, **tolerance(torch.double))
    inputs = [x, adj.edge_weight, *layer.lin_message.parameters(), *layer.lin_gate_src.parameters()]
    first, second = (torch.autograd.grad(each.square().sum(), inputs) for each in (out, expected))
    torch.testing.assert_close(first, second, **tolerance(torch.double))


@pytest.fixture
def device_of_impl(impl, request):
    return request.getfixturevalue("device") if impl == "triton" else "cpu"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("relations", "num_gates", "channels", "weighted"),
    [(3, 1, 32, False), (3, 1, 7, True), (3, 3, 70, True), (1, 1, 5, False), (12, 12, 3, False), (5, 1, 1, True)],
)
@pytest.mark.parametrize("backend", [pytest.param("triton", marks=on_gpu)])
def test_kernels_equal_the_definition(backend, relations, num_gates, channels, weighted, dtype, device):
    assert_as_defined(hub_adj(relations, weighted), num_gates, channels, device, dtype)


@pytest.mark.parametrize("channels", [6, 70])
@pytest.mark.parametrize("block", [1 << 30, 1])
@pytest.mark.parametrize("backend", [pytest.param("triton", marks=on_gpu)])
def test_kernels_give_the_gradient_of_edge_weights(backend, block, channels, device, monkeypatch):
    adj = hub_adj(3, num_nodes=(40, 38))
    adj = adj.to(device).with_weight(adj.edge_weight.to(device).requires_grad_())
    monkeypatch.setattr("graphprism.ops.kernels.gated_mean._BLOCK_BYTES", block)  # one block, or one of each sender
    assert_as_defined(adj, 1, channels, device)


@pytest.mark.parametrize("backend", [pytest.param("triton", marks=on_gpu)])
def test_kernels_do_not_cut_small_graphs(backend, device, monkeypatch):
    monkeypatch.undo()
    if INTERPRETED:
        monkeypatch.setattr("graphprism.ops.backends._INTERPRETED", True)
    adj = hub_adj(3)
    assert adj.incoming.node_segments().hub.numel() == 0
    assert_as_defined(adj, 1, 5, device)


@pytest.mark.parametrize("size", [(0, 0, 0), (4, 3, 0), (0, 3, 0), (4, 0, 0)], ids=str)
@pytest.mark.parametrize("channels", [0, 2])
@pytest.mark.parametrize("backend", [pytest.param("triton", marks=on_gpu)])
def test_kernels_take_nothing(backend, size, channels, device):
    edges = torch.empty(2, size[2], dtype=torch.long)
    adj = RelationalAdj(edges, edges[0], num_relations=2, num_nodes=size[:2])
    assert_as_defined(adj, 1, channels, device)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of the interpreter
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("backend", [pytest.param("triton", marks=on_gpu)])
def test_kernels_leave_receivers_without_edges_out_of_the_gradients(backend, device):
    adj = RelationalAdj(torch.tensor([[0], [1]], device=device), num_nodes=3)
    leaves = leaves_of(adj, 1, 2, device=device)
    out = gated_mean(
        (leaves[0], leaves[1]), adj, LinearMap(*leaves[2:4]), LinearMap(*leaves[4:6]), num_gates=1, eps=0.0
    )
    assert out.isnan().any(dim=1).tolist() == [True, False, True]  # 0 / 0
    grads = torch.autograd.grad(out[1].sum(), leaves)
    assert all(each.isfinite().all() for each in grads)


@pytest.mark.parametrize("backend", [pytest.param("triton", marks=on_gpu)])
def test_kernels_give_second_derivatives(backend, device):
    adj = hub_adj(3, num_nodes=(40, 38)).to(device)
    adj = adj.with_weight(adj.edge_weight.requires_grad_())
    leaves = [*leaves_of(adj, 1, 3, device=device), adj.edge_weight]
    found = []
    for impl in ("triton", "reference"):
        out = mean_of(leaves, adj, 1, impl=impl)
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        found.append(torch.autograd.grad(sum(each.square().sum() for each in first), leaves))
    torch.testing.assert_close(*found, **tolerance(torch.double))


@pytest.mark.parametrize("backend", [pytest.param("triton", marks=on_gpu)])
def test_kernels_give_second_derivatives_of_two_layers_with_the_same_parameters(backend, device):
    adj = hub_adj(3, num_nodes=(40, 40)).to(device)
    adj = adj.with_weight(adj.edge_weight.requires_grad_())
    x, *maps = (draw(*size, seed=3, device=device) for size in [(40, 4), (4, 4), (4,), (4, 16), (16,)])
    leaves, found = [x, *maps, adj.edge_weight], []
    for impl in ("triton", "reference"):
        out = x
        for _ in range(2):
            out = mean_of([out, out, *maps], adj, 1, impl=impl)
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        found.append((*first, *torch.autograd.grad(sum(each.square().sum() for each in first), leaves)))
    torch.testing.assert_close(*found, **tolerance(torch.double))


@pytest.mark.parametrize("backend", [pytest.param("triton", marks=on_gpu)])
def test_kernels_take_batched_gradients(backend, device):
    adj = hub_adj(3, num_nodes=(40, 38)).to(device)
    adj = adj.with_weight(adj.edge_weight.requires_grad_())
    leaves = [*leaves_of(adj, 1, 3, device=device), adj.edge_weight]
    out = mean_of(leaves, adj, 1)
    grads = draw(2, *out.shape, seed=9, device=device).detach()
    found = torch.autograd.grad(out, leaves, grads, retain_graph=True, is_grads_batched=True)
    expected = [torch.autograd.grad(out, leaves, each, retain_graph=True) for each in grads]
    torch.testing.assert_close(found, tuple(map(torch.stack, zip(*expected, strict=True))), **tolerance(torch.double))


@pytest.mark.parametrize("backend", [pytest.param("triton", marks=on_gpu)])
def test_kernels_need_no_gradient_and_give_only_those_that_are_needed(backend, device):
    adj = hub_adj(3).to(device)
    leaves = leaves_of(adj, 1, 4, device=device)
    expected = passes(leaves, adj, 1, torch.ones(131, 4, dtype=torch.double, device=device))
    with torch.no_grad():
        torch.testing.assert_close(mean_of(leaves, adj, 1), expected[0])
    for number, leaf in enumerate(leaves):
        alone = [each.detach().requires_grad_(each is leaf) for each in leaves]
        mean_of(alone, adj, 1).sum().backward()
        assert [each.grad is not None for each in alone] == [each is leaf for each in leaves]
        torch.testing.assert_close(alone[number].grad, expected[1 + number])


@pytest.mark.parametrize("backend", [pytest.param("triton", marks=on_gpu)])
def test_layer_is_the_same_with_and_without_kernels(backend, device, monkeypatch):
    adj = hub_adj(3, num_nodes=(150, 150)).to(device)
    layer = MRSGatedGCNConv(6, 8).double().to(device)
    x, grad = draw(150, 6, device=device), draw(150, 8, seed=1, device=device).detach()
    assert is_fused(adj)
    found = []
    for fused in (True, False):
        if not fused:
            monkeypatch.setattr("graphprism.nn.conv.mrs_gated_gcn_conv.is_fused", lambda _: False)
        out = layer(x, adj)
        found.append(
            (out, *torch.autograd.grad(out, [x, layer.lin_gate_dst.weight, layer.lin_message.lin.common], grad))
        )
    torch.testing.assert_close(*found, **tolerance(torch.double))


@pytest.mark.parametrize("backend", [pytest.param("triton", marks=on_gpu)])
def test_layer_calls_a_map_that_was_replaced(backend, device):
    adj = hub_adj(3, num_nodes=(150, 150)).to(device)
    layer = MRSGatedGCNConv(6, 8).double().to(device)
    x = draw(150, 6, device=device)
    expected = layer(x, adj)
    layer.lin_gate_dst = torch.nn.Sequential(layer.lin_gate_dst)
    torch.testing.assert_close(layer(x, adj), expected, **tolerance(torch.double))


@pytest.mark.parametrize("backend", [pytest.param("triton", marks=on_gpu)])
def test_kernels_under_autocast(backend, device):
    adj = hub_adj(3, num_nodes=(150, 150)).to(device)
    layer = MRSGatedGCNConv(6, 8, batch_norm=False).to(device)
    x = draw(150, 6, dtype=torch.float32, device=device)
    with torch.autocast(device, torch.bfloat16):
        out = layer(x, adj)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert x.grad.dtype == layer.lin_gate_dst.weight.grad.dtype == torch.float32
    torch.testing.assert_close(out.float(), layer(x, adj), rtol=0.1, atol=0.1)


@pytest.mark.gpu
def test_step_can_be_captured_and_gives_the_same_bits():
    adj, channels = hub_adj(3).to("cuda"), 32
    leaves = leaves_of(adj, 1, channels, torch.float32, "cuda")
    grad = torch.ones(131, channels, device="cuda")
    captured, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):  # autograd goes back to where it first met the leaves
        expected = passes(leaves, adj, 1, grad)
    torch.cuda.synchronize()
    with torch.cuda.graph(captured, stream=stream):
        found = passes(leaves, adj, 1, grad)
    captured.replay()
    torch.cuda.synchronize()
    assert all(ours.equal(theirs) for ours, theirs in zip(found, expected, strict=True))


@pytest.mark.gpu
def test_memory_does_not_grow_with_the_edges():
    edges = torch.randint(1000, (2, 500_000), generator=torch.Generator().manual_seed(0)).cuda()
    layer, x = MRSGatedGCNConv(64, 64, num_relations=1, batch_norm=False).cuda(), torch.randn(1000, 64, device="cuda")
    adj = RelationalAdj(edges, num_nodes=1000)
    layer(x, adj).sum().backward()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    layer(x, adj).sum().backward()
    # a row of each edge alone would be 128 MB
    assert torch.cuda.max_memory_allocated() - before < 32e6

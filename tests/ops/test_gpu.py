"""What only a GPU runs: its kernels against the reference, and the same bits twice."""

import pytest
import torch

from graphprism.ops import RelationalAdj, linear_csr, relational_aggregate, relational_linear, relational_sum
from graphprism.ops.csr import BACKENDS, csr_sum
from graphprism.testing import assert_implementations_agree, random_graph, tolerance
from tests.ops.cases import GRAPHS, make_adj, normal

pytestmark = pytest.mark.gpu
# lengths around the size of a piece, a hub of many pieces and empty rows between them
LENGTHS = torch.tensor([0, 1, 31, 32, 33, 127, 128, 129, 0, 256, 257, 0, 70_000, 3, 0])


def make_rows(dtype, channels, index_dtype=torch.int32):
    generator = torch.Generator().manual_seed(0)
    rowptr = torch.cat([torch.zeros(1, dtype=torch.long), LENGTHS.cumsum(0)])
    col = torch.randint(999, (int(rowptr[-1]),), generator=generator)
    dense = torch.randn(999, channels, generator=generator, dtype=torch.double).to(dtype)
    value = torch.rand(col.numel(), generator=generator, dtype=torch.double).to(dtype)
    scale = LENGTHS.clamp(min=1).sqrt()[:, None].double()  # so that every sum is near one
    return rowptr.to(index_dtype), col.to(index_dtype), value, dense, scale


@pytest.mark.parametrize("impl", ["triton"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("channels", [1, 2, 63, 64, 300, 500])
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_sums_equal_the_reference(impl, dtype, channels, index_dtype):
    if impl not in BACKENDS:
        pytest.skip("the kernels of Triton cannot run on this machine")
    rowptr, col, value, dense, scale = make_rows(dtype, channels, index_dtype)
    for weights in (value, None):
        exact = csr_sum(rowptr, col, None if weights is None else weights.double(), dense.double(), impl="reference")
        # memory that was not written must not pass: let the allocator hand out NaN
        torch.full((1 << 22,), float("nan"), device="cuda")
        on_gpu = [t if t is None else t.cuda() for t in (rowptr, col, weights, dense)]
        out = csr_sum(*on_gpu, impl=impl)
        assert out.dtype == dtype
        torch.testing.assert_close(out.cpu().double() / scale, exact / scale, **tolerance(dtype))


def test_single_and_double_precision():
    adj = make_adj("hub", dtype=torch.float32).to("cuda")
    x, weight = (normal(*size, dtype=torch.float32).cuda() for size in ((40, 8), (3, 8, 8)))
    for dtype in (torch.float32, torch.float64):
        out = relational_linear(x.to(dtype), adj, weight.to(dtype))
        expected = relational_linear(x.to(dtype), adj, weight.to(dtype), impl="reference")
        torch.testing.assert_close(out, expected, **tolerance(dtype))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("soft", [False, True])
def test_ops_equal_the_reference_with_gradients(name, soft):
    adj = make_adj(name, soft=soft, dtype=torch.float32).to("cuda")
    leaves = [adj.edge_weight, adj.edge_type] if soft else [adj.edge_weight]
    for leaf in leaves:
        leaf.retain_grad()
    x, h, weight = (
        normal(*size, dtype=torch.float32).detach().cuda().requires_grad_()
        for size in ((adj.size[0], 5), (adj.size[0], 3, 5), (3, 5, 4))
    )
    ops = {
        (x, weight): lambda impl: relational_linear(x, adj, weight, impl=impl),
        (x,): lambda impl: relational_aggregate(x, adj, impl=impl),
        (h,): lambda impl: relational_sum(h, adj, impl=impl),
    }
    for inputs, op in ops.items():
        forms = {impl: lambda *_, op=op, impl=impl: op(impl) for impl in ("reference", "csr")}
        assert_implementations_agree(forms, *inputs, *leaves)


@pytest.mark.parametrize("kernel", ["triton", "embedding_bag"])
@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize("nodes_per_block", [1, 7, 1000])
@pytest.mark.parametrize("name", ["hub", "random", "molecule", "multi-edges", "no-edges", "no-nodes"])
def test_many_blocks_with_and_without_empty_pairs(monkeypatch, name, nodes_per_block, leave_out, kernel):
    monkeypatch.setattr(linear_csr, "skip_empty_pairs", lambda *_: leave_out)
    monkeypatch.setattr(linear_csr, "transform_first", lambda *_: False)
    monkeypatch.setattr(linear_csr, "waits_for_launches", lambda *_: False)
    monkeypatch.setattr("graphprism.ops.csr._GPU_BLOCK_BYTES", nodes_per_block * 3 * 8 * 8)
    monkeypatch.setattr("graphprism.ops.csr.fills_gpu", lambda *_: kernel == "triton")
    # in float64: the reference adds up a hub in an order of its own every time
    adj = make_adj(name)
    adj = adj.with_weight(adj.edge_weight.detach()).to("cuda")
    x, weight = (normal(*size).detach().cuda().requires_grad_() for size in ((adj.size[0], 8), (3, 8, 8)))
    forms = {impl: lambda *_, impl=impl: relational_linear(x, adj, weight, impl=impl) for impl in ("reference", "csr")}
    assert_implementations_agree(forms, x, weight)


def test_a_step_can_be_captured():
    graph = random_graph(2000, 70_000)
    types = torch.randint(3, (70_000,), generator=torch.Generator().manual_seed(0))
    adj = RelationalAdj(graph.edge_index, types, torch.rand(70_000), num_relations=3, num_nodes=2000).to("cuda")
    x, weight = (torch.randn(*size, device="cuda", requires_grad=True) for size in ((2000, 64), (3, 64, 64)))
    expected = torch.autograd.grad(relational_linear(x, adj, weight).square().sum(), (x, weight))
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        found = torch.autograd.grad(relational_linear(x, adj, weight).square().sum(), (x, weight))
    captured.replay()
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours / theirs.abs().max(), theirs / theirs.abs().max(), **tolerance(torch.float32))


def test_same_bits_twice():
    graph = random_graph(2000, 50_000)
    types = torch.randint(3, (50_000,), generator=torch.Generator().manual_seed(0))
    adj = RelationalAdj(graph.edge_index, types, torch.rand(50_000), num_relations=3, num_nodes=2000).to("cuda")
    x, weight = (torch.randn(*size, device="cuda", requires_grad=True) for size in ((2000, 64), (3, 64, 64)))
    runs = []
    for _ in range(2):
        out = relational_linear(x, adj, weight)
        runs.append((out, *torch.autograd.grad(out.square().sum(), (x, weight))))
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))

import pytest
import torch

from graphprism.ops import RelationalAdj, linear_csr, relational_linear
from graphprism.ops.csr import Csr
from graphprism.ops.linear import BACKENDS
from graphprism.ops.linear_csr import skip_empty_pairs, transform_first
from graphprism.testing import assert_implementations_agree, random_graph, tolerance
from tests.ops.cases import GRAPHS, make_adj, normal


@pytest.mark.parametrize("impl", BACKENDS)
def test_by_hand(impl):
    edges, types = torch.tensor([[0, 1, 0], [2, 2, 1]]), torch.tensor([0, 1, 0])
    adj = RelationalAdj(edges, types, torch.tensor([1.0, 2.0, 3.0]), num_relations=2, num_nodes=3)
    weight = torch.tensor([[[1.0]], [[10.0]]])
    out = relational_linear(torch.tensor([[1.0], [10.0], [100.0]]), adj, weight, impl=impl)
    assert out.flatten().tolist() == [0, 3, 1 + 2 * 10 * 10]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("channels", [(3, 2), (63, 1), (2, 63)])
def test_every_form_equals_the_reference(name, soft, channels):
    adj = make_adj(name, soft=soft)
    x, weight = normal(adj.size[0], channels[0]), normal(3, *channels)
    inputs = {"x": x, "weight": weight, "edge_weight": adj.edge_weight, **({"scores": adj.edge_type} if soft else {})}

    def run(impl):
        return lambda *_: relational_linear(x, adj, weight, impl=impl)

    assert_implementations_agree({name: run(name) for name in BACKENDS}, *inputs.values())


@pytest.mark.parametrize("impl", ["csr", "scatter", "pairs"])
@pytest.mark.parametrize("soft", [False, True])
def test_first_and_second_derivatives(impl, soft):
    graph = random_graph(6, 12)
    types = torch.rand(12, 2, dtype=torch.double, requires_grad=True) if soft else torch.randint(2, (12,))
    x, weight, edge_weight = normal(6, 3), normal(2, 3, 2), normal(12)

    def run(x, weight, edge_weight, *scores):
        edge_type = scores[0] if scores else types
        adj = RelationalAdj(graph.edge_index, edge_type, edge_weight, num_relations=2, num_nodes=6)
        return relational_linear(x, adj, weight, impl=impl)

    inputs = (x, weight, edge_weight, *([types] if soft else []))
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)


def test_both_orders_are_taken_and_give_the_same():
    adj = make_adj("random")
    wide, narrow = normal(adj.size[0], 64), normal(3, 64, 2)
    assert transform_first(adj, 200, 64, 2)
    assert not transform_first(adj, 200, 64, 64)
    for weight in (narrow, normal(3, 64, 64)):
        ours = relational_linear(wide, adj, weight)
        torch.testing.assert_close(
            ours, relational_linear(wide, adj, weight, impl="reference"), **tolerance(ours.dtype)
        )


@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", GRAPHS)
def test_many_blocks_with_and_without_empty_pairs(monkeypatch, name, dtype, leave_out):
    adj = make_adj(name, dtype=dtype)
    x, weight = normal(adj.size[0], 8, dtype=dtype), normal(3, 8, 8, dtype=dtype)
    leaves = (x, weight, adj.edge_weight)
    expected = relational_linear(x, adj, weight, impl="reference")
    expected_grads = torch.autograd.grad(expected.square().sum(), leaves)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    node_bytes = 3 * 8 * x.element_size()
    monkeypatch.setattr(linear_csr, "skip_empty_pairs", lambda *_: leave_out)
    monkeypatch.setattr(linear_csr, "transform_first", lambda *_: False)
    for nodes in (1, 7, 1000):
        monkeypatch.setattr("graphprism.ops.csr._CPU_BLOCK_BYTES", nodes * node_bytes)
        assert adj.incoming.nodes_per_block(x) == min(nodes, max(1, adj.size[0]))
        out = relational_linear(x, adj, weight)
        torch.testing.assert_close(out, expected, **tolerance(dtype))
        for ours, theirs in zip(torch.autograd.grad(out.square().sum(), leaves), expected_grads, strict=True):
            torch.testing.assert_close(ours, theirs, **tolerance(dtype))


@pytest.mark.parametrize("channels", [(8, 5), (5, 8), (0, 3), (3, 0)])
@pytest.mark.parametrize("name", GRAPHS)
def test_gradients_from_kept_sums(monkeypatch, name, channels):
    adj = make_adj(name)
    leaves = normal(adj.size[0], channels[0]), normal(3, *channels), adj.edge_weight
    monkeypatch.setattr(linear_csr, "waits_for_launches", lambda *_: True)
    outs = [relational_linear(leaves[0], adj, leaves[1], impl=impl) for impl in ("csr", "reference")]
    grads = [torch.autograd.grad(out.square().sum(), leaves) for out in outs]
    torch.testing.assert_close(outs[0], outs[1], **tolerance(outs[0].dtype))
    torch.testing.assert_close(*grads, **tolerance(outs[0].dtype))
    frozen = relational_linear(leaves[0], adj, leaves[1].detach(), impl="csr")
    found = torch.autograd.grad(frozen.square().sum(), leaves[0])[0]
    torch.testing.assert_close(found, grads[1][0], **tolerance(found.dtype))


def test_a_layer_that_shrinks_gathers_what_it_has_shrunk(monkeypatch):
    # few edges and many empty pairs: leaving those out would pay, but only after gathering rows of 512 channels
    edges = torch.arange(60).view(2, 30).repeat(1, 8)
    adj = RelationalAdj(edges, torch.zeros(240).long(), num_relations=3, num_nodes=60)
    assert skip_empty_pairs(adj.incoming, 512, 64)
    gathered = []
    sum_nodes = Csr.sum_nodes
    monkeypatch.setattr(Csr, "sum_nodes", lambda self, *a: gathered.append(a[2].shape) or sum_nodes(self, *a))
    x, weight = normal(60, 512), normal(3, 512, 64)
    out = relational_linear(x, adj, weight)
    assert gathered == [(180, 64)]
    torch.testing.assert_close(out, relational_linear(x, adj, weight, impl="reference"), **tolerance(out.dtype))


def test_empty_pairs_are_left_out_where_it_pays():
    sparse = RelationalAdj(torch.arange(60).view(2, 30), torch.zeros(30).long(), num_relations=3, num_nodes=60)
    loops, types = torch.arange(30).repeat(2, 3), torch.arange(3).repeat_interleave(30)
    full = RelationalAdj(loops, types, num_relations=3, num_nodes=30)
    assert sparse.incoming.active_share == pytest.approx(1 / 6)
    assert full.incoming.active_share == 1
    assert skip_empty_pairs(sparse.incoming, 64, 64)
    assert not skip_empty_pairs(sparse.incoming, 8, 64)
    assert not skip_empty_pairs(full.incoming, 512, 512)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("impl", ["csr", "scatter", "pairs"])
def test_lower_precisions(dtype, impl):
    adj = make_adj("random", dtype=dtype)
    x, weight = normal(30, 16, dtype=dtype), normal(3, 16, 16, dtype=dtype)
    exact = make_adj("random").with_weight(adj.edge_weight.detach().double())
    expected = relational_linear(x.double(), exact, weight.double(), impl="reference")
    out = relational_linear(x, adj, weight, impl=impl)
    assert out.dtype == dtype
    scale = expected.abs().max()
    torch.testing.assert_close(out.double() / scale, expected / scale, **tolerance(dtype))
    assert all(g.dtype == dtype for g in torch.autograd.grad(out.sum(), (x, weight)))


def test_mixed_precision_runs_in_the_lower_dtype_and_gives_float32_gradients():
    adj = make_adj("random", dtype=torch.float32)
    x, weight = normal(30, 8, dtype=torch.float32), normal(3, 8, 8, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = relational_linear(x, adj, weight)
    assert out.dtype == torch.bfloat16
    grads = torch.autograd.grad(out.float().square().sum(), (x, weight))
    exact = torch.autograd.grad(relational_linear(x, adj, weight).square().sum(), (x, weight))
    for ours, theirs in zip(grads, exact, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours / theirs.abs().max(), theirs / theirs.abs().max(), rtol=0.05, atol=0.05)


def test_scatter_compiles_whole_and_runs_under_vmap():
    adj = make_adj("random", dtype=torch.float32)
    x, weights = normal(30, 4, dtype=torch.float32), normal(5, 3, 4, 2, dtype=torch.float32)
    each = torch.stack([relational_linear(x, adj, weight) for weight in weights])
    together = torch.func.vmap(lambda weight: relational_linear(x, adj, weight))(weights)
    torch.testing.assert_close(together, each, **tolerance(torch.float32))
    compiled = torch.compile(lambda x, weight: relational_linear(x, adj, weight), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, weights[0].detach()), each[0], **tolerance(torch.float32))


def test_a_leading_dimension_is_carried_along():
    adj = make_adj("random")
    signals, weight = normal(4, 30, 3), normal(3, 3, 2)
    out = relational_linear(signals, adj, weight)
    assert out.shape == (4, 30, 2)
    torch.testing.assert_close(out[2], relational_linear(signals[2], adj, weight))


def test_what_is_sorted_is_sorted_once(monkeypatch):
    adj = make_adj("random")
    builds = []
    build = Csr.build
    monkeypatch.setattr(Csr, "build", staticmethod(lambda *a: builds.append(1) or build(*a)))
    for _ in range(3):
        relational_linear(normal(30, 4), adj, normal(3, 4, 4)).sum().backward()
    assert len(builds) == 2


def test_bad_input():
    adj = make_adj("random")
    with pytest.raises(ValueError, match=r"`weight` must have shape \[3, F_in, F_out\], got \[2, 4, 4\]"):
        relational_linear(normal(30, 4), adj, normal(2, 4, 4))
    with pytest.raises(ValueError, match=r"`x` must have shape \[30, 4\], got \[29, 4\]"):
        relational_linear(normal(29, 4), adj, normal(3, 4, 4))
    with pytest.raises(ValueError, match="must be on the same device"):
        relational_linear(normal(30, 4).to("meta"), adj, normal(3, 4, 4))
    with pytest.raises(ValueError, match="`impl` must be one of"):
        relational_linear(normal(30, 4), adj, normal(3, 4, 4), impl="fast")

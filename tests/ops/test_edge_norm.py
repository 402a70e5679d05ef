import pytest
import torch
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from graphprism.ops import edge_norm
from graphprism.ops.edge_norm import _root, trusted_norm
from graphprism.testing import random_graph, tolerance

STAR = torch.tensor([[0, 1, 2, 3], [3, 3, 3, 0]])


def test_by_hand():
    assert edge_norm(STAR, (4, 4), "mean").tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1])
    # nodes 1 and 2 have no incoming edge, so the symmetric norm loses their messages; the directed one does not
    assert edge_norm(STAR, (4, 4), "sym").tolist() == pytest.approx([3**-0.5, 0, 0, 3**-0.5])
    assert edge_norm(STAR, (4, 4), "dir").tolist() == pytest.approx([3**-0.5, 3**-0.5, 3**-0.5, 1])
    assert edge_norm(STAR, (4, 4), "none").tolist() == [1, 1, 1, 1]


def test_sym_is_gcn_norm_also_with_weights():
    graph = random_graph(10, 40)
    weight = torch.rand(40, dtype=torch.double)
    _, expected = gcn_norm(graph.edge_index, weight, 10, add_self_loops=False, dtype=torch.double)
    torch.testing.assert_close(
        edge_norm(graph.edge_index, (10, 10), "sym", weight), expected, **tolerance(weight.dtype)
    )


@pytest.mark.parametrize("kind", ["sym", "dir", "mean"])
def test_gradient_is_finite_where_a_degree_is_zero(kind):
    weight = torch.tensor([0.0, 0.0, 0.0, 1.0], requires_grad=True)  # all edges to node 3 weigh nothing
    edge_norm(STAR, (4, 4), kind, weight).sum().backward()
    assert weight.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["sym", "dir", "mean"])
def test_forward_mode_is_finite_where_a_degree_is_zero(kind):
    weight = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    backward = torch.autograd.functional.jacobian(lambda weight: edge_norm(STAR, (4, 4), kind, weight), weight)
    forward = torch.func.jacfwd(lambda weight: edge_norm(STAR, (4, 4), kind, weight))(weight)
    torch.testing.assert_close(forward, backward)
    with dual_level():
        out = edge_norm(STAR, (4, 4), kind, make_dual(weight, torch.ones_like(weight)))
        torch.testing.assert_close(unpack_dual(out).tangent, backward.sum(1))


def test_bad_input():
    with pytest.raises(
        ValueError, match=r"`norm` must be one of \['sym', 'dir', 'mean', 'none'\] .a norm of edges., got 'both'"
    ):
        edge_norm(STAR, (4, 4), "both")
    with pytest.raises(ValueError, match="needs as many sources as targets, got 4 and 5"):
        edge_norm(STAR, (4, 5), "sym")


def test_edge_norm_mean_divides_by_negative_degrees():
    weight = torch.tensor([1.0, -3.0, -2.0, 5.0], dtype=torch.double, requires_grad=True)  # degree of node 3: -4
    assert edge_norm(STAR, (4, 4), "mean", weight).tolist() == [-0.25, 0.75, 0.5, 1]
    assert torch.autograd.gradcheck(lambda weight: edge_norm(STAR, (4, 4), "mean", weight), (weight,))
    zero = torch.tensor([1.0, -1.0, 0.0, 5.0])
    assert edge_norm(STAR, (4, 4), "mean", zero).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("kind", ["sym", "dir"])
def test_edge_norm_is_zero_where_a_root_would_be_of_a_negative_degree(kind):
    weight = torch.tensor([1.0, -3.0, -2.0, 5.0], dtype=torch.double, requires_grad=True)
    out = edge_norm(STAR, (4, 4), kind, weight)
    assert out.tolist() == [0, 0, 0, 1 if kind == "dir" else 0]  # node 3 sends with weight 5
    out.sum().backward()
    assert weight.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["sym", "dir", "mean"])
def test_edge_norm_counts_beyond_what_half_precisions_hold(kind, dtype):
    hub = torch.stack([torch.arange(5000), torch.zeros(5000, dtype=torch.long)])
    hub = torch.cat([hub, hub.flip(0)], dim=1)
    out, expected = (edge_norm(hub, (5000, 5000), kind, dtype=each) for each in (dtype, torch.float32))
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), expected, rtol=0.01, atol=1e-6)


@pytest.mark.parametrize("wants_gradient", [False, True])
def test_root_of_a_degree_is_zero_unless_it_is_positive(wants_gradient):
    degree = torch.tensor([4.0, 0.0, -0.0, -2.0, float("nan"), float("inf"), 1e-45], dtype=torch.float64)
    root = _root(degree.requires_grad_(wants_gradient))
    assert root.tolist() == pytest.approx([0.5, 0, 0, 0, 0, 0, 1e-45**-0.5])


def test_norm_of_many_graphs_of_one_size():
    edges = torch.stack([torch.randint(4, (2, 9), generator=torch.Generator().manual_seed(run)) for run in range(5)])
    found = torch.vmap(lambda each: trusted_norm(each, (4, 4), "sym", None, torch.float64))(edges)
    for run in range(5):
        torch.testing.assert_close(found[run], edge_norm(edges[run], (4, 4), "sym", dtype=torch.float64))

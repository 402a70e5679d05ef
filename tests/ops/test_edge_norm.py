import pytest
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from graphprism.ops import edge_norm
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


def test_bad_input():
    with pytest.raises(ValueError, match=r"`norm` must be one of \['sym', 'dir', 'mean', 'none'\], got 'both'"):
        edge_norm(STAR, (4, 4), "both")
    with pytest.raises(ValueError, match="needs as many sources as targets, got 4 and 5"):
        edge_norm(STAR, (4, 5), "sym")

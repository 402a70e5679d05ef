"""Every ordering on graphs small enough to see the answer."""

from functools import partial

import pytest
import torch

from graphprism.splitting import ORDERINGS, orderings

from ..zoo import EMPTY, directed, undirected

# 0 -> 1 -> 2 -> 0 with 2 -> 3, a loop at 3 and 0 -> 1 twice
LASSO = directed([(0, 1), (0, 1), (1, 2), (2, 0), (2, 3), (3, 3)], 5)


@pytest.mark.parametrize(
    ("ordering", "expected"),
    [
        (orderings.degree, [2, 1, 2, 1, 0]),
        (partial(orderings.degree, kind="in"), [1, 2, 1, 2, 0]),
        (partial(orderings.degree, kind="total"), [3, 3, 3, 3, 0]),
        (orderings.core, [2, 2, 2, 1, 0]),
        (orderings.triangles, [1, 1, 1, 0, 0]),
        (orderings.bfs, [0, 1, 0, 1, 5]),
        (partial(orderings.bfs, root=1), [2, 0, 1, 2, 5]),
        (partial(orderings.bfs, root=torch.tensor([3])), [5, 5, 5, 0, 5]),
        (partial(orderings.bfs, root=torch.tensor([1, 4])), [2, 0, 1, 2, 0]),
    ],
)
def test_lasso(ordering, expected):
    values = ordering(LASSO)
    assert values.dtype == torch.long
    assert values.tolist() == expected


@pytest.mark.parametrize("name", ORDERINGS)
def test_empty_graph(name):
    assert ORDERINGS[name](EMPTY).shape == (0,)


def test_bfs_root_as_int_is_a_node_of_every_graph():
    graph = undirected([(0, 1), (2, 3), (3, 4)], 5, batch=torch.tensor([0, 0, 1, 1, 1]))
    assert orderings.bfs(graph, root=1).tolist() == [1, 0, 1, 0, 1]


def test_bfs_root_outside():
    graph = undirected([(0, 1), (2, 3), (3, 4)], 5, batch=torch.tensor([0, 0, 1, 1, 1]))
    with pytest.raises(ValueError, match=r"`root` must be a node of every graph, so in \[0, 2\), got 2"):
        orderings.bfs(graph, root=2)
    with pytest.raises(ValueError, match=r"`root` must hold numbers in \[0, 5\), got 5"):
        orderings.bfs(graph, root=torch.tensor([5]))
    with pytest.raises(TypeError, match=r"`root` must hold integers, got torch.float32"):
        orderings.bfs(graph, root=torch.tensor([1.0]))


def test_unknown_kind_of_degree():
    with pytest.raises(ValueError, match=r"`kind` must be one of \['out', 'in', 'total'\], got 'both'"):
        orderings.degree(LASSO, kind="both")


def test_eigenvector_of_a_star_and_an_edge():
    # A star with four leaves has the eigenvalue 2 with a centre twice as large as a leaf.
    star = undirected([(0, 1), (0, 2), (0, 3), (0, 4)], 5)
    expected = torch.tensor([1, 0.5, 0.5, 0.5, 0.5], dtype=torch.float64)
    torch.testing.assert_close(orderings.eigenvector(star), expected)
    assert orderings.eigenvector(directed([(0, 1)], 2), steps=1).tolist() == [0.5, 1.0]


@pytest.mark.parametrize("ordering", [orderings.eigenvector, orderings.ppr])
def test_steps_must_be_positive(ordering):
    with pytest.raises(ValueError, match="`steps` must be at least 1, got 0"):
        ordering(LASSO, steps=0)


def test_features():
    x = torch.tensor([[1.0, 2.0], [0.5, -0.5]])
    assert orderings.features(directed([], 2, x=x)).tolist() == [3.0, 0.0]
    assert orderings.features(directed([], 2, x=x[:, 0])).tolist() == [1.0, 0.5]
    assert orderings.features(directed([], 2, x=x)).dtype == torch.float64
    large = torch.tensor([[2**60, 1], [2**60, 2]])
    assert orderings.features(directed([], 2, x=large)).tolist() == [2**60 + 1, 2**60 + 2]
    assert orderings.features(directed([], 2, x=x > 0)).tolist() == [2, 1]


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (None, ValueError, "must have an attribute `x` with the features of the nodes, got a graph without it"),
        (torch.zeros(2, 3), ValueError, r"`x` must have shape \[5, F\], got \[2, 3\]"),
        (torch.zeros(5, 3, 1), ValueError, r"`x` must have shape \[5, F\], got \[5, 3, 1\]"),
        (torch.zeros(5, 1, dtype=torch.complex64), TypeError, "`x` must hold real numbers, got torch.complex64"),
        ([0, 1], TypeError, "`x` must be a torch.Tensor, got list"),
    ],
)
def test_bad_features(x, error, message):
    with pytest.raises(error, match=message):
        orderings.features(directed([(0, 1)], 5, x=x))


def test_restart_outside():
    with pytest.raises(ValueError, match=r"`restart` must be in \[0, 1\], got 1.5"):
        orderings.ppr(LASSO, restart=1.5)

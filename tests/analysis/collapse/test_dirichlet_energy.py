import importlib

import pytest
import torch

from graphprism.analysis.collapse import dirichlet_energy


def graph(seed=0, n=12, directed=False, loops=True):
    """A random weighted graph with an isolated node, and features."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.rand(n, n, generator=generator, dtype=torch.float64) * (torch.rand(n, n, generator=generator) < 0.4)
    a[:, 3] = a[3] = 0
    a = a if loops else a * (1 - torch.eye(n))
    a = a if directed else (a + a.T) / 2
    src, dst = a.nonzero().T
    return torch.randn(n, 5, generator=generator, dtype=torch.float64), torch.stack((src, dst)), a[src, dst], a


def quadratic_form(x, a, normalization):
    a = (a + a.T) / 2
    degree = a.sum(1)
    if normalization == "none":
        form = torch.diag(degree) - a
    elif normalization == "sym":
        root = torch.diag(degree.pow(-0.5).where(degree > 0, 0))
        form = torch.diag((degree > 0).double()) - root @ a @ root
    else:
        walk = torch.diag(degree.pow(-1).where(degree > 0, 0)) @ a
        form = torch.diag(degree / degree.sum()) @ (torch.eye(len(a)) - walk)
    return torch.trace(x.T @ form @ x)


KINDS = ["none", "sym", "rw"]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_quadratic_form_of_the_laplacian(kind, directed):
    for seed in range(3):
        x, edges, weight, a = graph(seed, directed=directed)
        torch.testing.assert_close(dirichlet_energy(x, edges, kind, weight), quadratic_form(x, a, kind))
        unweighted = dirichlet_energy(x, edges, kind)
        torch.testing.assert_close(unweighted, quadratic_form(x, (a > 0).double(), kind))


def test_by_hand():
    # One edge, both directions: (3 - 1)^2 once; degrees 1; the walk crosses the edge at every step.
    x, edges = torch.tensor([[1.0], [3.0]]), torch.tensor([[0, 1], [1, 0]])
    assert [dirichlet_energy(x, edges, kind).item() for kind in KINDS] == [4.0, 4.0, 2.0]
    # Listed once, it counts half.
    assert dirichlet_energy(x, edges[:, :1]).item() == 2.0


def test_zero_for_the_states_of_full_smoothing():
    _, edges, weight, a = graph()
    ones, roots = torch.ones(12, 2, dtype=torch.float64), a.sum(1).sqrt()[:, None]
    assert dirichlet_energy(ones, edges, "none", weight) == 0
    assert dirichlet_energy(ones, edges, "rw", weight) == 0
    assert dirichlet_energy(roots, edges, "sym", weight) < 1e-28


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_nodes_and_rotation_of_channels_do_not_matter(kind):
    x, edges, weight, _ = graph()
    turn = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)).Q
    order = torch.randperm(12, generator=torch.Generator().manual_seed(2))
    place = torch.empty_like(order).scatter_(0, order, torch.arange(12))
    moved = dirichlet_energy(x[order] @ turn, place[edges], kind, weight)
    torch.testing.assert_close(moved, dirichlet_energy(x, edges, kind, weight))


@pytest.mark.parametrize("kind", KINDS)
def test_scale_is_squared_and_loops_change_no_unnormalised_energy(kind):
    x, edges, weight, _ = graph()
    torch.testing.assert_close(
        dirichlet_energy(3 * x, edges, kind, weight), 9 * dirichlet_energy(x, edges, kind, weight)
    )
    looped = torch.cat((edges, torch.arange(12).expand(2, 12)), dim=1)
    assert (dirichlet_energy(x, looped) == dirichlet_energy(x, edges)).item()


@pytest.mark.parametrize("kind", KINDS)
def test_batch_equals_its_parts(kind, monkeypatch):
    (x, e, w, _), (y, f, v, _) = graph(1), graph(2, n=7)
    parts = torch.stack([dirichlet_energy(x, e, kind, w), dirichlet_energy(y, f, kind, v)])
    batch = torch.tensor([0] * 12 + [1] * 7)
    arguments = torch.cat((x, y)), torch.cat((e, f + 12), dim=1), kind, torch.cat((w, v)), batch
    torch.testing.assert_close(dirichlet_energy(*arguments), parts)
    monkeypatch.setattr(importlib.import_module("graphprism.analysis.collapse.energy"), "_ENTRIES", 17)
    torch.testing.assert_close(dirichlet_energy(*arguments), parts)


def test_no_edges_and_weights_of_zero():
    x, none = torch.randn(3, 2, generator=torch.Generator().manual_seed(0)), torch.zeros(2, 0, dtype=torch.long)
    assert [dirichlet_energy(x, none, kind).item() for kind in ("none", "sym")] == [0, 0]
    assert dirichlet_energy(x, none, "rw").isnan()
    assert dirichlet_energy(x, torch.tensor([[0], [1]]), "sym", torch.zeros(1)) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_not_finite(kind):
    x, edges = torch.tensor([[float("inf")], [0.0]]), torch.tensor([[0, 1], [1, 0]])
    assert dirichlet_energy(x, edges, kind).isnan()


def test_bad_input():
    x, edges = torch.eye(3), torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(ValueError, match=r"`normalization` must be 'none', 'sym' or 'rw', got 'l2'"):
        dirichlet_energy(x, edges, "l2")
    with pytest.raises(ValueError, match=r"`edge_index` must hold numbers in \[0, 3\), got 3"):
        dirichlet_energy(x, torch.tensor([[0], [3]]))
    with pytest.raises(ValueError, match="`edge_weight` must have shape"):
        dirichlet_energy(x, edges, edge_weight=torch.ones(3))
    for bad in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="`edge_weight` must hold numbers that are not negative"):
            dirichlet_energy(x, edges, edge_weight=torch.tensor([bad, 1.0]))
    with pytest.raises(ValueError, match="between two graphs"):
        dirichlet_energy(x, edges, batch=torch.tensor([0, 0, 1]))

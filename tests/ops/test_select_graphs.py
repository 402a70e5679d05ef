import pytest
import torch

from graphprism.ops import RelationalAdj, relational_linear
from graphprism.ops.batches import select_graphs
from graphprism.testing import molecules
from tests.ops.cases import normal

MOLECULES = molecules(6)
SIZES = torch.tensor([graph.num_nodes for graph in MOLECULES])
PTR = torch.cat([torch.zeros(1, dtype=torch.long), SIZES.cumsum(0)])


def make_adj(chosen, weighted=True):
    """The graphs side by side, as PyG batches them, with types and weights that depend on the graph alone."""
    edges, types, weights, shift = [], [], [], 0
    for number in chosen:
        graph = MOLECULES[number]
        generator = torch.Generator().manual_seed(number)
        count = graph.edge_index.size(1)
        edges.append(graph.edge_index + shift)
        types.append(torch.randint(3, (count,), generator=generator))
        weights.append(torch.rand(count, generator=generator, dtype=torch.double))
        shift += graph.num_nodes
    order = torch.randperm(sum(e.size(1) for e in edges), generator=torch.Generator().manual_seed(9))
    edge_weight = torch.cat(weights)[order] if weighted else None
    return RelationalAdj(
        torch.cat(edges, 1)[:, order], torch.cat(types)[order], edge_weight, num_relations=3, num_nodes=shift
    )


@pytest.mark.parametrize("chosen", [[0], [3, 1], [5, 5, 0, 2], [0, 1, 2, 3, 4, 5], []])
@pytest.mark.parametrize("weighted", [True, False])
def test_gives_what_a_fresh_batch_gives(chosen, weighted):
    part = select_graphs(make_adj(range(6), weighted), PTR, torch.tensor(chosen, dtype=torch.long))
    fresh = make_adj(chosen, weighted) if chosen else part
    assert part.size == fresh.size
    x, weight = normal(part.size[0], 3), normal(3, 3, 4)
    for impl in ("csr", "scatter", "reference"):
        ours, theirs = (relational_linear(x, adj, weight, impl=impl) for adj in (part, fresh))
        torch.testing.assert_close(ours, theirs)
        for a, b in zip(*(torch.autograd.grad(y.square().sum(), (x, weight)) for y in (ours, theirs)), strict=True):
            torch.testing.assert_close(a, b)


def test_sorted_structures_are_those_that_sorting_gives():
    part = select_graphs(make_adj(range(6)), PTR, torch.tensor([4, 0]))
    again = RelationalAdj(part.edge_index, part.edge_type, part.edge_weight, num_relations=3, num_nodes=part.size[0])
    for ours, theirs in ((part.incoming, again.incoming), (part.outgoing, again.outgoing)):
        assert ours.rowptr.equal(theirs.rowptr)
        # within a pair the order of entries is free; what an entry holds is not
        assert (
            part.edge_index[:, ours.order].sort(dim=1).values.equal(part.edge_index[:, theirs.order].sort(dim=1).values)
        )
        assert part.edge_type[ours.order].equal(part.edge_type[theirs.order])
        assert ours.pair_col.long().equal(ours.col.long() * 3 + part.edge_type[ours.order])


def test_bad_input():
    adj = make_adj(range(6))
    with pytest.raises(ValueError, match=r"`graphs` must hold numbers in \[0, 6\), got 6"):
        select_graphs(adj, PTR, torch.tensor([6]))
    with pytest.raises(TypeError, match="`graphs` must hold integers"):
        select_graphs(adj, PTR, torch.tensor([0.0]))
    soft = RelationalAdj(adj.edge_index, torch.ones(adj.num_edges, 3), num_nodes=adj.size[0])
    with pytest.raises(ValueError, match="`adj` must have one type per edge"):
        select_graphs(soft, PTR, torch.tensor([0]))

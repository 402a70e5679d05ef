import pytest
import torch
from torch_geometric.data import Batch, Data

from graphprism.ops import RelationalAdj, linear_csr, relational_linear
from graphprism.ops.batches import BlockDiagonal, select_graphs
from graphprism.testing import molecules

GRAPHS = [Data(x=graph.x, edge_index=graph.edge_index) for graph in molecules(6)]
WHOLE = Batch.from_data_list(GRAPHS)
CUTS = {
    "one batch": ([0, 1, 2], [3]),
    "several, out of order, one graph twice": ([5, 0, 0, 3, 1, 2, 4], [3, 1, 3]),
    "a batch without graphs": ([4, 2], [1, 0, 1]),
    "a batch without graphs at both ends": ([4, 2], [0, 2, 0]),
    "nothing": ([], [0]),
}


def make_adj(num_relations=3, weighted=True):
    generator = torch.Generator().manual_seed(1)
    count = WHOLE.num_edges
    shuffled = WHOLE.edge_index[:, torch.randperm(count, generator=generator)]
    types = torch.randint(num_relations, (count,), generator=generator) if num_relations > 1 else None
    weight = torch.rand(count, generator=generator, dtype=torch.double) if weighted else None
    return RelationalAdj(shuffled, types, weight, num_relations=num_relations, num_nodes=WHOLE.num_nodes)


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("num_relations", [1, 3])
@pytest.mark.parametrize("weighted", [True, False])
def test_gives_what_select_graphs_gives(name, num_relations, weighted):
    graphs, lengths = CUTS[name]
    adj, graphs = make_adj(num_relations, weighted), torch.tensor(graphs, dtype=torch.long)
    found = BlockDiagonal(adj, WHOLE.ptr).batches(graphs, lengths)
    assert len(found.adjs) == len(lengths)
    for ours, chosen in zip(found.adjs, graphs.split(lengths), strict=True):
        theirs = select_graphs(adj, WHOLE.ptr, chosen)
        assert (ours.size, ours.num_relations) == (theirs.size, theirs.num_relations)
        for key in ("edge_index", "edge_type", "edge_weight"):
            a, b = getattr(ours, key), getattr(theirs, key)
            assert (a is None and b is None) or a.equal(b)
        for side in ("incoming", "outgoing"):
            a, b = getattr(ours, side), getattr(theirs, side)
            assert all(x.dtype == y.dtype and x.equal(y) for x, y in zip(a.indices, b.indices, strict=True))
            assert a.active_share == b.active_share


@pytest.mark.parametrize("name", CUTS)
def test_bounds_and_numbers_are_those_of_pyg(name):
    graphs, lengths = CUTS[name]
    adj = make_adj()
    found = BlockDiagonal(adj, WHOLE.ptr).batches(torch.tensor(graphs, dtype=torch.long), lengths)
    first = 0
    for number, length in enumerate(lengths):
        nodes, edges, ptr = (
            slice(each[number], each[number + 1]) for each in (found.node_bounds, found.edge_bounds, found.ptr_bounds)
        )
        chosen, first = graphs[first : first + length], first + length
        batch = Batch.from_data_list([GRAPHS[graph] for graph in chosen]) if chosen else None
        assert found.ptr[ptr].tolist() == ([0] if batch is None else batch.ptr.tolist())
        assert found.owner[nodes].tolist() == ([] if batch is None else batch.batch.tolist())
        assert WHOLE.x[found.nodes[nodes]].tolist() == ([] if batch is None else batch.x.tolist())
        # an edge of the batch has the ends of its own edge in the whole
        assert found.nodes[nodes][found.adjs[number].edge_index].equal(adj.edge_index[:, found.edges[edges]])


def test_products_with_a_batch_have_the_gradients_of_the_part():
    adj, graphs = make_adj(), torch.tensor([3, 0, 5])
    (cut,) = BlockDiagonal(adj, WHOLE.ptr).batches(graphs, [3]).adjs
    fresh = RelationalAdj(cut.edge_index, cut.edge_type, cut.edge_weight, num_relations=3, num_nodes=cut.size[0])
    x = torch.randn(cut.size[0], 60, dtype=torch.double, requires_grad=True)
    weight = torch.randn(3, 60, 61, dtype=torch.double, requires_grad=True)
    results = [relational_linear(x, each, weight) for each in (cut, fresh)]
    torch.testing.assert_close(*results)
    torch.testing.assert_close(*(torch.autograd.grad(each.square().sum(), (x, weight)) for each in results))


def test_bad_input():
    adj = make_adj()
    whole = BlockDiagonal(adj, WHOLE.ptr)
    with pytest.raises(ValueError, match=r"`graphs` must hold numbers in \[0, 6\), got 6"):
        whole.batches(torch.tensor([6]), [1])
    with pytest.raises(ValueError, match=r"`graphs` must have shape \[3\], got \[2\]"):
        whole.batches(torch.tensor([0, 1]), [1, 2])
    soft = RelationalAdj(adj.edge_index, torch.ones(adj.num_edges, 3), num_nodes=adj.size[0])
    with pytest.raises(ValueError, match="`adj` must have one type per edge"):
        BlockDiagonal(soft, WHOLE.ptr)


def test_small_batches_are_not_sorted_for_the_fused_kernel(monkeypatch):
    for backends in (linear_csr.FORWARD, linear_csr.BACKWARD):
        monkeypatch.setattr(backends, "kernel_fits", lambda *_: True)
    monkeypatch.setattr(linear_csr, "waits_for_launches", lambda *_: True)
    adj, weight = make_adj(), torch.ones(3, 8, 8)
    (cut,) = BlockDiagonal(adj, WHOLE.ptr).batches(torch.tensor([0, 1]), [2]).adjs

    def chosen(adj):
        x = torch.ones(adj.size[0], 8)
        return linear_csr._forward_name(x, weight, adj), linear_csr.backward_name(x, weight, adj)

    assert chosen(adj) == ("triton", "triton")
    for batch in (cut, cut.with_weight(None), cut.transpose(), select_graphs(adj, WHOLE.ptr, torch.tensor([0]))):
        assert chosen(batch) == ("sums_kept", "all_pairs")
    adj.one_pass = True
    for _ in range(10):
        found = chosen(adj)
    assert found == ("sums_kept", "all_pairs")

import copy
import pickle

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling, NodeSamplerInput
from torch_geometric.utils import to_undirected

from graphprism import check_split
from graphprism.loader import NeighborSampler
from graphprism.loader.counter_random import below, mix, mixed_key
from graphprism.loader.neighbor_sampler import draw_positions
from graphprism.nn import CONVOLUTIONS, GNN
from tests.loader.graphs import small_data


def sample(sampler, *nodes):
    return sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor(nodes)))


def edges_of(out):
    """Sampled edges as numbers of the whole graph, each with the nodes it joins there."""
    return sorted(zip(out.edge.tolist(), out.node[out.row].tolist(), out.node[out.col].tolist(), strict=True))


def edges_below(out, number):
    """The edges of the L-hop neighbourhood that decides the output of a seed, in numbers of the whole graph."""
    reached, found = {number}, set()
    for _ in range(len(out.num_sampled_edges)):
        chosen = [i for i, col in enumerate(out.col.tolist()) if col in reached]
        found |= {int(out.edge[i]) for i in chosen}
        reached |= {int(out.row[i]) for i in chosen}
    return found


def test_mixed_key_is_mix_of_one_word():
    words = [0, 1, 17, 2**40, 2**62]
    assert mix(mixed_key(3), torch.tensor(words)).tolist() == [mixed_key(3, word) for word in words]
    assert mixed_key(0, 1) != mixed_key(1, 0)


def test_below_is_uniform():
    counts = below(mix(mixed_key(1), torch.arange(60_000)), 6).bincount(minlength=6)
    assert float((counts - 10_000).square().sum() / 10_000) < 20.5  # 0.1 % of chi-square with 5 degrees of freedom


def test_draw_positions_takes_every_subset_equally_often():
    keys = mix(mixed_key(2), torch.arange(60_000))
    taken, position = draw_positions(keys, torch.full((60_000,), 5), 3, replace=False)
    assert taken.unique().tolist() == [3]
    subsets = position.view(-1, 3).sort(dim=1).values
    assert bool((subsets.diff(dim=1) > 0).all())
    _, counts = (subsets * torch.tensor([25, 5, 1])).sum(1).unique(return_counts=True)
    assert counts.numel() == 10
    assert float((counts - 6_000).square().sum() / 6_000) < 27.9  # 0.1 %, 9 degrees of freedom


@pytest.mark.parametrize("replace", [False, True])
def test_draw_positions_by_degree(replace):
    degree = torch.tensor([0, 1, 2, 3, 50])
    keys = mix(mixed_key(5), torch.arange(5))
    taken, position = draw_positions(keys, degree, 3, replace)
    assert taken.tolist() == ([0, 3, 3, 3, 3] if replace else [0, 1, 2, 3, 3])
    owner = torch.arange(5).repeat_interleave(taken)
    assert bool((position < degree[owner]).all())
    if not replace:
        assert position[:6].tolist() == [0, 0, 1, 0, 1, 2]
    taken, position = draw_positions(keys, degree, 0, replace)
    assert taken.sum() == position.numel() == 0
    taken, position = draw_positions(keys, degree, -1, replace)
    assert taken.tolist() == degree.tolist()


@pytest.mark.parametrize("direction", ["in", "out", "both"])
@pytest.mark.parametrize("disjoint", [False, True])
def test_sampled_edges_are_edges_of_the_graph(direction, disjoint):
    data = small_data()
    sampler = NeighborSampler(data, [4, 2], direction=direction, disjoint=disjoint)
    out = sample(sampler, 3, 5, 7, 59)
    assert out.node[:4].tolist() == [3, 5, 7, 59]
    assert torch.equal(data.edge_index[:, out.edge], torch.stack([out.node[out.row], out.node[out.col]]))
    assert sum(out.num_sampled_nodes) == out.node.numel()
    assert sum(out.num_sampled_edges) == out.edge.numel()
    if disjoint:
        assert out.batch[:4].tolist() == [0, 1, 2, 3]
        assert torch.equal(out.batch[out.row], out.batch[out.col])
        assert (out.batch * 60 + out.node).unique().numel() == out.node.numel()
    else:
        assert out.batch is None
        assert out.node.unique().numel() == out.node.numel()
        assert out.edge.unique().numel() == out.edge.numel()
    into = torch.bincount(out.col, minlength=out.node.numel())
    if direction == "in":
        degree = torch.bincount(data.edge_index[1], minlength=60)[out.node]
        assert torch.equal(into[:4], degree[:4].clamp(max=4))
        second = slice(4, 4 + out.num_sampled_nodes[1])
        assert torch.equal(into[second], degree[second].clamp(max=2))


def test_seed_sees_the_same_whatever_the_batch():
    data = small_data()
    for disjoint in (False, True):
        hops = [4, 2] if disjoint else [3, 3]
        sampler = NeighborSampler(data, hops, disjoint=disjoint, seed=4)
        together = sample(sampler, *range(40))
        for node in range(40):
            if disjoint:
                mine = together.batch[together.col] == node
                assert sorted(together.edge[mine].tolist()) == sorted(sample(sampler, node).edge.tolist())
            else:
                assert edges_below(together, node) == edges_below(sample(sampler, node), 0)


def test_epoch_and_seed_decide_what_is_sampled():
    data = small_data()
    sampler, other = NeighborSampler(data, [3, 3], seed=1), NeighborSampler(data, [3, 3], seed=2)
    first = edges_of(sample(sampler, 3, 8))
    assert first == edges_of(sample(sampler, 3, 8)) != edges_of(sample(other, 3, 8))
    sampler.set_epoch(1)
    assert edges_of(sample(sampler, 3, 8)) != first
    sampler.set_epoch(0)
    again = pickle.loads(pickle.dumps(sampler))
    assert edges_of(sample(again, 3, 8)) == edges_of(sample(copy.deepcopy(sampler), 3, 8)) == first


def test_seed_that_comes_twice_has_the_same_edges_twice():
    data = small_data()
    sampler = NeighborSampler(data, [3])
    once, twice = sample(sampler, 3, 8), sample(sampler, 3, 8, 3)
    assert twice.node[:3].tolist() == [3, 8, 3]
    assert sorted(twice.edge[twice.col == 2].tolist()) == sorted(once.edge[once.col == 0].tolist())
    with pytest.raises(ValueError, match="`input_nodes` must be different with"):
        sample(NeighborSampler(data, [3], direction="both"), 3, 8, 3)


@pytest.mark.parametrize("disjoint", [False, True])
def test_induced_and_bidirectional_subgraphs(disjoint):
    data = small_data()
    edges = data.edge_index
    for kind in ("induced", "bidirectional"):
        out = sample(NeighborSampler(data, [3, 2], subgraph_type=kind, disjoint=disjoint), 3, 5, 7)
        plain = sample(NeighborSampler(data, [3, 2], disjoint=disjoint), 3, 5, 7)
        assert torch.equal(out.node, plain.node)
        seeds = [0] if not disjoint else [0, 1, 2]
        expected = []
        for seed in seeds:
            nodes = out.node if not disjoint else out.node[out.batch == seed]
            inside = torch.isin(edges, nodes).all(0)
            if kind == "bidirectional":
                mine = plain.col >= 0 if not disjoint else plain.batch[plain.col] == seed
                pairs = {tuple(pair) for pair in edges[:, plain.edge[mine]].t().tolist()}
                pairs |= {pair[::-1] for pair in pairs}
                inside = torch.tensor([tuple(pair) in pairs for pair in edges.t().tolist()])
            expected += inside.nonzero().view(-1).tolist()
        assert sorted(out.edge.tolist()) == sorted(expected)
        assert torch.equal(edges[:, out.edge], torch.stack([out.node[out.row], out.node[out.col]]))
        assert out.num_sampled_nodes is None


# gat-degree counts degrees in every call, of the edges that it sees
OWN = [
    name
    for name, conv in CONVOLUTIONS.items()
    if conv.edge_norm is not None and not conv.takes_edge_attr and name != "gat-degree"
]


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("disjoint", [False, True])
def test_all_neighbours_give_the_output_of_the_whole_graph(name, disjoint):
    conv = CONVOLUTIONS[name]
    norm = "dir" if conv.directed and conv.edge_norm == "dir" else "sym" if conv.edge_norm == "sym" else None
    data = small_data(norm=norm)
    torch.manual_seed(0)
    model = GNN(name, 8, 3, 3, in_channels=5, encode=False, jk="max", start="independent").double().eval()
    weight = data.get("edge_weight")
    expected = model(data.x, data.edge_index, data.edge_type, weight)
    direction = "both" if conv.directed else "in"
    sampler = NeighborSampler(data, [-1, -1, -1], direction=direction, disjoint=disjoint)
    for batch in NodeLoader(data, sampler, batch_size=17):
        check_split(batch)
        out = model(batch.x, batch.edge_index, batch.edge_type, batch.get("edge_weight"))
        torch.testing.assert_close(out[: batch.batch_size], expected[batch.input_id])


@pytest.mark.parametrize(
    "make",
    [lambda i, o: SAGEConv(i, o), lambda i, o: GATConv(i, o), lambda i, o: GCNConv(i, o, normalize=False)],
    ids=["SAGEConv", "GATConv", "GCNConv"],
)
def test_all_neighbours_give_the_output_of_the_whole_graph_with_layers_of_pyg(make):
    data = small_data(norm="sym")
    torch.manual_seed(0)
    first, second = make(5, 8).double(), make(8, 3).double()
    takes_weight = isinstance(first, GCNConv)

    def run(one):
        more = (one.edge_weight,) if takes_weight else ()
        return second(first(one.x, one.edge_index, *more).relu(), one.edge_index, *more)

    expected = run(data)
    for batch in NodeLoader(data, NeighborSampler(data, [-1, -1]), batch_size=17):
        torch.testing.assert_close(run(batch)[: batch.batch_size], expected[batch.input_id])


@pytest.mark.parametrize("filter_per_worker", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_node_loader_options(num_workers, filter_per_worker):
    data = small_data()
    mask = torch.arange(60) % 3 == 0
    sampler = NeighborSampler(data, [3, 3], seed=1)
    options = {"num_workers": num_workers, "filter_per_worker": filter_per_worker, "batch_size": 7}
    if num_workers:
        options |= {"persistent_workers": True, "multiprocessing_context": "fork"}
    loader = NodeLoader(data, sampler, input_nodes=mask, **options)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        found = list(loader)
        assert [batch.batch_size for batch in found] == [7, 7, 6]
        assert torch.cat([batch.input_id for batch in found]).tolist() == list(range(0, 60, 3))
        for batch in found:
            assert torch.equal(batch.n_id[: batch.batch_size], batch.input_id)
            assert torch.equal(batch.x, data.x[batch.n_id])
            assert torch.equal(batch.edge_type, data.edge_type[batch.e_id])
            assert torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])
            assert torch.equal(batch.edge_number, batch.e_id)
            check_split(batch)
            alone = sample(sampler, *batch.n_id[: batch.batch_size].tolist())
            assert torch.equal(alone.edge, batch.e_id)


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
@pytest.mark.parametrize("amount", [1, 2])
def test_link_loader_options(mode, disjoint, amount):
    data = small_data()
    links = data.edge_index[:, 10:40]
    sampler = NeighborSampler(data, [3, 3], disjoint=disjoint, seed=1)
    negatives = None if mode is None else NegativeSampling(mode, amount)
    for batch in LinkLoader(data, sampler, links, neg_sampling=negatives, batch_size=8):
        count = batch.input_id.numel()
        if mode == "triplet":
            found = torch.stack([batch.n_id[batch.src_index], batch.n_id[batch.dst_pos_index]])
            assert batch.dst_neg_index.shape == ((count,) if amount == 1 else (count, amount))
            assert int(batch.n_id[batch.dst_neg_index].max()) < 60
        else:
            found = batch.n_id[batch.edge_label_index[:, :count]]
            size = count * (1 + (0 if mode is None else amount))
            assert batch.edge_label_index.shape == (2, size)
            if mode is not None:
                assert batch.edge_label.tolist() == [1.0] * count + [0.0] * (size - count)
        assert torch.equal(found, links[:, batch.input_id])
        assert torch.equal(batch.edge_type, data.edge_type[batch.e_id])
        if disjoint:
            assert int(batch.batch.max()) < count


def test_negative_links_belong_to_their_link():
    data = small_data()
    sampler = NeighborSampler(data, [2], disjoint=True, seed=1)

    def negatives(numbers):
        numbers = torch.tensor(numbers)
        index = EdgeSamplerInput(numbers, *data.edge_index[:, numbers])
        out = sampler.sample_from_edges(index, NegativeSampling("binary", 1))
        return out.node[out.metadata[1]][:, len(numbers) :].t().tolist()

    assert negatives([4, 9, 30]) == [*negatives([4]), *negatives([9]), *negatives([30])]
    first = negatives([4, 9, 30])
    sampler.set_epoch(1)
    assert negatives([4, 9, 30]) != first
    weights = torch.zeros(60)
    weights[[7, 8]] = torch.tensor([1.0, 3.0])
    index = EdgeSamplerInput(torch.arange(200), *data.edge_index[:, :200])
    out = sampler.sample_from_edges(index, NegativeSampling("triplet", 1, dst_weight=weights))
    drawn = out.node[out.metadata[3]]
    assert drawn.unique().tolist() == [7, 8]
    assert 120 < int((drawn == 8).sum()) < 180


@pytest.mark.parametrize("disjoint", [False, True])
def test_empty_batches_and_graphs(disjoint):
    data = small_data()
    out = NeighborSampler(data, [3, 3], disjoint=disjoint).sample_from_nodes(
        NodeSamplerInput(None, torch.zeros(0, dtype=torch.long))
    )
    assert out.node.numel() == out.edge.numel() == 0
    empty = Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=3)
    for direction in ("in", "both"):
        out = sample(NeighborSampler(empty, [3, 3], disjoint=disjoint, direction=direction), 2, 0)
        assert out.node.tolist() == [2, 0]
        assert out.edge.numel() == 0


def test_sampler_leaves_nothing_behind_after_an_error():
    sampler = NeighborSampler(small_data(), [3])
    first = edges_of(sample(sampler, 3, 4))
    with pytest.raises(ValueError, match="`input_nodes` must hold numbers in \\[0, 60\\), got 60"):
        sample(sampler, 4, 60)
    assert edges_of(sample(sampler, 3, 4)) == first


def test_hubs_of_an_undirected_graph_keep_their_relations():
    edges = to_undirected(small_data().edge_index)
    data = Data(edge_index=edges, num_nodes=60)
    out = sample(NeighborSampler(data, [5, 5], subgraph_type="bidirectional"), 3)
    pairs = set(zip(out.row.tolist(), out.col.tolist(), strict=True))
    assert pairs == {pair[::-1] for pair in pairs}


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"num_neighbors": []}, ValueError, "`num_neighbors` must have numbers of at least 0, or -1 for all, got"),
        ({"num_neighbors": [-2]}, ValueError, "got \\[-2\\]"),
        ({"num_neighbors": 5}, TypeError, "must be a list of whole numbers, one for every hop, got 5"),
        ({"direction": "up"}, ValueError, "`direction` must be one of"),
        ({"subgraph_type": "whole"}, ValueError, "`subgraph_type` must be one of"),
        ({"direction": "both", "replace": True}, ValueError, "`replace` must be False with"),
        ({"data": HeteroData()}, TypeError, "`data.to_homogeneous\\(\\)` gives one"),
        ({"data": (None, None)}, TypeError, "stores are sampled by their own loader"),
        ({"data": Data(num_nodes=3)}, ValueError, "`data.edge_index` must be given, got None"),
        (
            {"data": Data(edge_index=torch.tensor([[0], [3]]), num_nodes=3)},
            ValueError,
            "`data.edge_index` must hold numbers in \\[0, 3\\), got 3",
        ),
    ],
)
def test_bad_arguments_are_said(arguments, error, words):
    given = {"data": small_data(), "num_neighbors": [2], **arguments}
    with pytest.raises(error, match=words):
        NeighborSampler(given.pop("data"), given.pop("num_neighbors"), **given)


def test_time_is_refused():
    sampler = NeighborSampler(small_data(), [2])
    with pytest.raises(ValueError, match="`input_time` must be None, as temporal sampling is not supported"):
        sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([1]), torch.tensor([0])))

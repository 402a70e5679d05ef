"""A stand-in that follows the interface of cuGraph-PyG: stores that are indexed, and a loader over them.

It was read from the documentation and examples of cuGraph-PyG; nothing here ran on its GPUs.
"""

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.graph_store import EdgeAttr, GraphStore

from graphprism.loader import NeighborSampler, merge_relations, put_relations, with_edge_type
from graphprism.nn import GNN
from tests.loader.graphs import small_data
from tests.loader.test_neighbor_sampler import sample

KIND = ("n", "e", "n")


class StandInFeatureStore(dict):
    """``store[group, name, None]`` is a table that is indexed by numbers of rows, and is no tensor."""

    def __setitem__(self, key, tensor):
        super().__setitem__(key, StandInTable(tensor))


class StandInTable:
    def __init__(self, tensor):
        self.tensor = tensor if tensor.dim() == 2 else tensor[:, None]  # columns, as the example flattens them

    def __getitem__(self, rows):
        return self.tensor[rows]


class StandInGraphStore(GraphStore):
    def __init__(self):
        super().__init__()
        self.edges = {}

    def _put_edge_index(self, edge_index, edge_attr):
        self.edges[edge_attr.edge_type] = (edge_index, edge_attr)
        return True

    def _get_edge_index(self, edge_attr):
        return self.edges[edge_attr.edge_type][0]

    def _remove_edge_index(self, edge_attr):
        return self.edges.pop(edge_attr.edge_type) is not None

    def get_all_edge_attrs(self):
        return [attr for _, attr in self.edges.values()]


def homogeneous_loader(data, graph_store, seeds):
    """Batches without relations, as `cugraph_pyg.loader.NeighborLoader` gives them for one type of edges."""
    edges = graph_store.get_edge_index(edge_type=KIND, layout="coo")
    out = sample(NeighborSampler(Data(edge_index=edges, num_nodes=data.num_nodes), [-1, -1]), *seeds)
    yield Data(
        x=data.x[out.node],
        edge_index=torch.stack([out.row, out.col]),
        n_id=out.node,
        e_id=out.edge,
        batch_size=len(seeds),
    )


def relational_loader(data, graph_store, kinds, seeds):
    """Batches with several types of edges: all in-neighbours of two hops, by a search."""
    reached = torch.tensor(seeds)
    for _ in range(2):
        into = [graph_store.get_edge_index(edge_type=kind, layout="coo") for kind in kinds]
        found = torch.cat([edges[0, torch.isin(edges[1], reached)] for edges in into])
        inner, reached = reached, torch.cat([reached, found[~torch.isin(found, reached)].unique()])
    number = torch.full((data.num_nodes,), -1)
    number[reached] = torch.arange(reached.numel())
    batch = HeteroData()
    batch["node"].x, batch["node"].n_id, batch["node"].batch_size = data.x[reached], reached, len(seeds)
    for kind in kinds:
        edges = graph_store.get_edge_index(edge_type=kind, layout="coo")
        chosen = torch.isin(edges[1], inner)
        batch[kind].edge_index, batch[kind].e_id = number[edges[:, chosen]], chosen.nonzero().view(-1)
    yield batch


@pytest.fixture
def model():
    torch.manual_seed(0)
    return GNN("mrs-sage", 8, 3, 2, in_channels=5, encode=False, start="independent").double().eval()


def test_relations_by_the_number_of_an_edge(model):
    data = small_data(norm="sym")
    features, graph = StandInFeatureStore(), StandInGraphStore()
    features[KIND, "edge_type", None] = data.edge_type.to(torch.int32)
    features[KIND, "edge_weight", None] = data.edge_weight
    graph.put_edge_index(data.edge_index, edge_type=KIND, layout="coo", size=(60, 60))
    expected = model(data.x, data.edge_index, data.edge_type)
    for batch in homogeneous_loader(data, graph, [3, 5, 8]):
        batch = with_edge_type(batch, features[KIND, "edge_type", None], features[KIND, "edge_weight", None])
        assert torch.equal(batch.edge_type, data.edge_type[batch.e_id])
        assert torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])
        out = model(batch.x, batch.edge_index, batch.edge_type)[: batch.batch_size]
        torch.testing.assert_close(out, expected[[3, 5, 8]])
        again = with_edge_type(batch, data.edge_type)
        assert torch.equal(again.edge_type, data.edge_type[batch.e_id])


def test_relations_as_types_of_edges_of_a_store(model):
    data, graph = small_data(norm=None), StandInGraphStore()
    kinds = put_relations(graph, data, 3)
    assert kinds == [("node", f"relation_{relation}", "node") for relation in range(3)]
    assert [attr.size for attr in graph.get_all_edge_attrs()] == [(60, 60)] * 3
    assert isinstance(graph.get_all_edge_attrs()[0], EdgeAttr)
    expected = model(data.x, data.edge_index, data.edge_type)
    for batch in relational_loader(data, graph, kinds, [3, 5, 8]):
        merged = merge_relations(batch, kinds)
        out = model(merged.x, merged.edge_index, merged.edge_type)[: merged.batch_size]
        torch.testing.assert_close(out, expected[[3, 5, 8]])


def test_relation_without_an_edge_has_its_number_still():
    data, graph = small_data(norm=None), StandInGraphStore()
    data.edge_type = torch.where(data.edge_type == 1, 2, data.edge_type)
    del data.split_rule  # relations of another source
    kinds = put_relations(graph, data, 3)
    batch = HeteroData()
    batch["node"].x = data.x
    for kind in kinds:
        edges = graph.get_edge_index(edge_type=kind, layout="coo")
        if edges.size(1):  # loaders leave out types without edges
            batch[kind].edge_index = edges
            batch[kind].edge_attr = torch.ones(edges.size(1), 2)
    merged = merge_relations(batch, kinds)
    assert merged.edge_attr.shape == (data.num_edges, 2)
    assert torch.equal(merged.edge_type.bincount(), data.edge_type.bincount())


def test_bad_batches_are_said():
    with pytest.raises(ValueError, match=r"`batch\.e_id` must be given"):
        with_edge_type(Data(edge_index=torch.zeros(2, 3, dtype=torch.long)), torch.zeros(3))
    with pytest.raises(TypeError, match="`batch` must be a HeteroData"):
        merge_relations(Data(), [("a", "b", "a")])
    with pytest.raises(ValueError, match="`kinds` must join nodes of one type, got \\['a', 'b'\\]"):
        merge_relations(HeteroData(), [("a", "to", "b")])

"""Split files read back: as a graph, and by PyG's interfaces for remote backends."""

import numpy as np
import pytest
import torch
from torch_geometric.data import EdgeAttr, HeteroData
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput

import graphprism as gp
from graphprism.io import GraphFileError, read_graph, remote_backend
from graphprism.streaming import EdgeFileError, split_file
from tests.streaming.cases import in_memory, random_edges, write

pytest.importorskip("pyarrow")


@pytest.fixture
def columns():
    return random_edges()


@pytest.fixture
def path(columns, tmp_path):
    write(tmp_path / "in.parquet", columns)
    return split_file(tmp_path / "in.parquet", tmp_path / "out.parquet", "degree").path


def test_read_graph_reads_types(path, columns):
    graph = read_graph(path)
    assert graph.edge_index.tolist() == [columns["source"].tolist(), columns["target"].tolist()]
    assert torch.equal(graph.edge_type, in_memory(columns, "degree"))
    assert (graph.num_nodes, graph.name) == (60, "out.parquet")
    assert gp.certify(graph).num_relations == 3
    with pytest.raises(GraphFileError, match="`undirected` must be given when the edges are split"):
        read_graph(path, undirected=True)


def test_read_graph_refuses_a_damaged_split(path):
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(EdgeFileError, match="the checksum of row group 0 does not match"):
        read_graph(path)


def test_relation_store_has_an_edge_type_for_each_relation(path, columns):
    _, graph_store = remote_backend(path)
    edge_type = in_memory(columns, "degree")
    ends = torch.from_numpy(np.stack([columns["source"], columns["target"]]))
    row, col, _ = graph_store.coo()
    assert list(row) == [("node", name, "node") for name in ("up", "down", "tie")]
    for number, key in enumerate(row):
        expected = ends[:, edge_type == number]
        assert torch.equal(torch.stack([row[key], col[key]]), expected)
        found = graph_store.get_edge_index(edge_type=key, layout="coo")
        assert torch.equal(torch.stack(found), expected)


def test_relation_store_converts_to_the_layouts_of_heterodata(path, columns):
    _, graph_store = remote_backend(path)
    hetero, types = HeteroData(), in_memory(columns, "degree")
    hetero["node"].num_nodes = 60
    for number, name in enumerate(("up", "down", "tie")):
        ends = np.stack([columns["source"], columns["target"]])[:, types.numpy() == number]
        hetero["node", name, "node"].edge_index = torch.from_numpy(ends)
    for layout in ("csc", "csr"):
        ours, theirs = getattr(graph_store, layout)(), getattr(hetero, layout)()
        for mine, other in zip(ours[:2], theirs[:2], strict=True):
            assert all(torch.equal(mine[key], other[key]) for key in other)
    key = ("node", "up", "node")
    with pytest.raises(KeyError, match="not found"):
        graph_store.get_edge_index(edge_type=key, layout="csc")
    graph_store.csc(store=True)
    assert torch.equal(graph_store.get_edge_index(edge_type=key, layout="csc")[1], hetero.csc()[1][key])
    assert graph_store.remove_edge_index(EdgeAttr(key, "csc"))
    with pytest.raises(KeyError, match="not found"):
        graph_store.get_edge_index(edge_type=("node", "sideways", "node"), layout="coo")


class AllNeighbours(BaseSampler):
    """Every edge into a seed, of each relation; nodes are the seeds, then their neighbours."""

    def __init__(self, graph_store):
        self.row, self.col, _ = graph_store.coo()

    def sample_from_edges(self, index, neg_sampling=None):
        raise NotImplementedError

    def sample_from_nodes(self, index):
        seeds = index.node
        parts = {key: torch.isin(self.col[key], seeds) for key in self.row}
        others = torch.cat([self.row[key][kept] for key, kept in parts.items()])
        node = torch.cat([seeds, others[~torch.isin(others, seeds)].unique()])
        number = torch.full((int(node.max()) + 1,), -1).scatter_(0, node, torch.arange(node.numel()))
        return HeteroSamplerOutput(
            node={"node": node},
            row={key: number[self.row[key][kept]] for key, kept in parts.items()},
            col={key: number[self.col[key][kept]] for key, kept in parts.items()},
            edge={key: kept.nonzero().flatten() for key, kept in parts.items()},
            metadata=(index.input_id, index.time),
        )


def test_remote_backend_feeds_a_node_loader(path, columns, tmp_path):
    x = np.random.default_rng(0).random((60, 5))
    np.save(tmp_path / "x.npy", x)
    backend = remote_backend(path, x=tmp_path / "x.npy", y=torch.arange(60))
    seeds = torch.arange(0, 60, 3)
    loader = NodeLoader(backend, AllNeighbours(backend[1]), input_nodes=("node", seeds), batch_size=7)
    types, seen = in_memory(columns, "degree").numpy(), 0
    for batch in loader:
        nodes = batch["node"].y
        np.testing.assert_array_equal(batch["node"].x.numpy(), x[nodes.numpy()])
        for number, name in enumerate(("up", "down", "tie")):
            source, target = nodes[batch["node", name, "node"].edge_index]
            mine = (types == number) & np.isin(columns["target"], nodes[: batch["node"].batch_size].numpy())
            found = sorted(zip(source.tolist(), target.tolist(), strict=True))
            assert found == sorted(zip(columns["source"][mine], columns["target"][mine], strict=True))
            seen += len(found)
    assert seen == np.isin(columns["target"], seeds.numpy()).sum()


def test_remote_backend_says_what_must_hold(path, columns, tmp_path):
    with pytest.raises(ValueError, match="`x` must have a row for each of 60 nodes, got 3"):
        remote_backend(path, x=torch.zeros(3, 1))
    sparse = split_file(tmp_path / "in.parquet", tmp_path / "sparse.parquet", "degree", sparse_ids=True).path
    with pytest.raises(ValueError, match="must be numbers from 0, got sparse ids"):
        remote_backend(sparse)

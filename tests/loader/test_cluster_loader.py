import sys

import pytest
import torch
from torch_geometric.data import Data

from graphprism import check_split
from graphprism.loader import ClusterLoader, partition
from graphprism.transforms import SplitEdges
from tests.loader.graphs import small_data


def blocks(num_blocks=4, size=20, seed=0):
    """Dense blocks of nodes, joined by few edges; nodes of a block are far from each other in their numbers."""
    generator = torch.Generator().manual_seed(seed)
    within = torch.randint(size, (2, 12 * size * num_blocks), generator=generator)
    block = torch.randint(num_blocks, (within.size(1),), generator=generator)
    bridges = torch.randint(num_blocks * size, (2, 3), generator=generator)
    edges = torch.cat([within * num_blocks + block, bridges], dim=1)
    data = Data(x=torch.randn(num_blocks * size, 3, generator=generator), edge_index=edges)
    return SplitEdges("degree")(data), torch.arange(num_blocks * size) % num_blocks


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_are_induced_subgraphs_with_their_relations(num_workers):
    data = small_data()
    parts = torch.arange(60) % 7
    more = {"num_workers": num_workers, "multiprocessing_context": "fork"} if num_workers else {}
    seen = []
    for batch in ClusterLoader(data, 7, parts, batch_size=3, shuffle=True, **more):
        check_split(batch)
        inside = torch.isin(data.edge_index, batch.n_id).all(0).nonzero().view(-1)
        assert torch.equal(batch.e_id.sort().values, inside)
        assert torch.equal(batch.edge_type, data.edge_type[batch.e_id])
        assert torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.cluster, parts[batch.n_id])
        seen += batch.n_id.tolist()
    assert sorted(seen) == list(range(60))


def test_passes_are_epochs_that_processes_share():
    data, parts = small_data(), torch.arange(60) % 10
    options = {"batch_size": 4, "shuffle": True, "seed": 1}
    loader = ClusterLoader(data, 10, parts, **options)
    first, second = ([batch.n_id.tolist() for batch in loader] for _ in range(2))
    assert first != second
    loader.set_epoch(0)
    assert [batch.n_id.tolist() for batch in loader] == first
    halves = [list(ClusterLoader(data, 10, parts, rank=rank, ranks=2, **options)) for rank in range(2)]
    assert [torch.cat([a.n_id, b.n_id]).tolist() for a, b in zip(*halves, strict=True)] == first


def test_partition_finds_blocks():
    pytest.importorskip("pymetis")
    data, block = blocks()
    parts = partition(data.edge_index, 80, 4)
    assert parts.bincount().tolist() == [20] * 4
    assert all(parts[block == each].unique().numel() == 1 for each in range(4))
    loader = ClusterLoader(data, 4)
    assert loader.kept_edges > 0.99
    assert len(list(loader)) == 4


def test_partition_of_graphs_without_edges_and_of_one_part():
    pytest.importorskip("pymetis")
    none = torch.zeros(2, 0, dtype=torch.long)
    assert partition(none, 5, 2).tolist() == [0, 1, 0, 1, 0]
    assert partition(torch.tensor([[0, 1], [0, 1]]), 2, 2).tolist() == [0, 1]
    assert partition(torch.tensor([[0], [1]]), 2, 1).tolist() == [0, 0]


def test_missing_pymetis_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(ImportError, match=r'a partition by METIS needs pymetis: pip install "graphprism\[full\]"'):
        partition(torch.tensor([[0], [1]]), 2, 2)


def test_bad_parts_are_said():
    with pytest.raises(ValueError, match=r"`parts` must have shape \[60\], got \[3\]"):
        ClusterLoader(small_data(), 2, torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"`parts` must hold numbers in \[0, 2\), got 2"):
        ClusterLoader(small_data(), 2, torch.full((60,), 2))

"""The tiles of a graph that kernels read: every entry once, in the row of its node, where its relation begins."""

import pytest
import torch

from graphprism.ops import RelationalAdj
from graphprism.ops.row_orders import ROW_ENTRIES, TILE_ROWS, NodeTiles


def graph(num_relations, hub=0, num_nodes=70, num_edges=200):
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(num_nodes - 10, (2, num_edges), generator=generator)
    edges = torch.cat(
        [edges, torch.stack([torch.randint(num_nodes, (hub,), generator=generator), torch.full((hub,), 5)])], 1
    )
    types = torch.randint(num_relations, (edges.size(1),), generator=generator)
    return RelationalAdj(edges, types, num_relations=num_relations, num_nodes=num_nodes)


def entries_of(tiles, num_relations):
    """(node, relation, other node, index) of all slots that are used, read as a kernel reads them."""
    found = []
    for row, node in enumerate(tiles.node.tolist()):
        tile, lane = divmod(row, TILE_ROWS)
        begin = 0
        for relation in range(num_relations):
            end = int(tiles.ends[relation // 4, row]) >> 8 * (relation % 4) & 255
            if end > begin:
                assert int(tiles.active[relation // 4, tile]) >> relation % 4 & 1
            for k in range(begin, end):
                slot = int(tiles.start[tile]) + k * TILE_ROWS + lane
                assert slot < int(tiles.start[tile + 1])
                found.append((node, relation, int(tiles.col[slot]), int(tiles.order[slot])))
            begin = end
        assert begin <= ROW_ENTRIES
    return found


@pytest.mark.parametrize("num_relations", [1, 3, 4, 5, 9])
@pytest.mark.parametrize("hub", [0, 60, 64, 65, 200])
@pytest.mark.parametrize("may_sync", [True, False])
def test_every_entry_once(num_relations, hub, may_sync):
    adj = graph(num_relations, hub)
    tiles = NodeTiles.build(adj.incoming, may_sync)
    src, dst, types = (*adj.edge_index.tolist(), adj.edge_type.tolist())
    expected = sorted(zip(dst, types, src, range(len(src)), strict=True))
    assert sorted(entries_of(tiles, num_relations)) == expected


@pytest.mark.parametrize("hub", [0, 200])
@pytest.mark.parametrize("may_sync", [True, False])
def test_every_node_has_one_row_and_hubs_further_pieces(hub, may_sync):
    tiles = NodeTiles.build(graph(3, hub).incoming, may_sync)
    whole = tiles.target < 70
    assert sorted(tiles.target[whole].tolist()) == list(range(70))
    assert tiles.target[whole].equal(tiles.node[whole])
    assert sorted(tiles.target[~whole].tolist()) == list(range(70, 70 + tiles.num_pieces))
    ranges = torch.stack([tiles.hub, tiles.hub_begin, tiles.hub_end]).t().tolist()
    ranges = [(node, begin, end) for node, begin, end in ranges if begin < end]
    assert [node for node, _, _ in ranges] == ([5] if hub else [])
    for node, begin, end in ranges:
        pieces = (tiles.target >= 70 + begin) & (tiles.target < 70 + end)
        assert set(tiles.node[pieces].tolist()) == {node}
        used = ((tiles.ends[-1] >> 24) & 255) > 0
        assert (pieces & used).sum() == (used & ~whole).sum()  # no piece of the hub is left out


def test_rows_of_a_tile_have_about_equally_many_entries_and_the_same_relations():
    tiles = NodeTiles.build(graph(3, 200, num_nodes=2000, num_edges=8000).incoming)
    length = (tiles.ends[0] >> 24) & 255
    assert (length.diff() <= 0).all()  # the longest first
    assert tiles.col.numel() <= 1.15 * int(length.sum())
    used = sum(int((tiles.active[0] >> r & 1).sum()) for r in range(3)) / (3 * tiles.num_tiles)
    pairs = float((graph(3, 200, num_nodes=2000, num_edges=8000).incoming.rowptr.diff() > 0).float().mean())
    assert used < pairs + 0.15  # with rows in any order all relations of nearly all tiles would be used


@pytest.mark.parametrize("num_relations", [1, 3, 5, 6])
def test_only_relations_of_the_graph_are_active(num_relations):
    tiles = NodeTiles.build(graph(num_relations, 200).incoming)
    assert int(tiles.active[-1].max()) < 2 ** ((num_relations - 1) % 4 + 1)


@pytest.mark.parametrize("may_sync", [True, False])
@pytest.mark.parametrize("num_nodes", [0, 3])
def test_a_graph_without_edges(num_nodes, may_sync):
    tiles = NodeTiles.build(RelationalAdj(torch.zeros(2, 0, dtype=torch.long), num_nodes=num_nodes).incoming, may_sync)
    assert tiles.num_tiles == min(num_nodes, 1)
    assert tiles.num_pieces == 0

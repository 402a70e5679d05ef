import pytest
import torch

from graphprism.ops import EDGE_NORMS, RelationalAdj
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.ops.batched.padded_products import Columns
from tests.ops.cases import GRAPHS
from tests.ops.tables import both, both_of, entry_of_edge

EDGES = torch.tensor([[0, 2, 1, 1], [1, 1, 0, 2]])
ADJ = RelationalAdj(EDGES, torch.tensor([0, 1, 2, 0]), torch.tensor([0.5, 2.0, 3.0, 4.0]), num_relations=3, num_nodes=3)


def test_by_hand():
    table = PaddedAdj.build(ADJ, dtype=torch.float64)
    assert (table.num_slots, table.size, table.num_relations, table.norm, table.node_mask) == (
        2,
        (3, 3),
        3,
        "none",
        None,
    )
    columns = Columns(table.numbers, table.weights)
    # node 1 receives from 0 by relation 0 and from 2 by relation 1; empty slots name their own node
    assert columns.sender_pair.tolist() == [[1 * 3 + 2, 0], [0 * 3 + 0, 2 * 3 + 1], [1 * 3 + 0, 2 * 3]]
    assert columns.relation.tolist() == [[2, 0], [0, 1], [0, 0]]
    assert columns.weight.tolist() == [[3, 0], [0.5, 2], [4, 0]]
    assert columns.receiver.tolist() == [[1, 0], [2, 0], [1, 2]] or columns.receiver.tolist() == [
        [1, 0],
        [0, 2],
        [1, 2],
    ]
    first = columns.receiver[1].tolist().index(0)  # which of its two edges a node sends first is not said
    assert columns.sent_weight[1, first] == 3
    assert columns.sent_weight[1, 1 - first] == 4
    assert columns.sent_relation[1, first] == 2
    assert columns.entry[1, first] == 0
    assert columns.entry[1, 1 - first] == 4
    assert columns.entry[2].tolist() == [3, 4]
    assert table.slot_mask.tolist() == [[True, False], [True, True], [True, False]]
    assert table.entry_relation.tolist() == columns.relation.tolist()
    assert table.edge_weight is None
    assert table.numbers.dtype == torch.int32


@pytest.mark.parametrize("norm", EDGE_NORMS)
@pytest.mark.parametrize("name", GRAPHS)
def test_holds_every_edge_once_in_both_directions(name, norm):
    adj, table = both_of(name, norm)
    columns = Columns(table.numbers.long(), table.weights)
    entry = entry_of_edge(adj, table)
    assert entry.unique().numel() == adj.src.numel()
    assert columns.sender_pair.flatten()[entry].equal(adj.src * 3 + adj.relation)
    assert columns.relation.flatten()[entry].equal(adj.relation.long())
    assert columns.weight.flatten()[entry].equal(adj.edge_weight)
    assert columns.weight.flatten().count_nonzero() == adj.edge_weight.count_nonzero()
    # an edge that is sent becomes the entry it says, with the same relation, receiver and weight
    held = torch.zeros(table.size[0] * table.num_slots, dtype=torch.bool).index_fill(0, entry, True)
    sent = torch.zeros_like(columns.entry, dtype=torch.bool)
    for node in range(table.size[0]):
        sent[node, : int((adj.src == node).sum())] = True
    becomes = columns.entry[sent]
    assert becomes.sort().values.equal(held.nonzero().flatten())
    assert columns.receiver[sent].equal(becomes // table.num_slots)
    assert columns.sent_relation[sent].equal(columns.relation.flatten()[becomes])
    assert columns.sent_weight[sent].equal(columns.weight.flatten()[becomes])
    assert (sent.nonzero()[:, 0]).equal(columns.sender_pair.flatten()[becomes] // 3)
    # empty slots name their own node and weigh nothing
    own = torch.arange(table.size[0])[:, None].expand(-1, table.num_slots)
    assert columns.receiver[~sent].equal(own[~sent])
    assert not columns.sent_weight[~sent].any()
    assert (columns.sender_pair // 3)[~held.view(own.shape)].equal(own[~held.view(own.shape)])
    assert (columns.entry // table.num_slots)[~sent].equal(own[~sent])


def test_one_slot_where_there_is_no_edge():
    assert both_of("no-edges")[1].num_slots == 1
    assert both_of("no-nodes")[1].size == (0, 0)


def test_as_many_slots_as_the_busiest_sender_needs():
    star = RelationalAdj(torch.tensor([[0, 0, 0], [1, 2, 3]]), num_relations=1, num_nodes=4)
    for adj in (star, star.transpose()):
        table = PaddedAdj.build(adj)
        assert table.num_slots == 3
        assert table.weights.sum() == 6


def test_rows_of_a_relative_table_are_the_graph_wherever_it_stands():
    nodes, types = 3, torch.tensor([0, 1, 2, 0])
    twice = RelationalAdj(torch.cat([EDGES, EDGES + nodes], 1), types.repeat(2), num_relations=3, num_nodes=2 * nodes)
    alone = PaddedAdj.build(RelationalAdj(EDGES, types, num_relations=3, num_nodes=nodes))
    relative = PaddedAdj.build(twice).relative()
    assert relative.base.tolist() == [3, 3, 1, 1, 2, 2, 0, 0, 0, 0]
    place = torch.arange(nodes, dtype=torch.int32)[:, None]
    for rows in (slice(nodes), slice(nodes, None)):
        assert (relative.numbers[rows] + place * relative.base).equal(alone.numbers)
        assert relative.weights[rows].equal(alone.weights)


def test_to_moves_all_of_it():
    table = PaddedAdj(*(both(1)[1].__dict__[name] for name in ("numbers", "weights")), 3, "sym", torch.ones(31))
    there = table.to("meta")
    assert {each.device.type for each in (there.numbers, there.weights, there.node_mask)} == {"meta"}
    assert (there.num_relations, there.norm) == (3, "sym")
    assert both(1)[1].to("meta").node_mask is None


def test_asking_for_other_weights_is_an_error():
    table = both(1)[1]
    assert table.normalized("sym") is table
    with pytest.raises(ValueError, match="`norm` must be 'sym', which the tables were built with, got 'mean'"):
        table.normalized("mean")


def test_bad_input():
    soft = RelationalAdj(EDGES, torch.rand(4, 3), num_relations=3, num_nodes=3)
    two_sides = RelationalAdj(EDGES, torch.zeros(4, dtype=torch.long), num_relations=3, num_nodes=(3, 4))
    for adj in (soft, two_sides):
        with pytest.raises(ValueError, match="`adj` must have one type per edge and as many sources as targets"):
            PaddedAdj.build(adj)


@pytest.mark.parametrize("types", [None, torch.tensor([0, 1, 2, 0])])
def test_table_adj_builds_from_int32(types):
    size = {"num_relations": 1 if types is None else 3, "num_nodes": 3}
    narrow = RelationalAdj(EDGES.int(), None if types is None else types.int(), **size)
    ours, expected = PaddedAdj.build(narrow), PaddedAdj.build(RelationalAdj(EDGES, types, **size))
    assert ours.numbers.equal(expected.numbers)
    assert ours.weights.equal(expected.weights)

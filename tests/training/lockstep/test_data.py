from dataclasses import replace

import torch

from graphprism.datasets import molecules
from graphprism.ops.batched.padded_products import Columns
from graphprism.training import Run
from graphprism.training.lockstep.data import TableDataset
from graphprism.training.prepared_data import PreparedDataset
from tests.datasets.small_sets import three_graphs
from tests.training.lockstep.eager import CPU

RUN = Run(layers=2, width=6, model="mrs-gated-gcn", precision="float64")


def make(run=RUN, dataset=None):
    return TableDataset(run, dataset or three_graphs(), CPU, torch.float64)


def test_rows_by_hand():
    # graphs of 2, 3 and 1 nodes, and number 3, which is none; node 6 is the one that fills up
    data = make()
    assert data.no_graph == 3
    rows = data.rows(torch.tensor([[1, 3, 0], [2, 1, 2]]), 7)
    assert rows.node.tolist() == [[2, 3, 4, 0, 1, 6, 6], [5, 2, 3, 4, 5, 6, 6]]
    assert rows.owner.tolist() == [[0, 0, 0, 2, 2, -1, -1], [0, 1, 1, 1, 2, -1, -1]]
    shaped = data.rows(torch.tensor([[[2], [0]]]), 2)
    assert shaped.node.tolist() == [[[5, 6], [0, 1]]]


def test_more_graphs_than_a_short_number_counts():
    data = make()
    rows = data.rows(torch.full((1, 40_000), 2), 40_001)
    assert rows.owner[0, [0, 39_999, 40_000]].tolist() == [0, 39_999, -1]


def test_inputs_by_hand():
    data = make()
    inputs = data.inputs(data.rows(torch.tensor([[1, 3, 0]]), 7))
    assert inputs.x.flatten().tolist() == [2, 0, 27, 0, 1, 0, 0]
    assert inputs.owner.tolist() == [[0, 0, 0, 2, 2, -1, -1]]
    assert inputs.is_node.tolist() == [[True] * 5 + [False] * 2]
    columns = Columns(inputs.numbers[0], inputs.weights[0])
    # edges of the second graph: 1 - 2; of the first: 0 - 1
    assert (columns.sender_pair // 3).flatten().tolist() == [0, 2, 1, 4, 3, 5, 6]
    assert columns.weight.flatten().tolist() == [0, 1, 1, 1, 1, 0, 0]
    assert columns.entry.flatten().tolist() == [0, 2, 1, 4, 3, 5, 6]
    assert inputs.edge_attr[0, :5, 0].flatten().tolist() == [0, 3, 3, 1, 1]
    assert inputs.pe is None


def test_what_the_model_does_not_take_is_left_out():
    inputs = [
        make(replace(RUN, **change)).inputs(make().rows(torch.tensor([[0]]), 2))
        for change in ({"model": "mrs-gcn"}, {"model": "mrs-gcn", "norm": "batch"}, {"model": "mrs-gcn", "pe": 2})
    ]
    assert [each.edge_attr is None for each in inputs] == [True] * 3
    assert [each.is_node is None for each in inputs] == [True, False, True]
    assert [each.pe is None for each in inputs] == [True, True, False]
    assert inputs[2].pe.shape == (1, 2, 2)


def test_batches_are_those_of_the_prepared_data_set():
    run, dataset = replace(RUN, pe=3), molecules(30)
    data, graphs = make(run, dataset), torch.tensor([[4, 29, 0, 11], [7, 7, 1, 2]])
    inputs = data.inputs(data.rows(graphs, 130))
    for number in range(2):
        (batch,) = PreparedDataset(run, dataset).batches(graphs[number], 4)
        nodes, edges = batch.x.size(0), batch.adj.incoming.order.long()
        assert inputs.x[number, :nodes].equal(batch.x)
        assert inputs.pe[number, :nodes].equal(batch.pe)
        assert inputs.owner[number, :nodes].equal(batch.owner.int())
        assert inputs.owner[number, nodes:].unique().tolist() == [-1]
        columns = Columns(inputs.numbers[number], inputs.weights[number])
        there = columns.weight != 0
        assert there[nodes:].sum() == 0
        # entries stand in the order of the sorted edges
        assert (columns.sender_pair[there] // 3).equal(batch.adj.src[edges].int())
        assert columns.relation[there].equal(batch.adj.relation[edges].int())
        assert inputs.edge_attr[number][there].equal(batch.edge_attr[edges])


def test_the_first_nodes_of_every_batch():
    data = make(replace(RUN, pe=2))
    graphs = torch.tensor([[[1], [0]], [[2], [1]]])
    inputs = data.inputs(data.rows(graphs.flatten(0, 1), 6)).unflatten((2, 2))
    parts = [each for each in inputs.cut(3).tensors()[:-1] if each is not None]
    wholes = [each for each in inputs.tensors()[:-1] if each is not None]
    for tensor, whole in zip(parts, wholes, strict=True):
        assert tensor.size(2) == 3
        assert tensor.equal(whole[:, :, :3])
    assert inputs.map(lambda each: each[0]).x.equal(inputs.x[0])


def test_nodes_that_send_by_the_same_relations_stand_together():
    data = make(replace(RUN, model="mrs-gcn"), molecules(30))
    graphs = torch.tensor([[4, 29, 0, 11], [7, 7, 1, 2]])
    rows = data.rows(graphs, 130)
    sorted_rows = data.together(rows)
    inputs = data.inputs(sorted_rows)
    columns = Columns(inputs.numbers, inputs.weights)
    sends = torch.stack([((columns.sent_weight != 0) & (columns.sent_relation == r)).any(-1) for r in range(3)], -1)
    for run in range(2):
        # every set of relations is one block, nodes without edges are the last
        blocks = torch.unique_consecutive(sends[run], dim=0).tolist()
        assert len(blocks) == len({tuple(block) for block in blocks}) > 3
        assert blocks[-1] == [False] * 3
        assert sorted(sorted_rows.node[run].tolist()) == sorted(rows.node[run].tolist())
        bits = [sum(1 << r for r in range(3) if part[:, r].any()) for part in sends[run].split(64)]
        assert inputs.active[run].tolist() == bits


def test_the_order_of_rows_changes_no_edge():
    run, dataset = replace(RUN, model="mrs-gcn"), molecules(30)
    data, graphs = make(run, dataset), torch.tensor([[4, 29, 0, 11], [7, 7, 1, 2]])
    rows = data.rows(graphs, 130)
    plain, ordered = data.inputs(rows), data.inputs(data.together(rows))
    place = data.together(rows).place
    assert plain.active is None
    assert ordered.x.squeeze(-1).equal(plain.x.squeeze(-1).gather(1, place))
    assert ordered.owner.equal(plain.owner.gather(1, place))
    for number in range(2):
        found = []
        for inputs, name in ((plain, torch.arange(130)), (ordered, place[number])):
            table = Columns(inputs.numbers[number], inputs.weights[number])
            slots = table.weight.size(1)
            here, there = table.weight != 0, table.sent_weight != 0
            own = name[:, None].expand(-1, slots)
            received = {
                (int(name[pair // 3]), int(pair % 3), int(node), float(weight))
                for pair, node, weight in zip(table.sender_pair[here], own[here], table.weight[here], strict=True)
            }
            sent = {
                (int(node), int(relation), int(name[to]), float(weight))
                for node, relation, to, weight in zip(
                    own[there], table.sent_relation[there], table.receiver[there], table.sent_weight[there], strict=True
                )
            }
            entries = {
                (int(node), int(name[entry // slots]), int(entry % slots))
                for node, entry in zip(own[there], table.entry[there], strict=True)
            }
            assert len(received) == int(here.sum())
            found.append((received, sent, entries))
        assert found[0] == found[1]
        assert found[0][0] == found[0][1]  # what is sent is received


def test_a_plain_graph_keeps_its_order():
    data = make(replace(RUN, model="gcn"))
    rows = data.rows(torch.tensor([[1, 3, 0]]), 7)
    assert data.together(rows) is rows
    assert data.inputs(rows).active is None

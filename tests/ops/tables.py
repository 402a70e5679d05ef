"""Graphs as `RelationalAdj` and as `PaddedAdj`, for the tests of what works on tables."""

import torch

from graphprism.ops import RelationalAdj
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.splitting import by_order
from graphprism.testing import molecules
from tests.ops.cases import GRAPHS

# What an op must never let through from a slot that holds no edge.
NOTHING = float("nan")


def both(count=3, norm="sym", num_relations=3):
    """The same molecules twice."""
    parts = molecules(count)
    shift, edges, types = 0, [], []
    for graph in parts:
        edges.append(graph.edge_index + shift)
        types.append(by_order("degree")(graph))
        shift += graph.num_nodes
    edge_type = torch.cat(types) if num_relations == 3 else None
    adj = RelationalAdj(torch.cat(edges, 1), edge_type, num_relations=num_relations, num_nodes=shift)
    return adj.normalized(norm, torch.float64), PaddedAdj.build(adj, norm, torch.float64)


def both_of(name, norm="none", num_relations=3):
    """A graph of the zoo twice, with relations drawn at random."""
    graph = GRAPHS[name]
    types = torch.randint(num_relations, graph.edge_index.shape[1:], generator=torch.Generator().manual_seed(1))
    adj = RelationalAdj(graph.edge_index, types, num_relations=num_relations, num_nodes=graph.num_nodes)
    return adj.normalized(norm, torch.float64), PaddedAdj.build(adj, norm, torch.float64)


def entry_of_edge(adj, table):
    """(E,) the entry of the table that holds each edge."""
    start, order = adj.incoming.node_rowptr.long(), adj.incoming.order.long()
    row = torch.repeat_interleave(torch.arange(start.numel() - 1), start.diff())
    entry = row * table.num_slots + torch.arange(row.numel()) - start[row]
    return torch.empty_like(entry).index_copy_(0, order, entry)


def to_entries(rows, adj, table):
    """Rows of edges at the places of their entries; empty ones hold `NOTHING`."""
    empty = rows.new_full((table.size[0] * table.num_slots, *rows.shape[1:]), NOTHING)
    return empty.index_copy(0, entry_of_edge(adj, table), rows)


def repeated(table, count):
    """Numbers and weights of a table for several runs, each of them its own copy."""
    return tuple(each.expand(count, *each.shape).contiguous() for each in (table.numbers, table.weights))

"""A mini-batch out of a prepared data set: nothing is sorted again."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_integer, check_range, check_shape
from graphprism.ops.csr import Csr
from graphprism.ops.relational_adj import RelationalAdj


def select_graphs(adj: RelationalAdj, ptr: Tensor, graphs: Tensor) -> RelationalAdj:
    r"""Takes whole graphs out of a block-diagonal ``adj``, in the order asked for, as one block-diagonal graph again.

    Graph ``g`` has the nodes ``ptr[g]`` to ``ptr[g + 1] - 1``, as PyG's `Batch` numbers them, and no edge leaves it.
    The edges of the result are sorted by receiver. Time grows with the graphs chosen, not with the data set.

    Shapes: ``ptr`` (G + 1,), ``graphs`` (B,)

    Example:
        >>> edges = torch.tensor([[0, 1, 2], [1, 0, 2]])  # graph 0: nodes 0 and 1; graph 1: node 2 with a loop
        >>> adj = RelationalAdj(edges, num_nodes=3)
        >>> select_graphs(adj, torch.tensor([0, 2, 3]), torch.tensor([1, 1, 0])).edge_index.tolist()
        [[0, 1, 3, 2], [0, 1, 2, 3]]
    """
    check_shape("ptr", ptr, ["G + 1"])
    check_shape("graphs", graphs, ["B"])
    check_integer("graphs", graphs)
    check_range("graphs", graphs, ptr.numel() - 1)
    if adj.is_soft or adj.size[0] != adj.size[1]:
        raise ValueError("`adj` must have one type per edge and as many sources as targets to be cut into graphs")
    num_relations, incoming, outgoing = adj.num_relations, adj.incoming, adj.outgoing
    # the entries of graph g stand in one run, and in the same run whether sorted by receiver or by sender
    entry_ptr = incoming.rowptr[ptr * num_relations].long()
    nodes, entries = _Runs(ptr, graphs), _Runs(entry_ptr, graphs)
    pairs = _Runs(ptr * num_relations, graphs)
    node_shift = torch.repeat_interleave(nodes.shift, entries.count)
    old_edge = incoming.order[entries.old].long()
    edge_index = adj.edge_index[:, old_edge] + node_shift
    edge_type = None if adj.edge_type is None else adj.edge_type[old_edge]
    edge_weight = None if adj.edge_weight is None else adj.edge_weight[old_edge]
    new_place = adj.place_in_incoming[outgoing.order[entries.old].long()] + entries.shift_of_all
    orders = (torch.arange(old_edge.numel(), device=adj.device), new_place)
    cut = [
        _cut(csr, pairs, entries, node_shift, order) for csr, order in zip((incoming, outgoing), orders, strict=True)
    ]
    return RelationalAdj.from_sorted(edge_index, edge_type, edge_weight, int(nodes.old.numel()), *cut)


class _Runs:
    """Runs ``ptr[g]`` to ``ptr[g + 1] - 1`` of the graphs chosen, put one after another."""

    def __init__(self, ptr: Tensor, graphs: Tensor) -> None:
        start, self.count = ptr[graphs], ptr[graphs + 1] - ptr[graphs]
        self.shift = self.count.cumsum(0) - self.count - start  # new number minus old number, per graph
        self.shift_of_all = torch.repeat_interleave(self.shift, self.count)
        self.old = torch.arange(self.shift_of_all.numel(), device=ptr.device) - self.shift_of_all


def _cut(csr: Csr, pairs: _Runs, entries: _Runs, node_shift: Tensor, order: Tensor) -> Csr:
    rowptr = csr.rowptr[pairs.old] + torch.repeat_interleave(entries.shift, pairs.count)
    rowptr = torch.cat([rowptr, rowptr.new_tensor([order.numel()])])
    col = csr.col[entries.old] + node_shift
    pair_col = csr.pair_col[entries.old] + node_shift * csr.num_relations
    dtype = csr.col.dtype
    return Csr(rowptr.to(dtype), col.to(dtype), pair_col.to(dtype), order.to(dtype), csr.num_relations)

"""The general definition: the MRS form of any message-passing layer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch_geometric.nn import Aggregation, MeanAggregation, SumAggregation

from graphprism._checks import check_function
from graphprism.nn.conv.operands import (
    Nodes,
    check_edge_rows,
    check_features,
    check_is_no_count,
    check_relations,
    resolved_aggregation,
    split_nodes,
    to_adj,
)
from graphprism.nn.conv.relational_conv import RelationalConv, graph_by_edge
from graphprism.nn.conv.relational_modules import RelationalModules
from graphprism.nn.conv.relational_weight import DECAY
from graphprism.ops import Coefficients, RelationalAdj, edge_norm


class MRSConv(RelationalConv):
    r"""Any message-passing layer, with one message function per relation and one aggregation over all of them.

    .. math:: \mathbf{x}'_i = \phi \Big( \mathbf{x}_i, \bigoplus_{e = (j, i)} w_e \,
        \psi_{r(e)} (\mathbf{x}_i, \mathbf{x}_j, \mathbf{e}_e) \Big)

    where :math:`\psi_1, \dots, \psi_R` are the message functions, :math:`\bigoplus` is any of PyG's aggregations and
    :math:`\phi` combines. With soft types the message of an edge is :math:`\sum_r s_{er} \psi_r`. Use it for layers
    that have no class of their own here; `MRSGCNConv` and the others are faster.

    Args:
        message: makes one message function, a module called with the rows of receiver and sender, and of the edge if
            ``edge_attr`` is given: ``message(x_i, x_j)`` or ``message(x_i, x_j, edge_attr)``, in this order whatever
            the names are; PyG's names in another order are refused.
        aggr: name or module of a PyG aggregation: ``"sum"``, ``"mean"``, ``"max"``, ``"softmax"``, ...
        combine: called with receivers and aggregated messages; `None` returns the messages alone.
        num_relations: number of relations R.
        start: ``"shared"`` starts all relations with equal parameters; ``"independent"`` makes one message function
            for each. See `RelationalParameter`.
        decay: how strongly a shared start ties the relations to their common weights, 0 for not at all.
        deviation: ``"full"``, or ``"diagonal"`` to scale the rows of each matrix, the output channels of a
            `torch.nn.Linear`; vectors deviate in full. See `RelationalParameter`.

    Shapes: ``x`` (N, F_in) or a pair, ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R), ``edge_weight`` (E,),
    ``edge_attr`` (E, D) -> the shape that ``combine`` returns; ``edge_index`` may be a `RelationalAdj`. With several
    relations, each message function runs on the edges of its relation, which needs a host-device sync; compiled, it
    runs on all edges, so that batch statistics inside a message function differ.

    Example:
        >>> class Difference(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.lin = torch.nn.Linear(8, 4)
        ...     def forward(self, x_i, x_j):
        ...         return self.lin(x_j - x_i)
        >>> conv = MRSConv(Difference, num_relations=3, aggr="max")
        >>> edges, types = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.tensor([0, 1, 2])
        >>> conv(torch.randn(3, 8), edges, types).shape
        torch.Size([3, 4])
    """

    edge_norm = "none"

    def __init__(
        self,
        message: Callable[[], torch.nn.Module],
        aggr: str | Aggregation = "sum",
        combine: Callable[[Tensor, Tensor], Tensor] | None = None,
        *,
        num_relations: int = 3,
        start: str = "shared",
        decay: float = DECAY,
        deviation: str = "full",
    ) -> None:
        super().__init__()
        check_is_no_count("aggr", aggr, 'an aggregation of PyG or the name of one ("sum", "mean")')
        self.num_relations = num_relations
        self.messages = RelationalModules("message", message, num_relations, start, decay, deviation)
        _check_order(self.messages.each[0])
        if combine is not None:
            check_function("combine", combine, "None or a function of receivers and aggregated messages")
        self.aggr = resolved_aggregation("aggr", aggr)
        self.combine = combine

    def forward(
        self,
        x: Nodes,
        edge_index: Tensor | RelationalAdj,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """One layer; see the class for shapes."""
        adj = to_adj(x, edge_index, edge_type, edge_weight, self.num_relations)
        x_src, x_dst = split_nodes(x)
        check_features(x, None, None)
        if edge_attr is not None:
            check_edge_rows(edge_attr, adj)
        messages = self._messages(adj, [x_dst, x_src, *([] if edge_attr is None else [edge_attr])])
        if self.is_by_edge:
            graph_by_edge(x_src, adj)
            out = self.sum_by_edge((x_src, x_dst), adj, messages, weight=adj.edge_weight)
        else:
            # int64: PyG expands this index, and torch computes wrong gradients with an expanded int32 index
            out = self.aggregate(self.message(messages, adj.edge_weight), adj.edge_index[1].long(), adj.size[1])
        return out if self.combine is None else self.combine(x_dst, out)

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int | None = None) -> Tensor:
        """The aggregation of the messages at their receivers."""
        out: Tensor = self.aggr(inputs, index, dim_size=dim_size)
        return out

    def _messages(self, adj: RelationalAdj, rows: list[Tensor]) -> Tensor:
        """The message of every edge, (E, F), from rows of receivers and of senders and maybe of edges."""
        functions = self.messages.functions()
        sorts = not (adj.edge_type is None or adj.is_soft or torch.compiler.is_compiling() or adj.edge_type.is_meta)
        if sorts:
            return self._by_relation(adj, functions, rows)
        src, dst = adj.edge_index
        parts = [rows[0].index_select(0, dst), rows[1].index_select(0, src), *rows[2:]]
        if adj.edge_type is None:
            one: Tensor = functions[0](*parts)
            return one
        if adj.is_soft:
            return torch.stack([adj.edge_type[:, r, None] * psi(*parts) for r, psi in enumerate(functions)]).sum(0)
        # edges per relation are not known when compiling: each function runs on all edges
        stack = torch.stack([psi(*parts) for psi in functions])  # (R, E, F)
        return stack[adj.edge_type.long(), torch.arange(stack.size(1), device=stack.device)]

    def _by_relation(
        self, adj: RelationalAdj, functions: Sequence[Callable[..., Tensor]], rows: list[Tensor]
    ) -> Tensor:
        """The same with each function on the edges of its relation."""
        # sorted once, then split: a mask or a gather per relation would cost R passes over the edges, also in backward
        edges = adj.edges_by_relation
        # rows are read in that order at once: sorted afterwards, they would be copied twice, also in backward
        read = (edges.edge_index[1], edges.edge_index[0], edges.order)
        sorted_rows = [each.index_select(0, index) for each, index in zip(rows, read, strict=False)]
        cut = zip(*(each.split(edges.counts) for each in sorted_rows), strict=True)
        found = [psi(*parts) for psi, parts in zip(functions, cut, strict=True)]
        return torch.cat(found).index_select(0, edges.place)

    def coefficients(self, adj: RelationalAdj) -> Coefficients:
        """The weights of messages on a graph, for a sum or a mean, for `graphprism.certify`."""
        check_relations(adj, self.num_relations)
        if type(self.aggr) not in (SumAggregation, MeanAggregation):
            return Coefficients(
                type(self).__name__, unproven=f"{type(self.aggr).__name__} is no sum of messages with fixed weights"
            )
        note = (
            "It is proven if every message function is linear in the row of the sender and reads no other row, and it "
            "is about the aggregated messages, before `combine`."
        )
        if type(self.aggr) is MeanAggregation:
            # a mean over messages divides by the number of edges, not by their total weight
            share = edge_norm(adj.edge_index, adj.size, "mean", dtype=torch.float64)
            adj = adj.with_weight(share if adj.edge_weight is None else share * adj.edge_weight.detach())
        return Coefficients(type(self).__name__, (adj,), notes=(note,))

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"num_relations={self.num_relations}"


def _check_order(message: torch.nn.Module) -> None:
    """Raises if a message function has PyG's names, by which PyG passes rows, in another order than ours."""
    names = [each.name for each in inspect.signature(message.forward).parameters.values()]
    known = ("x_i", "x_j", "edge_attr")
    if set(names) <= set(known) and tuple(names) != known[: len(names)]:
        raise ValueError(f"`message` must take ({', '.join(known)}) in this order, got ({', '.join(names)})")

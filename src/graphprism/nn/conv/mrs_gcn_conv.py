"""MRS-GCN."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from graphprism._checks import check_choice, check_flag
from graphprism.nn.conv.operands import (
    Nodes,
    Prepared,
    check_is_no_count,
    check_relations,
    split_nodes,
    to_adj,
    zeros_parameter,
)
from graphprism.nn.conv.relational_conv import RelationalConv, graph_by_edge, sender_rows_by_edge
from graphprism.nn.conv.relational_weight import DECAY, RelationalWeight
from graphprism.nn.conv.self_loops import (
    check_takes_loops,
    weight_with_loops,
    with_remaining_loops,
    with_weighted_loops,
)
from graphprism.ops import EDGE_NORMS, Coefficients, RelationalAdj
from graphprism.ops.mixed_linear import biased_linear, mixed_linear


class MRSGCNConv(RelationalConv):
    r"""Graph convolution with one weight matrix per relation (MRS-GCN).

    .. math:: \mathbf{x}'_i = \mathbf{b} + \sum_{r} \sum_{j \in \mathcal{N}_r(i)} c_{ji} \mathbf{W}_r^\top \mathbf{x}_j

    where :math:`\mathcal{N}_r(i)` are the nodes with an edge of relation :math:`r` to :math:`i` and :math:`c_{ji}` is
    the coefficient of that edge: ``edge_weight`` if given, else :math:`1 / \sqrt{d_j d_i}` with the in-degrees of the
    whole graph. One relation is PyG's ``GCNConv(add_self_loops=False)``. As in the paper, and unlike in PyG, no
    self-loops are added by default.

    On a directed graph this default **silences edges**: an edge whose sender :math:`j` has in-degree 0 gets coefficient
    0. ``edge_norm="dir"`` uses the out-degree of the sender, :math:`1 / \sqrt{d^{out}_j d^{in}_i}`, and silences none;
    on undirected graphs both are the same. `graphprism.certify` counts silenced edges.

    Args:
        in_channels: size of an input row, or ``-1`` to take it from the first input.
        out_channels: size of an output row.
        improved: whether added self-loops have weight 2, not 1, on a graph with ``edge_weight``, as in PyG's layer.
        cached: whether to cache the normalised graph of the first call for all later calls, whatever their arguments,
            as PyG's layer does; `reset_parameters` clears it.
        add_self_loops: whether to add a self-loop to each node without one before normalisation, as PyG's layer does.
            All self-loops are then in the last relation, R - 1 (the ties of `by_order`). A `RelationalAdj` caches the
            graph with self-loops. A sparse tensor gets one at every node, on top of its own, as in PyG.
        normalize: `None` normalises unless ``edge_weight`` is given (with ``add_self_loops`` always); `True` always
            does, on top of the weights, as PyG's layer; `False` never does.
        edge_norm: how to normalise, a kind of `graphprism.ops.edge_norm`: ``"sym"``, or ``"dir"`` for directed graphs.
        bias: whether to learn :math:`\mathbf{b}`.
        num_relations: number of relations R.
        start: ``"shared"`` starts as the plain layer, with equal weights in all relations; ``"independent"``, as in the
            paper, draws the weights of each relation. See `RelationalParameter`.
        decay: how strongly a shared start ties the relations to their common weights, 0 for not at all.
        deviation: difference of a relation from the common weights: ``"full"`` is a matrix, ``"diagonal"`` one factor
            per output channel, with few parameters. See `RelationalParameter`.

    Shapes: ``x`` (N, F_in), ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R), ``edge_weight`` (E,) -> (N, F_out);
    ``edge_index`` may be a `RelationalAdj`, which then holds types and weights. ``x`` may have one leading batch
    dimension.

    Example:
        >>> conv = MRSGCNConv(8, 4, num_relations=3)
        >>> edges, types = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.tensor([0, 1, 2])
        >>> conv(torch.randn(3, 8), edges, types).shape
        torch.Size([3, 4])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        improved: bool = False,
        cached: bool = False,
        add_self_loops: bool = False,
        normalize: bool | None = None,
        bias: bool = True,
        *,
        num_relations: int = 3,
        edge_norm: str = "sym",
        start: str = "shared",
        decay: float = DECAY,
        deviation: str = "full",
    ) -> None:
        super().__init__()
        check_choice("edge_norm", edge_norm, EDGE_NORMS)
        self.in_channels, self.out_channels, self.num_relations = in_channels, out_channels, num_relations
        check_is_no_count("improved", improved, "True or False")
        check_choice("normalize", normalize, (None, True, False))
        for name, flag in (
            ("improved", improved),
            ("cached", cached),
            ("add_self_loops", add_self_loops),
            ("bias", bias),
        ):
            check_flag(name, flag)
        if add_self_loops and normalize is False:
            raise ValueError("`normalize` must be None or True with `add_self_loops`, got False")
        self.improved, self.cached, self.add_self_loops = improved, cached, add_self_loops
        self._cached_graph: Prepared | None = None
        self.normalize, self.edge_norm = normalize, edge_norm
        self.lin = RelationalWeight(in_channels, out_channels, num_relations, "glorot", start, decay, deviation)
        self.bias = zeros_parameter(out_channels, bias)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self._cached_graph = None
        self.lin.reset_parameters()
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(
        self,
        x: Nodes,
        edge_index: Tensor | Prepared,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """One layer; see the class for shapes."""
        check_takes_loops(edge_index, self.add_self_loops)
        adj = self._cached_graph or to_adj(x, edge_index, edge_type, edge_weight, self.num_relations)
        if self.add_self_loops and isinstance(edge_index, Tensor) and edge_index.layout != torch.strided:
            adj = self._with_loops_of_sparse(adj, split_nodes(x)[0].dtype)
        return self.messages(x, adj, bias=self.bias)

    def summands(
        self,
        x: Nodes,
        edge_index: Tensor | Prepared,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> tuple[Tensor, None, Tensor | None]:
        """The terms of `forward`, unsummed, so that callers can fuse the addition: messages, `None`, and the bias."""
        adj = self._cached_graph or to_adj(x, edge_index, edge_type, edge_weight, self.num_relations)
        return self.messages(x, adj), None, self.bias

    def messages(self, x: Nodes, adj: Prepared, share: float = 1.0, bias: Tensor | None = None) -> Tensor:
        """The sums of messages times ``share``, plus ``bias``; scales the matrices, not the rows."""
        x_src, x_dst = split_nodes(x)
        adj = self._cached_graph or self._normalized(adj, x_src.dtype)
        if self.cached:
            self._cached_graph = adj
        if share == 1 and not self.is_by_edge and (mixture := self.lin.mixture()) is not None:
            return mixed_linear(x_src, adj, mixture, bias)
        weight = self.lin(x_src)
        weight = weight if share == 1 else share * weight
        if self.is_by_edge:
            adj = graph_by_edge(x_src, adj)
            rows = sender_rows_by_edge(x_src, adj, weight)
            out = self.sum_by_edge((x_src, x_dst), adj, rows, weight=adj.edge_weight)
            return out if bias is None else out + bias
        return biased_linear(x_src, adj, weight, bias)

    def _normalized(self, adj: Prepared, dtype: torch.dtype) -> Prepared:
        if not self._normalizes(adj):
            return adj
        if self.add_self_loops:
            # PyG's edge masks have an entry for each edge that is no self-loop, and one for each node
            with_loops = with_remaining_loops if self.is_by_edge else partial(with_weighted_loops, dtype=dtype)
            adj = with_loops(adj, self.fill_value)
        return adj.normalized(self.edge_norm, dtype)

    def _with_loops_of_sparse(self, adj: Prepared, dtype: torch.dtype) -> Prepared:
        if self._cached_graph is not None:
            return adj
        assert isinstance(adj, RelationalAdj)
        weight = weight_with_loops(adj.edge_index, adj.edge_weight, self.fill_value, dtype)
        return adj if weight is adj.edge_weight else adj.with_weight(weight)

    @property
    def fill_value(self) -> float:
        """Weight of the self-loops that ``add_self_loops`` adds."""
        return 2.0 if self.improved else 1.0

    def _normalizes(self, adj: Prepared) -> bool:
        if self.normalize is None:
            return adj.edge_weight is None or self.add_self_loops
        return self.normalize

    def coefficients(self, adj: RelationalAdj) -> Coefficients:
        """The coefficients :math:`c` on a graph, in float64, for `graphprism.certify`."""
        check_relations(adj, self.num_relations)
        norm = self.edge_norm if self._normalizes(adj) else "none"
        if self.add_self_loops:
            adj = with_remaining_loops(adj, self.fill_value)
        weighted = adj if norm == "none" else adj.normalized(norm, torch.float64)
        return Coefficients(type(self).__name__, (weighted,), norm=norm, channels=self.out_channels)

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}"

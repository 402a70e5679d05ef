"""MRS-SAGE."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter, is_lazy
from torch_geometric.nn.dense import Linear

from graphprism._checks import check_flag, check_positive
from graphprism.nn.conv.operands import (
    Nodes,
    Prepared,
    check_features,
    check_is_no_count,
    check_relations,
    pair_of_channels,
    split_nodes,
    to_adj,
)
from graphprism.nn.conv.relational_conv import RelationalConv, graph_by_edge, sender_rows_by_edge
from graphprism.nn.conv.relational_weight import DECAY, RelationalWeight
from graphprism.ops import Coefficients, RelationalAdj, relational_linear


class MRSSAGEConv(RelationalConv):
    r"""GraphSAGE with one weight matrix per relation for the neighbours (MRS-SAGE).

    .. math:: \mathbf{x}'_i = \mathbf{b} + \mathbf{W}^\top \mathbf{x}_i
        + \sum_{r} \sum_{j \in \mathcal{N}_r(i)} c_{ji} \mathbf{W}_r^\top \mathbf{x}_j

    where :math:`c_{ji}` is ``edge_weight`` if given, else :math:`1 / d_i` with the in-degree of the whole graph, or 1
    for ``aggr="sum"``; with ``weighted_mean`` given weights are those of the mean, :math:`c_{ji} = w_{ji} / \sum_k
    w_{ki}`. One relation is PyG's ``SAGEConv``.

    Args:
        in_channels: size of an input row, a pair (senders, receivers) for a bipartite graph, ``-1`` to take a size from
            the first input.
        out_channels: size of an output row.
        aggr: ``"mean"`` over all neighbours, whatever their relation, or ``"sum"``.
        normalize: whether to L2-normalise every output row.
        root_weight: whether to add :math:`\mathbf{W}^\top \mathbf{x}_i`.
        project: whether to pass the senders through a linear map and ReLU first.
        bias: whether to learn :math:`\mathbf{b}`.
        init: initialisation of matrices: ``"kaiming_uniform"`` as in PyG's layer, or ``"glorot"`` as in the code of the
            paper's authors; the bias is initialised as in PyG's layer.
        weighted_mean: whether ``aggr="mean"`` divides a given ``edge_weight`` by its sum at the receiver; by default
            given weights are the coefficients as they are.
        num_relations: number of relations R.
        start: ``"shared"`` starts as the plain layer, with equal weights in all relations; ``"independent"``, as in the
            paper, draws the weights of each relation. See `RelationalParameter`.
        decay: how strongly a shared start ties the relations to their common weights, 0 for not at all.
        deviation: difference of a relation from the common weights: ``"full"`` is a matrix, ``"diagonal"`` one factor
            per output channel, with few parameters. See `RelationalParameter`.

    Shapes: ``x`` (N, F_in) or a pair, ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R), ``edge_weight`` (E,)
    -> (N, F_out); ``edge_index`` may be a `RelationalAdj`. ``x`` may have one leading batch dimension.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        aggr: str = "mean",
        normalize: bool = False,
        root_weight: bool = True,
        project: bool = False,
        bias: bool = True,
        *,
        num_relations: int = 3,
        init: str = "kaiming_uniform",
        weighted_mean: bool = False,
        start: str = "shared",
        decay: float = DECAY,
        deviation: str = "full",
    ) -> None:
        super().__init__()
        if init not in ("kaiming_uniform", "glorot"):
            raise ValueError(f'`init` must be "kaiming_uniform" or "glorot", got {init!r}')
        for name, flag in (
            ("normalize", normalize),
            ("root_weight", root_weight),
            ("project", project),
            ("bias", bias),
            ("weighted_mean", weighted_mean),
        ):
            check_flag(name, flag)
        check_is_no_count("aggr", aggr, '"mean" or "sum"')
        norms = {"mean": "mean", "sum": "none", "add": "none"}
        if not isinstance(aggr, str) or aggr not in norms:
            raise ValueError(f'`aggr` must be "mean" or "sum" (for others use MRSConv), got {aggr!r}')
        self.in_channels, self.out_channels, self.num_relations = in_channels, out_channels, num_relations
        self.edge_norm, self.normalize, self.weighted_mean = norms[aggr], normalize, weighted_mean
        src, dst = pair_of_channels(in_channels)
        check_positive("out_channels", out_channels)
        self.project = _SquareLinear(src) if project else None
        self.lin = RelationalWeight(src, out_channels, num_relations, init, start, decay, deviation)
        self.lin_root = Linear(dst, out_channels, bias=False, weight_initializer=init) if root_weight else None
        self.bias = torch.nn.Parameter(torch.empty(out_channels)) if bias else None
        self._register_load_state_dict_pre_hook(_rename_pyg)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights, as PyG does for its SAGE."""
        for module in (self.project, self.lin, self.lin_root):
            if module is not None:
                module.reset_parameters()
        self._reset_bias()

    def _reset_bias(self) -> None:
        if self.bias is not None:
            bound = 1 / math.sqrt(max(1, self.lin.in_channels))
            torch.nn.init.uniform_(self.bias, -bound, bound)

    def forward(
        self,
        x: Nodes,
        edge_index: Tensor | Prepared,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """One layer; see the class for shapes."""
        adj = to_adj(x, edge_index, edge_type, edge_weight, self.num_relations)
        x_src, x_dst = split_nodes(x)
        check_features(x, self.project or self.lin, self.lin_root, leading=True, sparse=True)
        norm = self._norm_of(adj)
        adj = adj if norm == "none" else adj.normalized(norm, x_src.dtype)
        message = x_src if self.project is None else self.project(x_src).relu()
        was_lazy = self.lin.is_waiting
        weight = self.lin(message)
        if was_lazy:  # the range of the bias depends on the input size, known only now
            self._reset_bias()
        if self.is_by_edge:
            adj = graph_by_edge(x_src, adj)
            rows = sender_rows_by_edge(message, adj, weight)
            out = self.sum_by_edge((x_src, x_dst), adj, rows, weight=adj.edge_weight)
        else:
            out = relational_linear(message, adj, weight)
        if self.lin_root is not None:
            out = out + self.lin_root(x_dst)
        if self.bias is not None:
            out = out + self.bias
        return torch.nn.functional.normalize(out, p=2.0, dim=-1) if self.normalize else out

    def _norm_of(self, adj: Prepared) -> str:
        return self.edge_norm if adj.edge_weight is None or self.weighted_mean else "none"

    def coefficients(self, adj: RelationalAdj) -> Coefficients:
        """The coefficients :math:`c` on a graph, in float64, for `graphprism.certify`."""
        check_relations(adj, self.num_relations)
        if self.project is not None:
            return Coefficients(
                type(self).__name__, unproven="the ReLU behind `project=True` can make all messages zero"
            )
        norm = self._norm_of(adj)
        weighted = adj if norm == "none" else adj.normalized(norm, torch.float64)
        root = self.lin_root is not None
        return Coefficients(type(self).__name__, (weighted,), root=root, norm=norm, channels=self.out_channels)

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}"


class _SquareLinear(Linear):  # type: ignore[misc]
    """PyG's linear map with as many outputs as inputs; ``-1`` takes both from the first input, unlike PyG's."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels, bias=channels > 0)
        if channels <= 0:
            self.bias = UninitializedParameter()

    def initialize_parameters(self, module: torch.nn.Module, input: tuple[Any, ...]) -> None:
        self._materialize_bias(input[0].size(-1))
        super().initialize_parameters(module, input)

    def _materialize_bias(self, channels: int) -> None:
        if isinstance(self.bias, UninitializedParameter):
            self.out_channels = channels
            self.bias.materialize((channels,))

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        lazy = isinstance(self.bias, UninitializedParameter)
        super()._save_to_state_dict(destination, prefix, keep_vars or lazy)  # a lazy parameter cannot be detached

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        saved = state_dict.get(f"{prefix}bias")
        if saved is not None and is_lazy(saved):
            self.out_channels, self.bias = -1, UninitializedParameter()
        elif saved is not None:
            self._materialize_bias(saved.numel())
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _rename_pyg(state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Loads states of PyG's ``SAGEConv``, ``lin`` of which projects, and of its ``GraphConv``."""
    sage = {
        "lin.weight": "project.weight",
        "lin.bias": "project.bias",
        "lin_l.weight": "lin.weight",
        "lin_l.bias": "bias",
        "lin_r.weight": "lin_root.weight",
    }
    graph = {"lin_rel.weight": "lin.weight", "lin_rel.bias": "bias"}
    for first, names in (("lin_l.weight", sage), ("lin_rel.weight", graph)):
        if f"{prefix}{first}" in state:
            found = {new: state.pop(f"{prefix}{old}", None) for old, new in names.items()}
            state.update({f"{prefix}{new}": value for new, value in found.items() if value is not None})

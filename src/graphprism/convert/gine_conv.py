"""What `to_mrs` makes of PyG's ``GINEConv`` without ``edge_dim``."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graphprism.nn.conv.mrs_gcne_conv import UNPROVEN, edge_rows
from graphprism.nn.conv.mrs_gin_conv import MRSGINConv
from graphprism.nn.conv.mrs_gine_conv import received_rows
from graphprism.nn.conv.operands import Nodes, Prepared, check_features, check_relations, input_map, split_nodes, to_adj
from graphprism.ops import Coefficients, RelationalAdj
from graphprism.ops.batched.batched_linear import batched_linear


class GINENetworkConv(MRSGINConv):
    r"""Graph isomorphism layer with edge features whose network has one first matrix per relation.

    .. math:: \mathbf{x}'_i = h \Big( (1 + \epsilon) \, \mathbf{W}^\top \mathbf{x}_i
        + \sum_{r} \mathbf{W}_r^\top \sum_{e = (j, i),\, r(e) = r} \max(0, \mathbf{x}_j + \mathbf{a}_e) \Big)

    where :math:`\mathbf{W}` is the first map of the network, :math:`h` the rest of it and :math:`\mathbf{a}_e` are the
    features of the edge, as wide as those of nodes. `MRSGINConv` has the arguments, and ``start="independent"``;
    `MRSGINEConv` is the layer with a network of two maps.

    Shapes: ``x`` (N, F_in) or a pair, ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R), ``edge_attr`` (E, F_in) ->
    (N, F_out)
    """

    def forward(
        self,
        x: Nodes,
        edge_index: Tensor | Prepared,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """One layer; see the class for shapes."""
        adj = to_adj(x, edge_index, edge_type, edge_weight, self.num_relations)
        x_src, x_dst = split_nodes(x)
        network: Any = self.nn if self.nns is None else self.nns.each[0]
        check_features(x, *[input_map(network)] * 2)
        if edge_attr is None:
            raise ValueError("`edge_attr` must be given for a GINEConv, got None")
        if not edge_attr.is_floating_point():  # as PyG's addition does
            edge_attr = edge_attr.to(x_src.dtype)
        received = received_rows(self, x_src, x_dst, adj, edge_rows(edge_attr, x_src.size(-1), None, adj))
        if self.nns is not None:
            return self._sum_of_networks(received, x_dst)
        weight: Any = network.get_submodule(self._first).weight.t()
        matrices = weight[None] if self.deviation is None else self.together(weight, self.deviation)
        messages = batched_linear(received.flatten(1), matrices.flatten(0, 1).T, None)
        return self._network_of((1 + self.eps).to(x_dst.dtype) * x_dst, messages)

    def plain_maps(self) -> None:
        """None: edges are read."""

    def coefficients(self, adj: RelationalAdj) -> Coefficients:
        """Why `graphprism.certify` proves nothing: messages are not linear in the rows of senders."""
        check_relations(adj, self.num_relations)
        return Coefficients("GINEConv", unproven=UNPROVEN)

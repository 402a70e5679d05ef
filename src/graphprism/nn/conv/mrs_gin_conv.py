"""MRS-GIN."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from graphprism._checks import check_finite_number, check_flag
from graphprism.nn.conv.operands import (
    Nodes,
    Prepared,
    check_features,
    check_relations,
    input_map,
    one_for_each_relation,
    split_nodes,
    to_adj,
)
from graphprism.ops import Coefficients, RelationalAdj, relational_aggregate


class MRSGINConv(torch.nn.Module):
    r"""A sum of graph isomorphism layers, one on the edges of each relation (MRS-GIN).

    .. math:: \mathbf{x}'_i = \sum_{r} h_r \Big( (1 + \epsilon_r) \, \mathbf{x}_i
        + \sum_{j \in \mathcal{N}_r(i)} w_{ji} \, \mathbf{x}_j \Big)

    where :math:`h_r` is the network of relation :math:`r` and :math:`w_{ji}` is ``edge_weight``, else one. One relation
    is PyG's ``GINConv``. With more, equal networks are the plain layer only if they are linear: the sum over relations
    stands outside of :math:`h`. Every network sees every node, so that time and memory grow with N R, where those of
    the other layers grow with the edges.

    Args:
        nn: makes one network, ``lambda: MLP([64, 64, 64])`` for instance; called once for every relation.
        num_relations: number of relations R.
        eps: the first value of every :math:`\epsilon_r`.
        train_eps: whether to learn them.
        share_init: all relations start from the same network.

    Shapes: ``x`` (N, F_in) or a pair (senders, receivers), ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R),
    ``edge_weight`` (E,) -> (N, F_out); ``edge_index`` may be a `RelationalAdj`. A leading dimension of ``x`` is carried
    along.
    """

    edge_norm = "none"

    def __init__(
        self,
        nn: Callable[[], torch.nn.Module],
        num_relations: int = 3,
        eps: float = 0.0,
        train_eps: bool = False,
        share_init: bool = False,
    ) -> None:
        super().__init__()
        check_finite_number("eps", eps)
        check_flag("train_eps", train_eps)
        self.num_relations, self.initial_eps, self.share_init = num_relations, eps, share_init
        self.nns = one_for_each_relation("nn", nn, num_relations, share_init)
        eps_of_all = torch.full((num_relations,), float(eps))
        if train_eps:
            self.eps: Tensor = torch.nn.Parameter(eps_of_all)
        else:
            self.register_buffer("eps", eps_of_all)

    def reset_parameters(self) -> None:
        """Draws new weights in every module that knows how."""
        for network in self.nns:
            for module in network.modules():
                if module is network or not hasattr(network, "reset_parameters"):
                    getattr(module, "reset_parameters", lambda: None)()
            if self.share_init:
                network.load_state_dict(self.nns[0].state_dict())
        torch.nn.init.constant_(self.eps, self.initial_eps)

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
        check_features(x, *[input_map(self.nns[0])] * 2, leading=True)
        # taken apart at once: the gradient of each `[..., r, :]` would be a tensor of all R relations
        neighbours = relational_aggregate(x_src, adj).unbind(dim=-2)  # R times (..., N, F)
        out = 0
        for eps, network, received in zip(self.eps, self.nns, neighbours, strict=True):
            out = out + network((1 + eps) * x_dst + received)
        return torch.as_tensor(out)

    def coefficients(self, adj: RelationalAdj) -> Coefficients:
        r"""The weights :math:`w` and :math:`1 + \epsilon_r` on a graph; `graphprism.certify` takes them."""
        check_relations(adj, self.num_relations)
        note = (
            "It is proven where every network of the layer is linear, or has biases and smooth activations such as "
            "tanh or GELU; ReLU can make their output zero."
        )
        own = 1 + self.eps.detach().to(adj.device, torch.float64)
        return Coefficients(type(self).__name__, (adj,), own=(own,), is_linear=False, notes=(note,))

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"num_relations={self.num_relations}"

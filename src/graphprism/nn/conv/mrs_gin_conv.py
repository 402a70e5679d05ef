"""MRS-GIN."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric.nn.dense import Linear
from torch_geometric.nn.inits import reset

from graphprism._checks import check_finite_number, check_flag, check_positive
from graphprism.nn.conv.operands import (
    Nodes,
    Prepared,
    check_features,
    check_relations,
    has_hooks,
    input_map,
    made_by,
    map_rows,
    network_rows,
    relu_maps,
    split_nodes,
    to_adj,
)
from graphprism.nn.conv.relational_conv import RelationalConv, graph_by_edge, sender_rows_by_edge
from graphprism.nn.conv.relational_modules import RelationalModules
from graphprism.nn.conv.relational_weight import DECAY, Together, check_start, deviation_size
from graphprism.ops import Coefficients, RelationalAdj, relational_aggregate, relational_linear
from graphprism.ops.batched.batched_linear import batched_linear
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.ops.batched.padded_products import sum_with_root
from graphprism.ops.batched.vmap import only_vmap
from graphprism.ops.mixed_linear import mixed_linear


class MRSGINConv(RelationalConv):
    r"""Graph isomorphism layer whose network has one first matrix per relation (MRS-GIN).

    .. math:: \mathbf{x}'_i = h \Big( (1 + \epsilon) \, \mathbf{W}^\top \mathbf{x}_i
        + \sum_{r} \sum_{j \in \mathcal{N}_r(i)} w_{ji} \, \mathbf{W}_r^\top \mathbf{x}_j \Big)

    where :math:`\mathbf{W}` is the first map of the network, :math:`h` the rest of it and :math:`w_{ji}` is
    ``edge_weight``, else one. All :math:`\mathbf{W}_r` start at :math:`\mathbf{W}`, which is PyG's ``GINConv``.

    With ``start="independent"`` it is the paper's sum of layers, one on the edges of each relation:

    .. math:: \mathbf{x}'_i = \sum_{r} h_r \Big( (1 + \epsilon_r) \, \mathbf{x}_i
        + \sum_{j \in \mathcal{N}_r(i)} w_{ji} \, \mathbf{x}_j \Big)

    With equal networks this is the plain layer only if they are linear, as the sum over relations is outside of
    :math:`h`. Every network runs on every node, so that time and memory grow with N * R, not with the number of edges
    as in the other layers.

    Args:
        nn: the network, or a function that makes one, ``lambda: MLP([64, 64, 64])`` for instance. A shared start needs
            one that begins with a linear map; an independent one calls the function once for every relation.
        eps: initial value of every :math:`\epsilon`.
        train_eps: whether to learn it.
        num_relations: number of relations R.
        start: ``"shared"`` or ``"independent"``.
        decay: how strongly a shared start ties the relations to their common weights, 0 for not at all; see
            `RelationalParameter`.
        deviation: difference of a relation from the common weights: ``"full"`` is a first matrix, ``"diagonal"`` one
            factor per output channel of it.

    Shapes: ``x`` (N, F_in) or a pair (senders, receivers), ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R),
    ``edge_weight`` (E,) -> (N, F_out); ``edge_index`` may be a `RelationalAdj`. ``x`` may have one leading batch
    dimension.
    """

    edge_norm = "none"

    def __init__(
        self,
        nn: torch.nn.Module | Callable[[], torch.nn.Module],
        eps: float = 0.0,
        train_eps: bool = False,
        *,
        num_relations: int = 3,
        start: str = "shared",
        decay: float = DECAY,
        deviation: str = "full",
    ) -> None:
        super().__init__()
        check_finite_number("eps", eps)
        check_flag("train_eps", train_eps)
        check_start(start, decay, deviation)
        check_positive("num_relations", num_relations)
        self.num_relations, self.initial_eps, self.start = num_relations, eps, start
        self.nn: torch.nn.Module | None = None
        self.nns: RelationalModules | None = None
        # by input of the network, as threads may share a layer
        self._messages: dict[int, tuple[Tensor, Tensor]] = {}
        if start == "shared":
            self.nn = made_by("nn", nn, "a module or a function that makes one")
            first: Any
            self._first, first = _first_map(self.nn)
            first.register_forward_hook(self._add_messages)
            self.deviation: torch.nn.Parameter | None = None
            if num_relations > 1:
                size = deviation_size(tuple(first.weight.t().shape), num_relations, deviation)
                self.deviation = torch.nn.Parameter(first.weight.new_zeros(size), first.weight.requires_grad)
                self.together = Together(num_relations, decay)
            self._register_load_state_dict_pre_hook(self._rename)
        else:
            self.nns = RelationalModules("nn", nn, num_relations, start, decay)
        eps_of_all = torch.full((1 if start == "shared" else num_relations,), float(eps))
        if train_eps:
            self.eps: Tensor = torch.nn.Parameter(eps_of_all)
        else:
            self.register_buffer("eps", eps_of_all)

    def reset_parameters(self) -> None:
        """Draws new weights in every module that has ``reset_parameters``."""
        if self.nns is not None:
            self.nns.reset_parameters()
        else:
            reset(self.nn)
            if self.deviation is not None:
                torch.nn.init.zeros_(self.deviation)
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
        network: Any = self.nn if self.nns is None else self.nns.each[0]
        check_features(x, *[input_map(network)] * 2, leading=True)
        if self.nns is None:
            return self._shared(x_src, x_dst, adj)
        is_plain = self.num_relations == 1 and x_src is x_dst and not self.is_by_edge
        if is_plain and isinstance(adj, PaddedAdj):
            return network_rows(self.nns.each[0], sum_with_root(x_src, adj, self.eps[0]))
        return self._sum_of_networks(self._neighbours(x_src, x_dst, adj), x_dst)

    def _sum_of_networks(self, neighbours: Tensor, x_dst: Tensor) -> Tensor:
        """The sum of the networks of an independent start, of sums of neighbours (..., N, R, F)."""
        # taken apart at once: the gradient of each `[..., r, :]` would be a tensor of all R relations
        parts = zip(1 + self.eps, self.nns.functions(), neighbours.unbind(dim=-2), strict=True)  # type: ignore[union-attr]
        rows = [network_rows(network, torch.addcmul(got, x_dst, own.to(got.dtype))) for own, network, got in parts]
        return reduce(torch.add, rows)

    def plain_maps(self) -> list[Linear] | None:
        """The maps of a plain layer: one relation, a constant epsilon, linear maps with ReLU between them; else `None`.

        `None` as well where someone watches the layer or a part of it.
        """
        if self.num_relations > 1 or "eps" in self._parameters or self.is_by_edge or has_hooks(self):
            return None
        if self.nns is None:
            return relu_maps(self.nn, self._add_messages)  # type: ignore[arg-type]
        return relu_maps(self.nns.each[0])

    def _neighbours(self, x_src: Tensor, x_dst: Tensor, adj: Prepared) -> Tensor:
        """Sums of neighbours in each relation, (..., N, R, F)."""
        if not self.is_by_edge:
            return relational_aggregate(x_src, adj)
        adj = graph_by_edge(x_src, adj)
        # block matrices: relation r writes into its own channels
        places = torch.eye(self.num_relations * x_src.size(1), dtype=x_src.dtype, device=x_src.device)
        rows = sender_rows_by_edge(x_src, adj, places.view(self.num_relations, x_src.size(1), -1))
        out = self.sum_by_edge((x_src, x_dst), adj, rows, weight=adj.edge_weight)
        return out.view(-1, self.num_relations, x_src.size(1))

    def coefficients(self, adj: RelationalAdj) -> Coefficients:
        r"""The weights :math:`w` and :math:`1 + \epsilon_r` on a graph, for `graphprism.certify`.

        With a shared start the matrix of the node itself is the mean over all relations.
        """
        check_relations(adj, self.num_relations)
        note = (
            "It is proven if every network of the layer is linear, or has biases and smooth activations such as "
            "tanh or GELU; with ReLU its output can be zero."
        )
        own = 1 + self.eps.detach().to(adj.device, torch.float64)
        if self.nns is None:
            own = (own / self.num_relations).expand(self.num_relations)
        return Coefficients(type(self).__name__, (adj,), own=(own,), is_linear=False, notes=(note,))

    def _shared(self, x_src: Tensor, x_dst: Tensor, adj: Prepared) -> Tensor:
        is_apart = x_dst.dim() == 2 and only_vmap() and not self.is_by_edge
        maps = relu_maps(self.nn, self._add_messages) if is_apart else None  # type: ignore[arg-type]
        if maps is not None and self.num_relations == 1 and isinstance(adj, PaddedAdj) and x_src is x_dst:
            return map_rows(maps, sum_with_root(x_src, adj, self.eps[0]))
        root = (1 + self.eps).to(x_dst.dtype) * x_dst
        weight: Any = self.nn.get_submodule(self._first).weight.t()  # type: ignore
        mixture = None
        if self.deviation is not None and not self.is_by_edge:
            mixture = self.together.mixture(weight, self.deviation)
        if mixture is not None:
            messages = mixed_linear(x_src, adj, mixture)
        else:
            matrices = weight[None] if self.deviation is None else self.together(weight, self.deviation)
            messages = self._sum(x_src, x_dst, adj, matrices)
        if maps is not None:
            first = batched_linear(root, maps[0].weight, maps[0].bias) + messages
            return map_rows(maps[1:], first.relu()) if len(maps) > 1 else first
        return self._network_of(root, messages)

    def _network_of(self, root: Tensor, messages: Tensor) -> Tensor:
        """The network of a shared start on ``root``, with ``messages`` added to the output of its first map."""
        key = _key(root)
        self._messages[key] = root, messages
        try:
            out: Tensor = self.nn(root)  # type: ignore[misc]
            was_read = key not in self._messages
        finally:
            self._messages.pop(key, None)
        if not was_read:
            raise ValueError('`nn` must begin with a linear map for start="shared", got one that does not apply it')
        return out

    def _sum(self, x_src: Tensor, x_dst: Tensor, adj: Prepared, matrices: Tensor) -> Tensor:
        """The sums of the transformed rows of senders, (..., N, F_out)."""
        if not self.is_by_edge:
            return relational_linear(x_src, adj, matrices)
        adj = graph_by_edge(x_src, adj)
        rows = sender_rows_by_edge(x_src, adj, matrices)
        return self.sum_by_edge((x_src, x_dst), adj, rows, weight=adj.edge_weight)

    def _rename(self, state: dict[str, Any], prefix: str, *more: Any) -> None:
        """Loads states of PyG's ``GINConv``, and lists of networks of 0.1: that of one relation becomes ``nn``."""
        if self.deviation is not None:
            own = [key.removeprefix(prefix) for key in state if key.startswith(prefix)]
            if "together.decay" not in own and any(key.startswith("nn.") for key in own):
                state.setdefault(f"{prefix}deviation", torch.zeros_like(self.deviation))
            self.together.adopt(state, f"{prefix}together.", [f"{prefix}deviation"])
        old = [key for key in state if key.startswith(f"{prefix}nns.")]
        if old and self.num_relations > 1:
            more[-1].append(f'`{prefix}nns` must be loaded into a layer with start="independent", whose form it has')
        for key in old:
            value = state.pop(key)
            if self.num_relations == 1:
                state[f"{prefix}nn.{key.removeprefix(f'{prefix}nns.').partition('.')[2]}"] = value

    def _add_messages(self, module: torch.nn.Module, inputs: tuple[Any, ...], out: Tensor) -> Tensor:
        """Forward hook of the first map, which was applied to the node itself: adds the messages to its output."""
        found = self._messages.get(_key(inputs[0]))
        if found is None or inputs[0] is not found[0]:
            return out
        del self._messages[_key(inputs[0])]
        return out + found[1]

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"num_relations={self.num_relations}"


def _key(root: Tensor) -> int:
    return 0 if torch.compiler.is_compiling() else id(root)


def _first_map(network: torch.nn.Module) -> tuple[str, torch.nn.Module]:
    """The first linear map among the modules of a network, and its name."""
    for name, module in network.named_modules():
        if isinstance(module, torch.nn.Linear | Linear) and not is_lazy(module.weight):
            return name, module
    raise ValueError('`nn` must begin with a linear map of known size for start="shared", got one without')

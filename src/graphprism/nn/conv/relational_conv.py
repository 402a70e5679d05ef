"""Base class of the layers: PyG's message passing, with messages materialised only if something observes them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from graphprism.nn.conv.operands import Prepared
from graphprism.ops import RelationalAdj
from graphprism.ops.entries import trusted_index_sum


class RelationalConv(MessagePassing):  # type: ignore[misc]
    """Base of the layers, a ``MessagePassing`` of PyG.

    Layers normally sum their messages without materialising them. They materialise them, in the order of the input
    edges, and call PyG's ``propagate`` if ``explain`` is on, if a hook of ``propagate``, ``message`` or ``aggregate``
    is registered, or if a subclass overrides ``message``. Its arguments are ``rows``, the sender's transformed row in
    the relation of the edge, and ``weight`` (in attention ``alpha``), which multiplies them; ``x_i`` and ``x_j`` are
    the inputs of both ends, ``edge_type`` the types.
    """

    def __init__(self) -> None:
        super().__init__(aggr=None, node_dim=0)
        self._has_own_message = type(self).message is not type(self)._own_class().message

    @classmethod
    def _own_class(cls) -> type[RelationalConv]:
        """The class of this package that the layer is an instance of."""
        return next(each for each in cls.__mro__ if each.__module__.startswith("graphprism."))

    def _set_jittable_templates(self, raise_on_error: bool = False) -> None:
        """No-op: PyG would write a Python file per class, for a ``propagate`` that layers rarely call."""

    # PyG's omits submodules
    __repr__ = torch.nn.Module.__repr__

    @property
    def is_by_edge(self) -> bool:
        """Whether explainers, hooks or subclasses need the messages of single edges."""
        return bool(
            self._has_own_message
            or self._explain
            or self._message_forward_hooks
            or self._message_forward_pre_hooks
            or self._propagate_forward_hooks
            or self._propagate_forward_pre_hooks
            or self._aggregate_forward_hooks
            or self._aggregate_forward_pre_hooks
        )

    def message(self, rows: Tensor, weight: Tensor | None) -> Tensor:
        """The message of every edge, (E, ...); ``weight`` (E,) is broadcast over channels."""
        return rows if weight is None else weight.view(-1, *[1] * (rows.dim() - 1)).to(rows.dtype) * rows

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int | None = None) -> Tensor:
        """Sums the messages at their receivers."""
        return trusted_index_sum(inputs, index, int(dim_size or 0))

    def sum_by_edge(
        self, x: tuple[Tensor, Tensor], adj: RelationalAdj, rows: Tensor, **weight: Tensor | None
    ) -> Tensor:
        """PyG's ``propagate`` with a message for each edge of ``adj``, in its order."""
        edges = adj.edge_index.long()
        types = adj.edge_type
        kwargs: dict[str, Any] = {"x": x, "rows": rows, "edge_type": types, "edge_weight": adj.edge_weight, **weight}
        out: Tensor = self.propagate(edges, size=adj.size, **kwargs)
        return out


def graph_by_edge(x: Tensor, adj: Prepared) -> RelationalAdj:
    """``adj``, checked to be a `RelationalAdj`, and ``x`` to have no leading batch dimension."""
    if not isinstance(adj, RelationalAdj):
        raise TypeError(
            f"`edge_index` must be a tensor or a RelationalAdj to observe messages, got {type(adj).__name__}"
        )
    if x.dim() != 2:
        raise ValueError(f"`x` must have shape [N, F] to observe messages, got {list(x.shape)}")
    return adj


def sender_rows_by_edge(x: Tensor, adj: RelationalAdj, weight: Tensor) -> Tensor:
    """The sender's row of every edge, transformed by its relation: (N, F_in), (R, F_in, F_out) -> (E, F_out).

    With soft types relations are weighted by their scores.
    """
    source, types = adj.edge_index[0].long(), adj.edge_type
    channels = weight.size(-1)
    h = (x.to_dense() if x.layout != torch.strided else x) @ weight.transpose(0, 1).flatten(1)  # (N, R * F_out)
    h = h.view(-1, weight.size(0), channels)
    if types is None:
        return h[:, 0].index_select(0, source)
    if adj.is_soft:
        return torch.einsum("er,erf->ef", types.to(h.dtype), h.index_select(0, source))
    return h.flatten(0, 1).index_select(0, source * adj.num_relations + types.long())

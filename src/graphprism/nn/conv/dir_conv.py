"""Directed graphs: one convolution along the edges and one against them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.nn.dense import Linear

from graphprism._checks import check_function, check_share, check_tensor
from graphprism.nn.conv.mrs_gcn_conv import MRSGCNConv
from graphprism.nn.conv.operands import has_hooks, to_adj
from graphprism.ops import Coefficients, RelationalAdj


class DirConv(torch.nn.Module):
    r"""Two convolutions, one for each direction of the edges (Dir-GNN), with any layer of this package.

    .. math:: \mathbf{x}'_i = \alpha \, \operatorname{conv}_{out}(\mathbf{X}, \mathcal{E}^\top)_i
        + (1 - \alpha) \, \operatorname{conv}_{in}(\mathbf{X}, \mathcal{E})_i \; \big( + \mathbf{W}^\top \mathbf{x}_i
        \big)

    where :math:`\operatorname{conv}_{in}` aggregates over the nodes that point to :math:`i` and
    :math:`\operatorname{conv}_{out}` over those that :math:`i` points to. An edge keeps its relation and weight in both
    directions. Symmetric normalisation is replaced by the directed one, :math:`1 / \sqrt{d^{out}_j d^{in}_i}` for the
    edge :math:`(j, i)`, under which edges from nodes without incoming edges keep a nonzero coefficient; a mean is taken
    in each direction. With :math:`\alpha` 0 or 1 only one direction is built and computed.

    Args:
        factory: makes one layer; called once for every direction.
        alpha: :math:`\alpha`, the weight of the messages from nodes that :math:`i` points to.
        root_weight: sizes (F_in, F_out) of :math:`\mathbf{W}`, or `None` for none; meant for layers without a root
            weight of their own.

    Shapes: as the layers that ``factory`` makes.

    Example:
        >>> from graphprism.nn import MRSSAGEConv
        >>> conv = DirConv(lambda: MRSSAGEConv(8, 8, root_weight=False), alpha=0.5, root_weight=(8, 8))
        >>> edges, types = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.tensor([0, 1, 2])
        >>> conv(torch.randn(3, 8), edges, types).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        factory: Callable[[], torch.nn.Module],
        alpha: float = 0.5,
        root_weight: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        must = "a function that makes a layer, one for each direction"
        if isinstance(factory, torch.nn.Module):
            raise TypeError(f"`factory` must be {must}, got a layer")
        check_function("factory", factory, must)
        check_share("alpha", alpha)
        if root_weight is not None:
            _check_root(root_weight)
        self.alpha = alpha
        self.conv_in = factory() if alpha < 1 else None
        self.conv_out = factory() if alpha > 0 else None
        for layer in (self.conv_in, self.conv_out):
            if layer is not None and not hasattr(layer, "num_relations"):
                raise TypeError(f"`factory` must be {must} of this package, got one that makes {type(layer).__name__}")
            if getattr(layer, "add_self_loops", False):
                raise ValueError("`factory` must add no self-loops: add them before the split, got add_self_loops=True")
            if getattr(layer, "normalize", None) is True and layer.edge_norm == "sym":  # type: ignore[union-attr]
                must = "must leave the norm to this layer, whose directed one takes the place of the symmetric one"
                raise ValueError(f"`factory` {must} (normalize=None; False for none), got normalize=True")
        self.lin_root = None if root_weight is None else Linear(*root_weight, bias=False)

    @property
    def num_relations(self) -> int:
        """Number of relations R of the graph that the layers take."""
        layer = self.conv_in if self.conv_out is None else self.conv_out
        return int(layer.num_relations)  # type: ignore[union-attr,arg-type]

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in self.children():
            module.reset_parameters()  # type: ignore[operator]

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | RelationalAdj,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """One layer; see the class for shapes."""
        out, second, bias = self.summands(x, edge_index, edge_type, edge_weight)
        if second is not None:
            # safe in place: no other reference, not saved for backward, and not a view (autograd would raise)
            is_new = not torch.compiler.is_compiling() and not out._is_view()
            out = out.add_(second) if is_new else out + second
        return out if bias is None else out + bias

    def summands(
        self,
        x: Tensor,
        edge_index: Tensor | RelationalAdj,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The terms of `forward`, unsummed, so that callers can fuse the addition: one or two tensors, and a bias."""
        check_tensor("x", x)
        adj = to_adj(x, edge_index, edge_type, edge_weight, self.num_relations)
        adj = adj.normalized("dir", x.dtype) if self._normalizes(adj) else adj
        if all(isinstance(part, MRSGCNConv) and not has_hooks(part) for part in self.children()):
            return self._scaled(x, adj)
        return self._mixed(x, adj), None, None

    def _normalizes(self, adj: RelationalAdj) -> bool:
        layer = self.conv_in if self.conv_out is None else self.conv_out
        wants = getattr(layer, "normalize", None) is not False
        return wants and adj.edge_weight is None and layer.edge_norm == "sym"  # type: ignore[union-attr]

    def coefficients(self, adj: RelationalAdj) -> Coefficients:
        """Coefficients of the layers of both directions on a graph, for `graphprism.certify`."""
        normalizes = self._normalizes(adj)
        adj = adj.normalized("dir", torch.float64) if normalizes else adj
        ways = ((self.conv_in, adj), (self.conv_out, adj.transpose()))
        found: list[Coefficients] = [layer.coefficients(way) for layer, way in ways if layer is not None]  # type: ignore[operator]
        first = found[0]
        return replace(
            first,
            layer=f"{type(self).__name__} of {first.layer}",
            parts=tuple(part for one in found for part in one.parts),
            own=tuple(own for one in found for own in one.own),
            root=first.root or self.lin_root is not None,
            norm="dir" if normalizes and first.norm == "none" else first.norm,
        )

    def _mixed(self, x: Tensor, adj: RelationalAdj) -> Tensor:
        """Weighted sum of both directions, for any layer."""
        out = torch.zeros((), dtype=x.dtype, device=x.device) if self.lin_root is None else self.lin_root(x)
        if self.conv_out is not None:
            out = out + self.alpha * self.conv_out(x, adj.transpose())
        if self.conv_in is not None:
            out = out + (1 - self.alpha) * self.conv_in(x, adj)
        return out

    def _scaled(self, x: Tensor, adj: RelationalAdj) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Weighted sum of both directions of a linear layer: scales matrices and biases instead of node rows."""
        ahead: MRSGCNConv | None = self.conv_in  # type: ignore[assignment]
        back: MRSGCNConv | None = self.conv_out  # type: ignore[assignment]
        if back is None or ahead is None:
            layer, way = (ahead, adj) if back is None else (back, adj.transpose())
            return layer.messages(x, way), None, layer.bias  # type: ignore[union-attr]
        bias = None if back.bias is None else torch.lerp(ahead.bias, back.bias, self.alpha)  # type: ignore[arg-type]
        return back.messages(x, adj.transpose(), self.alpha), ahead.messages(x, adj, 1 - self.alpha), bias

    def extra_repr(self) -> str:
        """``alpha`` for ``print``."""
        return f"alpha={self.alpha}"


def _check_root(sizes: object) -> None:
    whole = isinstance(sizes, tuple | list) and all(isinstance(size, int) for size in sizes)
    if not (whole and len(sizes) == 2 and sizes[1] >= 1 and (sizes[0] >= 1 or sizes[0] == -1)):  # type: ignore
        must = "None or sizes (F_in, F_out) of at least 1, F_in -1 for the size of the first input"
        raise ValueError(f"`root_weight` must be {must}, got {sizes!r}")

"""Blocks of a `GNN` besides its convolutions: feed-forward, head of several maps, encoder of random walks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.nn.dense import Linear

from graphprism.nn.conv.operands import batch_norm, has_hooks, linear, updated_statistics
from graphprism.ops.batched.feed_forward import is_one_op, run_feed_forward
from graphprism.ops.batched.vmap import only_vmap
from graphprism.ops.dropout import dropout as seeded_dropout

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType({"relu": torch.relu, "gelu": functional.gelu})
# Hidden width of a head, as a function of its input width and the number of preceding maps.
HEADS: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {"halving": lambda width, number: width // 2**number, "constant": lambda width, number: width}
)


def drop(h: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """Dropout in training, from an explicit generator if given."""
    return functional.dropout(h, share) if generator is None else seeded_dropout(h, share, generator)


class FeedForward(torch.nn.Module):
    r"""The feed-forward block of GNN+ (Luo et al., 2025), between two batch normalisations.

    .. math:: \mathbf{y} = \mathrm{BN}_1(\mathbf{x}), \qquad \mathbf{x}' = \mathrm{BN}_2 \big( \mathbf{y} +
        \mathbf{W}_2 \, \sigma(\mathbf{W}_1 \mathbf{y} + \mathbf{b}_1) + \mathbf{b}_2 \big)

    Dropout follows both maps in training.

    Args:
        channels: size of a row; the inner one has twice as many.
        activation: the name of :math:`\sigma` in `ACTIVATIONS`.
        dropout: share of channels dropped in training.
        linear: makes one map from two widths.

    Shapes: ``x`` (N, F), ``node_mask`` (N,) zero for rows that are padding -> (N, F)
    """

    def __init__(
        self,
        channels: int,
        activation: str = "relu",
        dropout: float = 0.0,
        linear: Callable[[int, int], torch.nn.Module] = Linear,
    ) -> None:
        super().__init__()
        self.activation, self.dropout = activation, dropout
        self.norm_in, self.norm_out = torch.nn.BatchNorm1d(channels), torch.nn.BatchNorm1d(channels)
        self.lin_in, self.lin_out = linear(channels, 2 * channels), linear(2 * channels, channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for module in self.children():
            module.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor, node_mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """One block."""
        drops = self.training and self.dropout > 0
        if node_mask is not None and not drops and self.activation == "relu":
            found = self._at_once(x, node_mask)
            if found is not None:
                return found
        x = batch_norm(self.norm_in, x, node_mask)
        h = ACTIVATIONS[self.activation](self.lin_in(x))
        h = self.lin_out(drop(h, self.dropout, generator) if drops else h)
        h = drop(h, self.dropout, generator) if drops else h
        return batch_norm(self.norm_out, x + h, node_mask)

    def _at_once(self, x: Tensor, node_mask: Tensor) -> Tensor | None:
        """The output by one op for many runs under `torch.vmap`, where it computes the same; else `None`."""
        first, last = self.norm_in, self.norm_out
        running, last_running = updated_statistics(first), updated_statistics(last)
        maps = [each for each in (self.lin_in, self.lin_out) if isinstance(each, Linear) and each.bias is not None]
        if running is None or last_running is None or len(maps) < 2 or any(map(has_hooks, (first, last, *maps))):
            return None
        if not (only_vmap() and is_one_op(x)):
            return None
        weights = maps[0].weight, maps[0].bias, maps[1].weight, maps[1].bias
        if any(each.dtype != x.dtype for each in (*weights, first.weight, first.bias, last.weight, last.bias)):
            return None
        return run_feed_forward(
            x,
            node_mask,
            (first.weight, first.bias),
            weights,
            (last.weight, last.bias),
            running,
            last_running,
            (first.momentum or 0.0, last.momentum or 0.0),
            (first.eps, last.eps),
        )


class Head(torch.nn.Module):
    """Several linear maps, with an activation between them.

    Args:
        in_channels: size of an input row.
        out_channels: size of an output row.
        num_layers: number of maps.
        shape: a name of `HEADS`: ``"halving"`` halves the width with each map, ``"constant"`` keeps it and drops
            channels before each map, as the two heads of GNN+ do.
        activation: a name of `ACTIVATIONS`.
        dropout: share of channels dropped before each map in training; unused with ``"halving"``.
        linear: makes one map from two widths.

    Shapes: (G, F) -> (G, F_out)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_layers: int,
        shape: str = "halving",
        activation: str = "relu",
        dropout: float = 0.0,
        linear: Callable[[int, int], torch.nn.Module] = Linear,
    ) -> None:
        super().__init__()
        widths = [max(1, HEADS[shape](in_channels, number)) for number in range(num_layers)]
        self.lins = torch.nn.ModuleList(linear(i, o) for i, o in pairwise([*widths, out_channels]))
        self.activation, self.dropout = activation, dropout if shape == "constant" else 0.0

    def reset_parameters(self) -> None:
        """Draws new weights."""
        for lin in self.lins:
            lin.reset_parameters()  # type: ignore[operator]

    def forward(self, h: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One row for each row."""
        for number, lin in enumerate(self.lins):
            h = ACTIVATIONS[self.activation](h) if number else h
            h = lin(drop(h, self.dropout, generator) if self.training and self.dropout > 0 else h)
        return h


class WalkEncoder(torch.nn.Module):
    """Encodes the output of `graphprism.transforms.RandomWalkPE`: batch normalisation, then a linear map.

    Args:
        num_steps: longest walk.
        channels: size of an encoded row.

    Shapes: ``pe`` (N, num_steps), ``node_mask`` (N,) zero for rows that are padding -> (N, F)
    """

    def __init__(self, num_steps: int, channels: int) -> None:
        super().__init__()
        self.norm, self.lin = torch.nn.BatchNorm1d(num_steps), Linear(num_steps, channels)

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.norm.reset_parameters()
        self.lin.reset_parameters()

    def forward(self, pe: Tensor, node_mask: Tensor | None = None) -> Tensor:
        """One row for each node."""
        return linear(self.lin, batch_norm(self.norm, pe.to(self.lin.weight.dtype), node_mask))

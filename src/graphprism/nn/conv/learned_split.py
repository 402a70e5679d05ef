"""A split that is trained with the network, starting from a fixed one."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism._checks import check_floating, check_integer, check_positive, check_shape
from graphprism.nn.conv.operands import check_in_channels


class LearnedSplit(torch.nn.Module):
    r"""Scores (E, R) for any MRS layer, from the features of both ends of an edge; initially those of a fixed split.

    .. math:: \mathbf{s}_{ji} = \mathbf{e}_{t_{ji}} + \mathbf{P} \tanh \big( \mathbf{U} \tanh (\mathbf{A} \mathbf{x}_j +
        \mathbf{B} \mathbf{x}_i) + \mathbf{c}_{t_{ji}} \big), \qquad \mathbf{U} = 0, \; \mathbf{c} = 0 \text{ initially}

    where :math:`\mathbf{e}_t` is the one-hot vector of relation :math:`t` of the fixed split, and :math:`\mathbf{P}`
    subtracts the mean over relations: the scores of an edge sum to one, so that its total weight stays and only its
    distribution over relations is learned. Pass the scores to layers as ``edge_type``.

    Args:
        in_channels: size of a feature row; ``-1`` takes it from the first input.
        num_relations: R.
        hidden_channels: size of :math:`\mathbf{A} \mathbf{x}`.

    Shapes: ``x`` (N, F), ``edge_index`` (2, E), ``edge_type`` (E,) -> (E, R)

    Example:
        >>> split = LearnedSplit(8, num_relations=3)
        >>> split(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]]), torch.tensor([2, 0])).tolist()
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """

    gives_scores = True  # its output (E, R) takes the place of `edge_type`

    def __init__(self, in_channels: int, num_relations: int, hidden_channels: int = 16) -> None:
        super().__init__()
        check_in_channels(in_channels)
        check_positive("num_relations", num_relations)
        check_positive("hidden_channels", hidden_channels)
        self.in_channels, self.num_relations, self.hidden_channels = in_channels, num_relations, hidden_channels
        make = torch.nn.Linear if in_channels != -1 else lambda _, *sizes: torch.nn.LazyLinear(*sizes)
        self.ends = make(in_channels, 2 * hidden_channels)  # A and B, concatenated
        self.out = torch.nn.Linear(hidden_channels, num_relations, bias=False)
        self.by_type = torch.nn.Parameter(torch.zeros(num_relations, num_relations))
        torch.nn.init.zeros_(self.out.weight)

    def reset_parameters(self) -> None:
        """Draws new weights; scores start at those of the fixed split again."""
        self.ends.reset_parameters()
        torch.nn.init.zeros_(self.out.weight)
        torch.nn.init.zeros_(self.by_type)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        """Scores of every edge, (E, R)."""
        check_floating("x", x)
        check_shape("edge_index", edge_index, [2, "E"])
        check_shape("edge_type", edge_type, [edge_index.size(1)])
        check_integer("edge_type", edge_type)
        sender, receiver = self._ends(x).chunk(2, dim=1)
        types = edge_type.long()
        hidden = torch.tanh(sender[edge_index[0].long()] + receiver[edge_index[1].long()])
        moved = torch.tanh(self.out(hidden) + self.by_type[types])
        fixed = torch.nn.functional.one_hot(types, self.num_relations).to(moved.dtype)
        return fixed + moved - moved.mean(dim=1, keepdim=True)

    def _ends(self, x: Tensor) -> Tensor:
        if x.layout == torch.strided or self.in_channels == -1:
            rows: Tensor = self.ends(x)
            return rows
        return x @ self.ends.weight.t() + self.ends.bias  # `linear` does not support sparse rows

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"{self.in_channels}, num_relations={self.num_relations}"

"""The network that training runs: a `GNN` with fused layers and a head for many runs at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.dense import Linear

from graphprism.nn import GNN, MRSGCNConv
from graphprism.ops.batched.batched_linear import batched_linear
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.ops.batched.relational_stack import relational_stack


class FusedGNN(GNN):
    """The same function and the same parameters as `GNN`.

    Plain (MRS-)GCN layers on a `PaddedAdj` are one call of `relational_stack`, which spares launches on a GPU and
    has no second derivatives; maps of the head and of feed-forward blocks are few kernels for all runs under
    `torch.vmap`.
    """

    def make_head(self, in_channels: int, out_channels: int) -> torch.nn.Module:
        """A linear map by `batched_linear`."""
        head: torch.nn.Module = _RunLinear(in_channels, out_channels)
        return head

    def run_layers(
        self, h: Tensor, e: Tensor | None, graph: Any, generator: torch.Generator | None = None
    ) -> list[Tensor]:
        """All layers at once where `relational_stack` is the same function, else one by one."""
        if not isinstance(graph, PaddedAdj) or not self._is_stack():
            return super().run_layers(h, e, graph, generator)
        convs = [conv for conv in self.convs if isinstance(conv, MRSGCNConv)]
        weights = [conv.lin() for conv in convs]
        biases = [conv.bias for conv in convs if conv.bias is not None]
        return list(relational_stack(h, graph.normalized("sym"), weights, biases, self.residual))

    def _is_stack(self) -> bool:
        """Whether the layers are graph convolutions of one width with bias and ReLU, and nothing else."""
        plain = self.encoder is not None and not self.dropout and not self.normalize
        plain = plain and self.ffns is None and self.activation == "relu"
        plain = plain and all(isinstance(norm, torch.nn.Identity) for norm in self.norms)
        return plain and all(_is_plain_gcn(conv) for conv in self.convs)


class _RunLinear(Linear):  # type: ignore[misc]
    """PyG's linear layer, computed by `batched_linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return batched_linear(x, self.weight, self.bias)


def _is_plain_gcn(conv: torch.nn.Module) -> bool:
    return isinstance(conv, MRSGCNConv) and conv.normalize is None and conv.bias is not None

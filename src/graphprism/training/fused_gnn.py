"""The network of training on graphs: a `GNN` with fused layers and a head that is batched over runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.dense import Linear

from graphprism.nn import GNN, MRSGCNConv, MRSGINConv
from graphprism.nn.models.gnn import Members
from graphprism.ops.batched.batched_linear import batched_linear
from graphprism.ops.batched.network_stack import network_stack
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.ops.batched.relational_stack import relational_stack
from graphprism.ops.batched.vmap import only_vmap


class FusedGNN(GNN):
    """The same function and the same parameters as `GNN`.

    Plain (MRS-)GCN layers on a `PaddedAdj` are one call of `relational_stack`, plain GIN layers in training one of
    `network_stack`: fewer kernel launches, but no second derivatives. Under `torch.vmap` linear maps of the head and of
    feed-forward blocks take a few kernels for all runs together.
    """

    def make_head(self, in_channels: int, out_channels: int) -> torch.nn.Module:
        """A linear map by `batched_linear`."""
        head: torch.nn.Module = _RunLinear(in_channels, out_channels)
        return head

    def run_layers(
        self,
        h: Tensor,
        e: Tensor | None,
        graph: Any,
        generator: torch.Generator | None = None,
        members: Members | None = None,
    ) -> list[Tensor]:
        """All layers at once where `relational_stack` or `network_stack` computes the same, else one by one."""
        if not isinstance(graph, PaddedAdj) or not self._is_plain():
            return super().run_layers(h, e, graph, generator, members)
        if not all(_is_plain_gcn(conv) for conv in self.convs):
            networks = self._networks(h)
            if networks is None:
                return super().run_layers(h, e, graph, generator, members)
            return _run_networks(h, graph, networks)
        convs = [conv for conv in self.convs if isinstance(conv, MRSGCNConv)]
        weights = [conv.lin() for conv in convs]
        biases = [conv.bias for conv in convs if conv.bias is not None]
        return list(relational_stack(h, graph.normalized("sym"), weights, biases, self.residual))

    def _is_plain(self) -> bool:
        """Whether the layers are convolutions and ReLU, and nothing else."""
        plain = self.encoder is not None and not self.dropout and not self.normalize
        plain = plain and self.ffns is None and self.activation == "relu"
        return plain and all(isinstance(norm, torch.nn.Identity) for norm in self.norms)

    def _networks(self, h: Tensor) -> list[tuple[Tensor, list[Linear]]] | None:
        """Epsilon and maps of every layer, where all are plain GIN layers of one width that `network_stack` takes.

        Not in evaluation: it would keep the states of all maps.
        """
        if not (torch.is_grad_enabled() and only_vmap()) or self.residual:
            return None
        found = [(conv.eps[0], conv.plain_maps()) for conv in self.convs if isinstance(conv, MRSGINConv)]
        networks = [(eps, maps) for eps, maps in found if maps is not None]
        if len(networks) < len(self.convs) or len({len(maps) for _, maps in networks}) != 1:
            return None
        shape = h.size(-1), h.size(-1)
        fits = all(
            each.bias is not None and tuple(each.weight.shape) == shape and each.weight.dtype == h.dtype
            for _, maps in networks
            for each in maps
        )
        return networks if fits else None


class _RunLinear(Linear):  # type: ignore[misc]
    """PyG's linear layer, computed by `batched_linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return batched_linear(x, self.weight, self.bias)


def _run_networks(h: Tensor, graph: PaddedAdj, networks: list[tuple[Tensor, list[Linear]]]) -> list[Tensor]:
    maps = [each for _, own in networks for each in own]
    weights, biases = [each.weight for each in maps], [each.bias for each in maps]
    return list(network_stack(h, graph, [eps for eps, _ in networks], weights, biases))


def _is_plain_gcn(conv: torch.nn.Module) -> bool:
    return isinstance(conv, MRSGCNConv) and conv.normalize is None and conv.bias is not None

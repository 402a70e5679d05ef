"""The nodes of a graph in batches with sampled neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.sampler import NodeSamplerInput

from graphprism.datasets import PackedDataset, row_normalise
from graphprism.loader import NeighborSampler, in_parts
from graphprism.loader.loaders import part_of
from graphprism.nn import CONVOLUTIONS, GNN
from graphprism.ops import RelationalAdj, edge_norm
from graphprism.training.node_data import DTYPES, check_node_run, edges_of_run, one_or_all
from graphprism.training.optim import epoch_order
from graphprism.training.run import Run

# Nodes that a convolution works on at once in an evaluation.
_EVALUATED_AT_ONCE = 65_536
# Coefficients that come from degrees: those of the whole graph. Means are taken of the neighbours that were sampled.
_FROM_DEGREES = ("sym", "dir")


@dataclass(frozen=True, eq=False)
class SampledBatch:
    """The nodes of a step that this process works on, the first of the sampled ones.

    Attributes:
        x: (N, F) features of all sampled nodes.
        adj: The sampled edges, with relations and coefficients of the whole graph; several where layers split apart.
        y: Targets of the nodes of the step, (B,) classes or (B, T).
        nodes: Sampled nodes of each hop, the step's own first.
        edges: Sampled edges of each hop.
        rows: Where they stand in the order asked for.
        total: Number of nodes of the step, those of other processes included.
    """

    x: Tensor
    adj: RelationalAdj | list[RelationalAdj]
    y: Tensor
    nodes: list[int]
    edges: list[int]
    rows: slice
    total: int

    @property
    def inputs(self) -> dict[str, Any]:
        """What the network is called with."""
        hops = {"num_sampled_nodes_per_hop": self.nodes, "num_sampled_edges_per_hop": self.edges}
        return {"x": self.x, "edge_index": self.adj, **hops}

    def read(self, output: Tensor) -> Tensor:
        """The outputs of its nodes: what the network gives."""
        return output


class SampledGraph:
    """The graph of a run, cut into batches of nodes with ``run.neighbors`` sampled neighbours of each in every hop.

    What a node samples in an epoch follows from the seed of the run, whichever process works on it. Seeds share nodes
    unless that would make outputs depend on the division: with batch normalisation, and where directed layers sample
    both ends of edges, every seed has nodes of its own.

    Args:
        run: The run.
        dataset: Nodes with targets.
        device: Where the batches will be; the graph is sampled on the CPU, and goes there as a whole to be evaluated.
    """

    def __init__(self, run: Run, dataset: PackedDataset, device: torch.device) -> None:
        check_node_run(run, dataset)
        conv, self.run, self.device, dtype = CONVOLUTIONS[run.model], run, device, DTYPES[run.precision]
        if conv.edge_norm is None or not conv.takes_graph:
            raise ValueError(f"`model` must be a convolution of this package with `neighbors`, got {run.model!r}")
        self.x = (row_normalise(dataset.x) if run.row_normalise else dataset.x).to(dtype)
        is_classes = dataset.task == "multiclass"
        self.y = dataset.y.long() if is_classes else dataset.y.view(dataset.y.size(0), -1).to(dtype)
        self.masks = [mask[:, run.fold] for mask in (dataset.train_mask, dataset.val_mask, dataset.test_mask)]  # type: ignore[index]
        self.adjs = edges_of_run(run, dataset)  # one for every split, all of the same edges
        adj = self.adjs[0]
        if conv.edge_norm in _FROM_DEGREES:
            weight = edge_norm(adj.edge_index, adj.size, conv.edge_norm, dtype=dtype)
            self.adjs = [each.with_weight(weight) for each in self.adjs]
        samples = run.neighbors != -1
        data = Data(edge_index=adj.edge_index, num_nodes=self.x.size(0))
        self.sampler = NeighborSampler(
            data,
            [-1 if run.neighbors is None else run.neighbors] * run.layers,
            direction="both" if conv.directed else "in",
            disjoint=run.norm is not None or conv.has_batch_norm or (samples and conv.directed),
            seed=run.seed,
        )
        self._whole: tuple[Tensor, RelationalAdj | list[RelationalAdj]] | None = None  # on the device, for evaluation
        self._kept: dict[Any, Any] = {}
        # a weighted sum of few neighbours gets the size of the sum of all; two directions share one weight
        self._rescales = samples and conv.edge_norm == "sym"

    def subset(self, name: str) -> Tensor:
        """Numbers of the nodes of ``"train"``, ``"val"`` or ``"test"``."""
        return self.masks[("train", "val", "test").index(name)].nonzero().view(-1)

    def training_rows(self, epoch: int) -> Tensor:
        """The training nodes in the order of an epoch."""
        nodes = self.subset("train")
        return nodes[epoch_order(self.run.seed, epoch, nodes.numel())]

    def targets(self, nodes: Tensor) -> Tensor:
        """Targets of these nodes."""
        return self.y[nodes]

    def batches(self, nodes: Tensor, batch_size: int, rank: int, ranks: int, epoch: int) -> Iterator[SampledBatch]:
        """Batches of these nodes in their order; of each, the part that belongs to process ``rank`` of ``ranks``."""
        self.sampler.set_epoch(epoch)
        for start in range(0, nodes.numel(), batch_size):
            total = min(batch_size, nodes.numel() - start)
            first, last = part_of(total, rank, ranks)
            yield self._batch(nodes[start + first : start + last], slice(start + first, start + last), total)

    def _batch(self, seeds: Tensor, rows: slice, total: int) -> SampledBatch:
        out = self.sampler.sample_from_nodes(NodeSamplerInput(None, seeds))
        weight = None if self.adjs[0].edge_weight is None else self.adjs[0].edge_weight[out.edge]
        if self._rescales and weight is not None:
            sampled = torch.bincount(out.col, minlength=out.node.numel()).clamp(min=1)
            weight = weight * (self.sampler.in_degree(out.node) / sampled).to(weight.dtype)[out.col]
        edges, size = torch.stack([out.row, out.col]), (out.node.numel(), out.node.numel())
        adjs = [
            RelationalAdj.in_forward(
                edges, None if each.edge_type is None else each.edge_type[out.edge], weight, each.num_relations, size
            ).to(self.device)
            for each in self.adjs
        ]
        x, y = self.x[out.node].to(self.device), self.y[seeds].to(self.device)
        return SampledBatch(x, one_or_all(adjs), y, out.num_sampled_nodes, out.num_sampled_edges, rows, total)

    @torch.no_grad()
    def outputs(self, network: GNN, rank: int, ranks: int, add: Callable[[Tensor], Tensor]) -> Tensor:
        """Outputs of all nodes, layer by layer and with all neighbours; processes share the work.

        Args:
            network: The network, in evaluation mode.
            rank: This process.
            ranks: Number of processes.
            add: Sum of a tensor over all processes.
        """
        if self._whole is None:
            self._whole = self.x.to(self.device), one_or_all([adj.to(self.device) for adj in self.adjs])
        with in_parts(network, _EVALUATED_AT_ONCE, rank=rank, ranks=ranks, add=add, kept=self._kept):
            out: Tensor = network(*self._whole)
        return out

"""The nodes or links of a graph in batches with sampled neighbours."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
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
from graphprism.training.processes import free_memory
from graphprism.training.run import Run
from graphprism.training.target_rows import TargetRows

# Nodes that a convolution processes at once in an evaluation, and nodes or pairs whose outputs are read at once.
_EVALUATED_AT_ONCE = 65_536
# Normalisations by degrees, which are those of the whole graph. Means are taken over the sampled neighbours.
_FROM_DEGREES = ("sym", "dir")
# Share of the free memory of a GPU up to which it holds the graph in an evaluation; beyond, the CPU does.
_DEVICE_SHARE = 0.5
# Bytes of an edge with its type and weight, sorted by its source, its target and both.
_BYTES_OF_EDGE = 96


@dataclass(frozen=True, eq=False)
class SampledBatch:
    """The nodes or pairs of a step that this process works on, with the neighbours that were sampled for them.

    Attributes:
        x: (N, F) features of all sampled nodes.
        adj: The sampled edges, with relations and coefficients of the whole graph; a list if layers have their own
            splits.
        y: Targets of the step, (B,) classes or (B, T).
        at: (B,) or (2, B) where the nodes or both ends of the pairs are among the seeds.
        nodes: Sampled nodes of each hop, the seeds first.
        edges: Sampled edges of each hop.
        rows: Their positions in the requested order.
        total: Number of nodes or pairs of the step, those of other processes included.
        data: Reads outputs.
    """

    x: Tensor
    adj: RelationalAdj | list[RelationalAdj]
    y: Tensor
    at: Tensor
    nodes: list[int]
    edges: list[int]
    rows: slice
    total: int
    data: TargetRows

    @property
    def inputs(self) -> dict[str, Any]:
        """What the network is called with."""
        hops = {"num_sampled_nodes_per_hop": self.nodes, "num_sampled_edges_per_hop": self.edges}
        return {"x": self.x, "edge_index": self.adj, **hops}

    def read(self, states: Tensor) -> Tensor:
        """Outputs for the nodes, which are the seeds, or for the pairs, from one row per seed."""
        return states if self.at.dim() == 1 else self.data.read(states, self.at)


class SampledGraph(TargetRows):
    """The graph of a run, cut into batches of nodes or pairs with ``run.neighbors`` sampled neighbours in every hop.

    The neighbours that a node samples depend on the epoch and the seed of the run, not on the process. Seed nodes share
    sampled nodes, except with batch normalisation and if directed layers sample both ends of edges: outputs would
    depend on the division into processes, so every seed node has its own. The seed nodes of a pair are its two ends.

    Args:
        run: The run.
        dataset: Nodes or links with targets.
        device: Where the batches will be. The graph is sampled on the CPU. An evaluation copies the whole graph to the
            device if it fits; else graph and states stay on the CPU, and the device gets parts.
        lowest: The smallest feature of training, for new data; see `graphprism.datasets.row_normalise`.
    """

    def __init__(self, run: Run, dataset: PackedDataset, device: torch.device, lowest: float | None = None) -> None:
        check_node_run(run, dataset)
        self.run, self.device, dtype = run, device, DTYPES[run.precision]
        super().__init__(run, dataset, dtype, torch.device("cpu"))
        self._conv = CONVOLUTIONS[run.model]
        self.x = (row_normalise(dataset.x, lowest) if run.row_normalise else dataset.x).to(dtype)
        self.adjs = edges_of_run(run, dataset)  # one for every split, all of the same edges
        adj, kind = self.adjs[0], self._conv.edge_norm or "none"
        # a mean of weighted neighbours is one, too: over the sampled ones it is taken in every batch
        self._averages = kind == "mean" and adj.edge_weight is not None
        if kind in _FROM_DEGREES or self._averages:
            weight = edge_norm(adj.edge_index, adj.size, kind, adj.edge_weight, dtype)
            self.adjs = [each.with_weight(weight) for each in self.adjs]
        self._whole: tuple[Tensor, RelationalAdj | list[RelationalAdj]] | None = None  # on the device, for evaluation
        self._on_host: bool | None = None  # not known before the first evaluation
        self._kept: dict[Any, Any] = {}
        # scales the weighted sum of sampled neighbours to that of all; not "dir", where two directions share one weight
        self._rescales = run.neighbors != -1 and self._conv.edge_norm == "sym"

    @cached_property
    def sampler(self) -> NeighborSampler:
        """Samples the graph; made when first used, since an evaluation does not need it."""
        run, directed = self.run, self._conv.directed
        samples = run.neighbors != -1
        return NeighborSampler(
            Data(edge_index=self.adjs[0].edge_index, num_nodes=self.x.size(0)),
            [-1 if run.neighbors is None else run.neighbors] * run.layers,
            direction="both" if directed else "in",
            disjoint=run.norm is not None or self._conv.has_batch_norm or (samples and directed),
            seed=run.seed,
        )

    def training_rows(self, epoch: int) -> Tensor:
        """The training nodes, or pairs with and without an edge, in the order of an epoch."""
        rows = super().training_rows(epoch)
        return rows[epoch_order(self.run.seed, epoch, rows.numel())]

    def batches(self, rows: Tensor, batch_size: int, rank: int, ranks: int, epoch: int) -> Iterator[SampledBatch]:
        """Batches of these rows in their order; of each, the part that belongs to process ``rank`` of ``ranks``."""
        self.sampler.set_epoch(epoch)
        for start in range(0, rows.numel(), batch_size):
            total = min(batch_size, rows.numel() - start)
            first, last = part_of(total, rank, ranks)
            yield self._batch(rows[start + first : start + last], slice(start + first, start + last), total)

    def _batch(self, own: Tensor, rows: slice, total: int) -> SampledBatch:
        nodes = self.nodes(own)
        if self.sampler.disjoint or nodes.dim() == 1:
            seeds, at = nodes.flatten(), torch.arange(nodes.numel()).view(nodes.shape)
        else:  # an end of several pairs is computed once
            seeds, at = nodes.unique(return_inverse=True)
        out = self.sampler.sample_from_nodes(NodeSamplerInput(None, seeds))
        weight = None if self.adjs[0].edge_weight is None else self.adjs[0].edge_weight[out.edge]
        if self._rescales and weight is not None:
            sampled = torch.bincount(out.col, minlength=out.node.numel()).clamp(min=1)
            weight = weight * (self.sampler.in_degree(out.node) / sampled).to(weight.dtype)[out.col]
        edges, size = torch.stack([out.row, out.col]), (out.node.numel(), out.node.numel())
        if self._averages:
            weight = edge_norm(edges, size, "mean", weight)
        adjs = [
            RelationalAdj.in_forward(
                edges, None if each.edge_type is None else each.edge_type[out.edge], weight, each.num_relations, size
            ).to(self.device)
            for each in self.adjs
        ]
        x, y, at = (each.to(self.device) for each in (self.x[out.node], self.targets(own), at))
        hops = (out.num_sampled_nodes, out.num_sampled_edges)
        return SampledBatch(x, one_or_all(adjs), y, at, *hops, rows, total, self)

    @torch.no_grad()
    def outputs(self, network: GNN, rank: int, ranks: int, add: Callable[[Tensor], Tensor]) -> Tensor:
        """Outputs of all nodes, layer by layer and with all neighbours; processes share the work.

        Args:
            network: The network, in evaluation mode.
            rank: This process.
            ranks: Number of processes.
            add: Sum of a tensor over all processes.
        """
        if self._on_host is None:
            self._on_host = self._is_too_large(network)
        options: dict[str, Any] = {"rank": rank, "ranks": ranks, "add": add, "kept": self._kept}
        if self._on_host:
            # a copy of the network: moving the network itself would replace the weights that the optimiser trains
            network, whole = copy.deepcopy(network).cpu(), (self.x, one_or_all(self.adjs))
            # NCCL only sums tensors on GPUs
            options |= {"device": self.device, "add": lambda part: add(part.to(self.device)).cpu()}
        else:
            if self._whole is None:
                self._whole = self.x.to(self.device), one_or_all([adj.to(self.device) for adj in self.adjs])
            whole = self._whole
        with in_parts(network, _EVALUATED_AT_ONCE, **options):
            found: Tensor = network(*whole)
            return found

    def _is_too_large(self, network: torch.nn.Module) -> bool:
        """Whether an evaluation may exceed the memory of a GPU: features, edges with indices, states of some layers."""
        if self.device.type != "cuda":
            return False
        states = 4 * self.x.size(0) * max(each.size(-1) for each in network.parameters()) * self.x.itemsize
        needed = self.x.nbytes + _BYTES_OF_EDGE * self.adjs[0].num_edges + states
        return needed > _DEVICE_SHARE * free_memory(self.device)

    def outputs_of_rows(self, states: Tensor, rows: Tensor) -> Tensor:
        """Outputs of nodes or pairs, on the CPU, from the result of `outputs`."""
        parts = [self.read(states, self.nodes(part).to(states.device)) for part in rows.split(_EVALUATED_AT_ONCE)]
        return torch.cat(parts).cpu()

"""Graphs that are split, normalised and sorted once before training, and cut into batches in every epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.nn import MeanAggregation, SumAggregation

from graphprism._checks import check_type
from graphprism.datasets import PackedDataset
from graphprism.nn import GNN, MODELS
from graphprism.ops import RelationalAdj
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.ops.batches import Batches, BlockDiagonal
from graphprism.ops.csr import trusted_csr_sum
from graphprism.training.edge_weights import run_weights
from graphprism.training.optim import epoch_order
from graphprism.training.run import Run
from graphprism.training.run_splits import run_splits
from graphprism.transforms import LaplacianPE, LaplacianSpectrum, RandomWalkPE


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """The graphs of a step that this process works on.

    Attributes:
        x: (N, F) features or types of the nodes.
        adj: The edges, with relations and coefficients; a list where layers have splits of their own.
        owner: (N,) the graph of each node.
        ptr: (B + 1,) where the nodes of each graph begin.
        y: Targets, one row per graph.
        edge_attr: (E, D) types of the edges, for networks that take them.
        pe: (N, K) positional features, or (N, K, 2) pairs, for networks that take them.
        edge_pe: (E, K) those of edges, for networks that take them.
        rows: Positions of its graphs in the requested order.
        total: Number of graphs of the step, those of other processes included.
    """

    x: Tensor
    adj: RelationalAdj | PaddedAdj | list[RelationalAdj]
    owner: Tensor
    ptr: Tensor
    y: Tensor
    edge_attr: Tensor | None
    pe: Tensor | None
    edge_pe: Tensor | None
    rows: slice
    total: int

    @property
    def inputs(self) -> dict[str, Any]:
        """What the network is called with."""
        return {
            "x": self.x,
            "edge_index": self.adj,
            "edge_attr": self.edge_attr,
            "batch": self.owner,
            "batch_size": self.ptr.numel() - 1,
            "pe": self.pe,
            "edge_pe": self.edge_pe,
        }

    def read(self, output: Tensor) -> Tensor:
        """The outputs of its graphs: those of the network."""
        return output


# Graphs per call of the positional transform, which searches all edges of the call for each of its graphs.
_POSITIONS_AT_ONCE = 64


def edge_needs(run: Run, dataset: PackedDataset) -> tuple[str, bool]:
    """The edge normalisation of a run's convolution, and whether it takes types of edges."""
    convolution = MODELS[run.model]
    return convolution.edge_norm or "none", convolution.takes_edge_attr and bool(dataset.edge_types)


def split_graphs(run: Run, dataset: PackedDataset, whole: Batch) -> list[RelationalAdj]:
    """All graphs as one, for every split of the run (one where all layers share it), sorted, with weights as given."""
    relational = MODELS[run.model].relational
    weight = run_weights(run, dataset, torch.float64 if run.precision == "float64" else torch.float32)
    found = []
    for split in run_splits(run, dataset) if relational else (None,):
        edge_type, relations = (None, 1) if split is None else (split(whole), split.num_relations or 1)
        adj = RelationalAdj(whole.edge_index, edge_type, weight, num_relations=relations, num_nodes=whole.num_nodes)
        found.append(adj.prepare())
    return found


def positions(run: Run, dataset: PackedDataset) -> tuple[Tensor | None, Tensor | None]:
    """Positional features of all nodes, (ΣN, k), or pairs for an encoder, (ΣN, k, 2); and those of all edges."""
    if not run.pe:
        return None, None
    if run.pe_encoder == "walk":
        whole = RandomWalkPE(run.walk_steps, edge_attr_name="edge_pe")(dataset.batch(torch.arange(len(dataset))))
        return whole.pe, whole.edge_pe if run.edge_walks else None
    transform, found = (LaplacianPE if run.pe_encoder is None else LaplacianSpectrum)(run.pe), []
    for group in torch.arange(len(dataset)).split(_POSITIONS_AT_ONCE):
        batch = dataset.batch(group)
        batch.edge_index = batch.edge_index.contiguous()
        found.append(transform(batch).pe)
    return torch.cat(found), None


# Nodes and edges cut at once: all of an epoch on ZINC12k, some hundred megabytes of memory at most.
_CUT_AT_ONCE = 1_000_000
# Most neighbours of a node: with more, a padded table of neighbours is mostly empty.
_MOST_SLOTS = 8


class PreparedDataset:
    """A data set prepared once for a run, on the device where it will be used.

    The graphs are one block-diagonal graph, split into relations, normalised for the convolution of the run and sorted;
    positional features are computed. An epoch only cuts that into batches, hundreds at once.

    Args:
        run: The run, of which split, model, positional features, precision and seed are used.
        dataset: Graphs with targets.
        device: Where the batches will be.

    >>> from graphprism.datasets import molecules
    >>> data = PreparedDataset(Run(), molecules(24))
    >>> [batch.y.size(0) for batch in data.batches(data.subset("train"), batch_size=8)]
    [8, 8, 4]
    """

    def __init__(self, run: Run, dataset: PackedDataset, device: torch.device | str = "cpu") -> None:
        check_type("run", run, Run, "a Run")
        check_type("dataset", dataset, PackedDataset, "a PackedDataset")
        self.dataset, self._seed = dataset, run.seed
        dtype = torch.float64 if run.precision == "float64" else torch.float32
        whole = dataset.batch(torch.arange(len(dataset)))
        edge_norm, takes_edge_attr = edge_needs(run, dataset)
        plain = split_graphs(run, dataset, whole)
        weighted = [each if edge_norm == "none" else each.normalized(edge_norm, dtype) for each in plain]
        first = BlockDiagonal(weighted[0].to(device), whole.ptr)
        # edge features have one order, that of the first split
        self._blocks = [first, *(BlockDiagonal(each.to(device), whole.ptr, first) for each in weighted[1:])]
        self._table = _table(run, plain[0], edge_norm, dtype, torch.device(device)) if len(plain) == 1 else None
        self._x = _in_precision(whole.x, dtype).to(device)
        self._y = _in_precision(whole.y, dtype).to(device)
        self._edge_attr = whole.edge_attr.to(device) if takes_edge_attr else None
        pe, edge_pe = positions(run, dataset)
        self._pe = None if pe is None else pe.to(device, dtype)
        self._edge_pe = None if edge_pe is None else edge_pe.to(device, dtype)
        self._size = (whole.num_nodes + whole.num_edges) / max(1, len(dataset))

    def subset(self, name: str) -> Tensor:
        """Numbers of the graphs of ``"train"``, ``"val"`` or ``"test"``, on the CPU."""
        return self.dataset.subset(name).cpu()

    def training_rows(self, epoch: int) -> Tensor:
        """The training graphs in the order of an epoch, on the CPU."""
        graphs = self.subset("train")
        return graphs[epoch_order(self._seed, epoch, graphs.numel())]

    def targets(self, graphs: Tensor) -> Tensor:
        """Targets of these graphs, on the device."""
        return self._y[graphs.to(self._y.device)]

    def batches(self, graphs: Tensor, batch_size: int, rank: int = 0, ranks: int = 1) -> Iterator[GraphBatch]:
        """Batches of these graphs in their order; of each, the part that belongs to process ``rank`` of ``ranks``.

        No host-device sync.
        """
        parts = _parts(graphs.numel(), batch_size, rank, ranks)
        at_once = max(1, int(_CUT_AT_ONCE / max(1.0, batch_size / ranks * self._size)))
        for first in range(0, len(parts), at_once):
            chosen = parts[first : first + at_once]
            numbers = torch.cat([graphs[rows] for rows, _ in chosen])
            lengths = [rows.stop - rows.start for rows, _ in chosen]
            yield from self._to_batches([each.batches(numbers, lengths) for each in self._blocks], numbers, chosen)

    def _to_batches(self, cuts: list[Batches], numbers: Tensor, parts: list[tuple[slice, int]]) -> Iterator[GraphBatch]:
        cut = cuts[0]  # nodes, edges and graphs are cut alike for all splits
        x, y = self._x[cut.nodes], self.targets(numbers)
        edge_attr = None if self._edge_attr is None else self._edge_attr[cut.edges]
        pe = None if self._pe is None else self._pe[cut.nodes]
        edge_pe = None if self._edge_pe is None else self._edge_pe[cut.edges]
        bounds = (map(_slice, pairwise(each)) for each in (cut.node_bounds, cut.edge_bounds, cut.ptr_bounds))
        adjs: Sequence[RelationalAdj | PaddedAdj | list[RelationalAdj]] = cut.adjs
        if self._table is not None:
            adjs = _cut_table(self._table, cut)
        elif len(cuts) > 1:
            adjs = [list(each) for each in zip(*(each.adjs for each in cuts), strict=True)]
        done = 0
        for adj, nodes, edges, ptr, (rows, total) in zip(adjs, *bounds, parts, strict=True):
            begin, done = done, done + rows.stop - rows.start
            yield GraphBatch(
                x=x[nodes],
                adj=adj,
                owner=cut.owner[nodes],
                ptr=cut.ptr[ptr],
                y=y[begin:done],
                edge_attr=None if edge_attr is None else edge_attr[edges],
                pe=None if pe is None else pe[nodes],
                edge_pe=None if edge_pe is None else edge_pe[edges],
                rows=rows,
                total=total,
            )


def _table(
    run: Run, plain: RelationalAdj, edge_norm: str, dtype: torch.dtype, device: torch.device
) -> PaddedAdj | None:
    """All graphs as a padded table if that is faster: `relational_stack` on a GPU takes fewer launches.

    Measured on an H200, 32 molecules a step: see `benchmarks/README.md`, training.
    """
    is_stack = MODELS[run.model].fusable and not (run.remedy or run.norm or run.dropout or run.normalize)
    is_stack = is_stack and not run.ffn and run.activation == "relu" and run.split_layers == "all"
    is_stack = is_stack and not run.learned_split
    if device.type != "cuda" or not is_stack:
        return None
    table = PaddedAdj.build(plain, edge_norm, dtype)
    return table.relative().to(device) if table.num_slots <= _MOST_SLOTS else None


def _cut_table(table: PaddedAdj, cut: Batches) -> list[PaddedAdj]:
    """The tables of all batches: rows of the whole, with numbers counted from the first node of the batch."""
    device = table.numbers.device
    begin = torch.tensor(cut.node_bounds[:-1], device=device)
    lengths = torch.tensor(cut.node_bounds, device=device).diff()
    count = cut.node_bounds[-1]
    place = torch.arange(count, device=device) - begin.repeat_interleave(lengths, output_size=count)
    numbers = table.numbers[cut.nodes] + place[:, None].to(torch.int32) * table.base
    weights = table.weights[cut.nodes]
    spans = pairwise(cut.node_bounds)
    return [replace(table, numbers=numbers[span], weights=weights[span]) for span in map(_slice, spans)]


def _in_precision(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _parts(count: int, batch_size: int, rank: int, ranks: int) -> list[tuple[slice, int]]:
    """For every batch the rows that belong to one process, and how many rows the batch has."""
    starts = range(0, count, batch_size)
    sizes = [min(batch_size, count - start) for start in starts]
    return [
        (slice(start + size * rank // ranks, start + size * (rank + 1) // ranks), size)
        for start, size in zip(starts, sizes, strict=True)
    ]


def _slice(bounds: tuple[int, int]) -> slice:
    return slice(*bounds)


class GraphReadout(torch.nn.Module):
    """Sum or mean over the nodes of each graph: deterministic and without a host-device sync.

    PyG's readouts add in any order. This one replaces them in training; it holds no weights.

    Args:
        mean: Whether to divide by the number of nodes.

    Shapes: ``h`` (N, F), ``owner`` (N,) the graph of each node, ascending -> (B, F)

    >>> readout = GraphReadout(mean=True)
    >>> readout(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([0, 0, 1]), dim_size=3).tolist()
    [[2.0], [5.0], [0.0]]
    """

    def __init__(self, mean: bool) -> None:
        super().__init__()
        self.mean = mean

    def forward(self, h: Tensor, owner: Tensor | None, dim_size: int | None = None) -> Tensor:
        """One row for each of ``dim_size`` graphs, or for all nodes without ``owner``; without their number a sync."""
        if owner is None:
            owner, dim_size = h.new_zeros(h.size(0), dtype=torch.long), 1
        count = int(owner.max()) + 1 if dim_size is None else dim_size
        ptr = torch.searchsorted(owner, torch.arange(count + 1, device=owner.device))
        total: Tensor = _RunSum.apply(h, ptr, owner)  # type: ignore[no-untyped-call]
        return total / ptr.diff().clamp(min=1).to(total.dtype)[:, None] if self.mean else total


def readout_is_mean(network: GNN) -> bool:
    """Whether the readout of a network is a mean or a sum; engines have no other readout."""
    if not isinstance(network.readout, MeanAggregation | SumAggregation):
        raise ValueError(f"the readout must be a sum or a mean, got {network.readout}")
    return isinstance(network.readout, MeanAggregation)


class _RunSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, ptr: Tensor, owner: Tensor) -> Tensor:
        ctx.save_for_backward(owner)
        return trusted_csr_sum(ptr, torch.arange(h.size(0), device=h.device), None, h)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (owner,) = ctx.saved_tensors
        return grad.index_select(0, owner), None, None

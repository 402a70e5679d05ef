"""A data set with everything done to it that can be done before training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.ops import Batches, BlockDiagonal, RelationalAdj, TableAdj
from graphprism.training.graph_batch import GraphBatch
from graphprism.training.graph_input import edge_needs, positions, split_graph
from graphprism.training.run import Run

# Nodes and edges cut at once: all of an epoch on ZINC12k, some hundred megabytes of memory at most.
_CUT_AT_ONCE = 1_000_000
# Neighbours of a node from which on a table of them is mostly empty.
_MOST_SLOTS = 8


class PreparedDataset:
    """A data set prepared once for a run, on the device where it will be used.

    The graphs are one block-diagonal graph, split into relations, normalised as the convolution of the run wants it and
    sorted; positional features are computed. What is left for an epoch is to cut that into batches, hundreds at once.

    Args:
        run: The run; its split, model, number of positional features and precision count.
        dataset: Graphs with targets.
        device: Where the batches will be.

    >>> from graphprism.datasets import molecules
    >>> data = PreparedDataset(Run(), molecules(24))
    >>> [batch.y.size(0) for batch in data.batches(data.subset("train"), batch_size=8)]
    [8, 8, 4]
    """

    def __init__(self, run: Run, dataset: PackedDataset, device: torch.device | str = "cpu") -> None:
        self.dataset = dataset
        dtype = torch.float64 if run.precision == "float64" else torch.float32
        whole = dataset.batch(torch.arange(len(dataset)))
        edge_norm, takes_edge_attr = edge_needs(run, dataset)
        plain = split_graph(run, whole)
        weighted = plain if edge_norm == "none" else plain.normalized(edge_norm, dtype)
        self._blocks = BlockDiagonal(weighted.to(device), whole.ptr)
        self._table = _table(run, plain, edge_norm, dtype, torch.device(device))
        self._x = _in_precision(whole.x, dtype).to(device)
        self._y = _in_precision(whole.y, dtype).to(device)
        self._edge_attr = whole.edge_attr.to(device) if takes_edge_attr else None
        self._pe = positions(dataset, run.pe).to(device, dtype) if run.pe else None
        self._size = (whole.num_nodes + whole.num_edges) / max(1, len(dataset))

    def subset(self, name: str) -> Tensor:
        """Numbers of the graphs of ``"train"``, ``"val"`` or ``"test"``, on the CPU."""
        return self.dataset.subset(name).cpu()

    def targets(self, graphs: Tensor) -> Tensor:
        """Targets of these graphs, on the device."""
        return self._y[graphs.to(self._y.device)]

    def batches(self, graphs: Tensor, batch_size: int, rank: int = 0, ranks: int = 1) -> Iterator[GraphBatch]:
        """Batches of these graphs in their order; of each, the part that belongs to process ``rank`` of ``ranks``.

        No number is asked of the device, which would make Python wait for it.
        """
        parts = _parts(graphs.numel(), batch_size, rank, ranks)
        at_once = max(1, int(_CUT_AT_ONCE / max(1.0, batch_size / ranks * self._size)))
        for first in range(0, len(parts), at_once):
            chosen = parts[first : first + at_once]
            numbers = torch.cat([graphs[rows] for rows, _ in chosen])
            lengths = [rows.stop - rows.start for rows, _ in chosen]
            yield from self._to_batches(self._blocks.batches(numbers, lengths), numbers, chosen)

    def _to_batches(self, cut: Batches, numbers: Tensor, parts: list[tuple[slice, int]]) -> Iterator[GraphBatch]:
        x, y = self._x[cut.nodes], self.targets(numbers)
        edge_attr = None if self._edge_attr is None else self._edge_attr[cut.edges]
        pe = None if self._pe is None else self._pe[cut.nodes]
        bounds = (map(_slice, pairwise(each)) for each in (cut.node_bounds, cut.edge_bounds, cut.ptr_bounds))
        adjs: Sequence[RelationalAdj | TableAdj] = cut.adjs if self._table is None else _cut_table(self._table, cut)
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
                rows=rows,
                total=total,
            )


def _table(run: Run, plain: RelationalAdj, edge_norm: str, dtype: torch.dtype, device: torch.device) -> TableAdj | None:
    """The whole as a table where that is faster: `relational_stack` on a GPU, whose launches it spares.

    Measured on an H200, 32 molecules a step: see `benchmarks/README.md`, training.
    """
    is_stack = run.model in ("gcn", "mrs-gcn") and run.norm is None and not run.dropout
    if device.type != "cuda" or not is_stack:
        return None
    table = TableAdj.build(plain, edge_norm, dtype)
    return table.relative().to(device) if table.num_slots <= _MOST_SLOTS else None


def _cut_table(table: TableAdj, cut: Batches) -> list[TableAdj]:
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

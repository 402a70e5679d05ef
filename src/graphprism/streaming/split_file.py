"""Out-of-core splits: passes over an edge file, with one value per node in memory."""

from __future__ import annotations

import contextlib
import json
import math
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphprism._checks import check_whole
from graphprism._files import claim, not_writable, write_whole
from graphprism.splitting import parse_split, split_text
from graphprism.splitting.graph import Graph
from graphprism.splitting.orderings import FixedOrder
from graphprism.splitting.ranks import factors_of
from graphprism.splitting.split import Split
from graphprism.splitting.splits import (
    DOWN,
    TIE,
    UP,
    ByAttribute,
    ByDirection,
    ByOrder,
    Comparison,
    prepare,
)
from graphprism.streaming.arrow import holds_numbers, pyarrow
from graphprism.streaming.edge_file import EdgeFile, EdgeFileError, from_keys, open_edges
from graphprism.streaming.growing_parquet import GrowingParquet
from graphprism.streaming.mutual_edges import MOST_NODES, MutualEdges
from graphprism.streaming.page_rank import page_rank
from graphprism.streaming.passes import Passes, Progress
from graphprism.streaming.typed_edges import TypedEdges, open_split

# Orderings that can be computed by passes over the edges, with one or two values per node.
STREAMED = ("degree", "ppr")
# Unused ids cost memory, too: at most this many ids per edge, and this many more, are allowed without `sparse_ids`.
_SPARE_IDS_PER_EDGE, _SPARE_IDS = 16, 1 << 24

# Most relations that get a name and a count in the output.
_MOST_COUNTED = 4096
# Signed, since not every Parquet reader supports unsigned types.
_KINDS = (torch.int8, torch.int16, torch.int32, torch.int64)


def split_file(
    edges: str | os.PathLike[str],
    output: str | os.PathLike[str],
    by: str | Split = "degree",
    *,
    source: str | None = None,
    target: str | None = None,
    graph: str | None = None,
    num_nodes: int | None = None,
    undirected: bool = False,
    sparse_ids: bool = False,
    progress: Progress | None = None,
) -> TypedEdges:
    r"""Splits the edges of a file into relations and writes them, with all their columns, to a Parquet file.

    The relations are those of `SplitEdges`, whose column is ``edge_type``. The edges are read twice (for ``direction``
    and ``ppr`` three times; steps of ``ppr`` read a copy of 8 bytes an edge), memory holds one value per node and one
    chunk. A process that was killed leaves a folder ``.NAME.work`` beside the output; the same call goes on from there.
    ``output`` appears whole.

    If there is a column ``graph_id``, or ``graph`` names another one, each of the graphs that it numbers is split by
    itself: nodes of two graphs are two nodes, also with the same id. They are numbered as with ``sparse_ids``; ids of
    graphs and nodes are below 2^31.

    Args:
        edges: Parquet, CSV, ``.npy``, ``.npz`` or a folder of Parquet files; see `open_edges`.
        output: The Parquet file to write; an existing one is replaced.
        by: A split, or its text: ``degree``, ``ppr``, ``degree, ppr`` (the second breaks ties of the first),
            ``direction``, ``attr(NAME)`` with the name of a column, and products with ``*``.
        source: Column of source nodes; guessed by default.
        target: Column of target nodes; guessed by default.
        graph: Column of the graph of every edge; by default ``graph_id``, if there is one.
        num_nodes: Number of nodes, if it exceeds the largest id plus one. It affects only the tolerance of ``ppr``.
        undirected: Add the reverse of every edge, after all edges, for files that list an edge once.
        sparse_ids: Allow any 64-bit integers as ids, not only numbers from 0. An extra pass collects them; memory holds
            8 more bytes per node, and each end is found by bisection.
        progress: Called with the name of a pass, the edges done in it, and their total number if known.

    Raises:
        EdgeFileError: The file cannot be used; a `ValueError` of one sentence.
        OSError: The output cannot be written, or another process is writing it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "path.csv")
    ...     _ = file.write_text("source,target\n0,1\n1,0\n1,2\n2,1\n")
    ...     split_file(file, Path(folder, "types.parquet")).read()["edge_type"].tolist()
    [0, 1, 1, 0]
    """
    split = parse_split(by) if isinstance(by, str) else by
    check_streamed(split)
    if num_nodes is not None:
        check_whole("num_nodes", num_nodes)
    found = open_edges(edges, source=source, target=target, graph=graph, undirected=undirected)
    if found.graph is not None and num_nodes is not None:
        must = f"`num_nodes` must be None for several graphs (column {found.graph})"
        raise EdgeFileError(found.path, f"{must}, got {num_nodes}")
    output = Path(output)
    if output.exists() and output.resolve() in {path.resolve() for path in found.files}:
        raise EdgeFileError(output, "the output must not be the edge file")
    if "edge_type" in found.columns:
        raise EdgeFileError(found.path, "must not have a column `edge_type` yet: rename it")
    _check_attributes(split, found)
    folder = output.with_name(f".{output.name}.work")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with claim(folder / "claim") as mine:
            if not mine:
                raise OSError(f"{output}: another process is writing it; wait for it or name another file")
            try:
                options = _Options(num_nodes, sparse_ids or found.graph is not None)
                _Job(found, split, options, folder, progress or _silent).run(output)
            except ValueError:  # the edges are invalid: nothing to resume after they are replaced
                _clear(folder)
                raise
            _clear(folder)
        folder.rmdir()
    except OSError as error:
        raise error if error.errno is None else not_writable(output.parent, error, "edges") from error
    except ValueError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise
    return open_split(output)


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != "claim":
            path.unlink()


def check_streamed(split: Split) -> None:
    """Raises `ValueError` if a factor of ``split`` cannot be computed by passes over the edges."""
    for factor in factors_of(split):
        if isinstance(factor, ByOrder):
            bad = [each for each in factor.orderings if each not in STREAMED]
            if bad:
                raise ValueError(f"orderings of edges in a file must be one of {list(STREAMED)}, got {bad[0]!r}")
        elif isinstance(factor, ByAttribute) and factor.column is not None:
            raise ValueError(f"attributes of edges in a file must have a column of their own, got {factor!r}")
        elif not isinstance(factor, ByAttribute | ByDirection):
            raise ValueError(f"edges in a file are split by order, direction and attribute, got {factor!r}")


def _check_attributes(split: Split, edges: EdgeFile) -> None:
    for factor in factors_of(split):
        if isinstance(factor, ByAttribute) and factor.attribute not in edges.columns:
            there = ", ".join(edges.columns)
            raise EdgeFileError(edges.path, f"has no column {factor.attribute!r}; there are {there}")


def _silent(name: str, done: int, total: int | None) -> None:
    """Default progress: shows nothing."""


class _Options(NamedTuple):
    num_nodes: int | None
    sparse_ids: bool


class _Job:
    """The passes of one split, in order; each can be interrupted anywhere and resumed."""

    def __init__(self, edges: EdgeFile, split: Split, options: _Options, folder: Path, progress: Progress) -> None:
        self._edges, self._split, self._options, self._folder = edges, split, options, folder
        self._factors, self._progress = factors_of(split), progress
        self._fingerprint = edges.fingerprint()
        self._keep_own_files()
        self._passes = Passes(edges, folder, options.sparse_ids, progress)
        self._state = self._passes.state
        self._pending: list[Tensor] = []  # ids not yet merged into the array of ids
        self._passes.before_save.append(self._merge_ids)
        self._mutual: MutualEdges | None = None

    def _keep_own_files(self) -> None:
        """Removes files in the folder that belong to another split or other edges."""
        edges, key_path = self._edges, self._folder / "key"
        ends = [edges.source, edges.target, edges.graph]
        key = json.dumps([self._fingerprint, split_text(self._split), *ends, edges.undirected])
        key += repr(self._options)
        if not (key_path.is_file() and key_path.read_text("utf-8") == key):
            _clear(self._folder)
            write_whole(key_path, key, "edges")

    def run(self, output: Path) -> None:
        """Runs all remaining passes."""
        orders = {each for factor in self._factors if isinstance(factor, ByOrder) for each in factor.orderings}
        if self._options.sparse_ids:
            self._passes.run(0, "collecting ids", (), self._collect)
            self._merge_ids()
        # Attributes without a number of relations: it follows from their largest value.
        free = [each for each in self._factors if isinstance(each, ByAttribute) and not each.num_relations]
        self._passes.run(1, "counting", [each.attribute for each in free], partial(self._count, orders, free))
        stage = 2
        if "ppr" in orders:
            stage = page_rank(self._passes, stage, _resized(self._counts("entering"), self._state.num_nodes))
        if any(isinstance(factor, ByDirection) for factor in self._factors):
            self._find_mutual(stage)
        self._write(output)

    def _collect(self, source: Tensor, target: Tensor, table: Any) -> None:
        """Collects ids; merges them once there are as many new ones as known, for O(n log n) in total."""
        self._pending.append(torch.cat([source, target]).unique())
        known = self._state.arrays.get("ids", source[:0])
        if sum(each.numel() for each in self._pending) > max(known.numel(), 1 << 22):
            self._merge_ids()

    def _merge_ids(self) -> None:
        if self._pending:
            known = self._state.arrays.get("ids", self._pending[0][:0])
            self._state.arrays["ids"] = torch.cat([known, *self._pending]).unique()
            self._pending = []

    def _count(self, orders: set[Any], free: list[ByAttribute], source: Tensor, target: Tensor, table: Any) -> None:
        """Degrees, the number of nodes and the largest value of each of the ``free`` attributes."""
        state = self._state
        self._check_ids(source, target)
        if "degree" in orders:
            self._increment("leaving", source)
        if "ppr" in orders:
            self._increment("entering", target[source != target])
        for factor in free:
            largest = int(self._attribute(factor, source, target, table).max())
            state.maxima[factor.attribute] = max(state.maxima.get(factor.attribute, -1), largest)

    def _check_ids(self, source: Tensor, target: Tensor) -> None:
        low, high = min(int(source.min()), int(target.min())), max(int(source.max()), int(target.max()))
        most = self._options.num_nodes
        advice = "pass `sparse_ids=True` (--sparse-ids) for ids of any size"
        if low < 0:
            raise EdgeFileError(self._edges.path, f"node ids must be numbers from 0, got {low}; {advice}")
        if most is not None and high >= most:
            raise EdgeFileError(self._edges.path, f"node ids must be below {most}, the number of nodes, got {high}")
        if most is None and high >= self._most_ids():
            raise EdgeFileError(
                self._edges.path,
                f"node ids must be numbers from 0 with few gaps, got {high}, for which a value per node takes "
                f"{8 * high / 1e9:,.0f} GB; {advice}",
            )
        self._state.num_nodes = max(self._state.num_nodes, high + 1, most or 0)

    def _most_ids(self) -> int:
        rows = self._edges.num_rows
        if rows is None:  # an edge takes at least four bytes of text
            rows = self._edges.path.stat().st_size // 4
        return _SPARE_IDS_PER_EDGE * rows + _SPARE_IDS

    def _increment(self, name: str, nodes: Tensor) -> None:
        counts = self._counts(name)
        if counts.numel() < self._state.num_nodes:
            # Grow geometrically: ascending ids then cause few copies.
            counts = _resized(counts, max(self._state.num_nodes, counts.numel() + counts.numel() // 4))
        counts.index_add_(0, nodes, torch.ones((), dtype=counts.dtype).expand(nodes.numel()))
        self._state.arrays[name] = counts

    def _counts(self, name: str) -> Tensor:
        few = self._edges.num_rows is not None and self._edges.num_rows < 1 << 30
        return self._state.arrays.get(name, torch.zeros(0, dtype=torch.int32 if few else torch.int64))

    def _find_mutual(self, stage: int) -> None:
        state = self._state
        if state.num_nodes > MOST_NODES:
            raise EdgeFileError(
                self._edges.path, f"a split by direction must have at most {MOST_NODES} nodes, got {state.num_nodes}"
            )
        mutual = self._mutual = MutualEdges(self._folder, state.num_edges, state.written)

        def add(source: Tensor, target: Tensor, table: Any) -> None:
            mutual.add(source.numpy(), target.numpy())

        def sync() -> None:
            mutual.sync()
            state.written = mutual.written

        self._passes.before_save.append(sync)
        try:
            self._passes.run(stage, "spilling pairs", (), add)
        finally:
            mutual.close()
        for number in range(mutual.count):
            self._progress("finding mutual pairs", number, mutual.count)
            mutual.resolve(number)

    def _write(self, output: Path) -> None:
        """The last pass: appends each chunk with its edge types to the output."""
        pa, sizes = pyarrow(), [self._size(factor) for factor in self._factors]
        num_relations = math.prod(sizes)
        comparisons = {
            place: [self._comparison(str(each), factor.tolerance) for each in factor.orderings]
            for place, factor in enumerate(self._factors)
            if isinstance(factor, ByOrder)
        }
        kind = next((kind for kind in _KINDS if num_relations <= torch.iinfo(kind).max), None)
        if kind is None:
            raise EdgeFileError(self._edges.path, f"must have at most 2^63 - 1 relations, got {num_relations}")
        with GrowingParquet(self._folder) as out:
            buckets = self._mutual.count if self._mutual else 0
            fresh = {"taken": [0] * buckets, "counts": [0] * num_relations if num_relations <= _MOST_COUNTED else []}
            note = out.parts[-1].note if out.parts else fresh
            self._progress("writing", out.rows, self._state.num_edges)
            for table in self._edges.chunks(self._edges.columns, out.rows):
                source, target = self._passes.ends(table)
                relation, stride = torch.zeros_like(source), 1
                for place, (factor, size) in enumerate(zip(self._factors, sizes, strict=True)):
                    if isinstance(factor, ByAttribute):
                        part = self._attribute(factor, source, target, table)
                    elif self._mutual is not None and isinstance(factor, ByDirection):
                        part = torch.from_numpy(self._mutual.take(source.numpy(), target.numpy(), note["taken"]))
                    else:
                        part = _compare(comparisons[place], source, target)
                    relation.add_(part, alpha=stride)
                    stride *= size
                if note["counts"]:
                    found = torch.bincount(relation, minlength=num_relations).tolist()
                    note["counts"] = [a + b for a, b in zip(note["counts"], found, strict=True)]
                out.append(table.append_column("edge_type", pa.array(relation.to(kind).numpy())), note)
                self._progress("writing", out.rows, self._state.num_edges)
            if not out.parts:
                ends = {name: pa.array([], pa.int64()) for name in (self._edges.source, self._edges.target)}
                out.append(pa.table({**ends, "edge_type": pa.array([], pa.int8())}), note)
            if self._edges.fingerprint() != self._fingerprint:
                raise EdgeFileError(self._edges.path, "was modified while it was read: split it again")
            out.finish(output, self._about(num_relations, note["counts"]))

    def _size(self, factor: Split) -> int:
        """Number of relations of a factor; if unknown, the largest value of the attribute plus one."""
        if isinstance(factor, ByAttribute) and factor.num_relations is None:
            return self._state.maxima.get(factor.attribute, 0) + 1
        assert factor.num_relations is not None  # fixed for `by_order` and `by_direction`
        return factor.num_relations

    def _comparison(self, ordering: str, tolerance: float | None) -> Comparison:
        """The comparison of `by_order` on a graph in memory, so that ties are the same."""
        state = self._state
        values = _resized(self._counts("leaving"), state.num_nodes) if ordering == "degree" else state.arrays["rank"]
        if not state.num_nodes:
            return Comparison(values, 0.0, None)
        # The tolerance is a multiple of the largest value of a graph: prepared for one node, it needs no memory for the
        # others.
        one_node = Graph(torch.empty(2, 0, dtype=torch.long), 1)
        margin = prepare(FixedOrder(torch.ones_like(values[:1])), one_node, tolerance)
        floor = None if margin.floor is None else (margin.floor * self._largest(values)).expand(state.num_nodes)
        return Comparison(values, margin.relative, floor)

    def _largest(self, values: Tensor) -> Tensor:
        """The largest value in the graph of each node, (N,), or of the only graph, (1,)."""
        if self._edges.graph is None:
            return values.max().reshape(1)
        _, batch = from_keys(self._state.arrays["ids"])
        graph = batch.unique_consecutive(return_inverse=True)[1]
        largest = values.new_zeros(int(graph[-1]) + 1).scatter_reduce_(0, graph, values, "amax")
        return largest[graph]

    def _attribute(self, factor: ByAttribute, source: Tensor, target: Tensor, table: Any) -> Tensor:
        """Applies the split to the edges of a chunk."""
        name, column = factor.attribute, table.column(factor.attribute)
        numbers = holds_numbers(column)
        if not numbers or column.null_count:
            got = "rows without a value" if numbers else str(column.type)
            raise EdgeFileError(self._edges.path, f"column {name!r} must hold one whole number per edge, got {got}")
        values = torch.from_numpy(np.array(column.to_numpy()))
        edges: dict[str, Any] = {"edge_index": torch.stack([source, target]), "num_nodes": self._state.num_nodes}
        chunk: Any = SimpleNamespace(**{**edges, name: values})
        return factor(chunk)

    def _about(self, num_relations: int, counts: list[int]) -> dict[str, Any]:
        names = self._split.names
        return {
            "split": split_text(self._split),
            "source": self._edges.source,
            "target": self._edges.target,
            "num_nodes": self._state.num_nodes,
            "num_edges": self._state.num_edges,
            "num_relations": num_relations,
            "names": list(names) if names and len(names) <= _MOST_COUNTED else None,
            "counts": counts or None,
            "sparse_ids": self._options.sparse_ids,
            "graph": self._edges.graph,
        }


def _compare(comparisons: list[Comparison], source: Tensor, target: Tensor) -> Tensor:
    """Up, down or tie for each edge; the first ordering without a tie decides."""
    relation = torch.full_like(source, TIE)
    for compare in comparisons:
        rises, falls = compare(source, target)
        undecided = relation == TIE
        relation.masked_fill_(rises & undecided, UP).masked_fill_(falls & undecided, DOWN)
    return relation


def _resized(counts: Tensor, size: int) -> Tensor:
    return torch.nn.functional.pad(counts, (0, size - counts.numel()))

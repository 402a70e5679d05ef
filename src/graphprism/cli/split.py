"""``graphprism split``."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from graphprism._text import counted, percent
from graphprism.cli.arguments import Undirected, exit_on_user_error, plain_warnings

if TYPE_CHECKING:
    from graphprism.streaming import TypedEdges


def split(
    edges: Annotated[
        Path, typer.Argument(metavar="EDGES", help="Parquet, a folder of it, CSV (gz), .npy (2, E) or packed .npz.")
    ],
    by: Annotated[
        str, typer.Option(help="degree, ppr, direction or attr(COLUMN); A, B: B breaks ties of A; A * B: product.")
    ] = "degree",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The Parquet file to write.")] = None,
    source: Annotated[str | None, typer.Option(help="Column of source nodes. Default: guessed.")] = None,
    target: Annotated[str | None, typer.Option(help="Column of destination nodes. Default: guessed.")] = None,
    graph: Annotated[str | None, typer.Option(help="Column of the graph of each edge. Default: graph_id.")] = None,
    nodes: Annotated[int | None, typer.Option(help="Number of nodes, if larger than the largest id + 1.")] = None,
    undirected: Undirected = False,
    sparse_ids: Annotated[
        bool, typer.Option("--sparse-ids", help="Ids are arbitrary 64-bit integers instead of 0..N-1; slower.")
    ] = False,
    sql: Annotated[
        str | None, typer.Option(metavar="duckdb|spark", help="Print the split as a SQL query instead of running it.")
    ] = None,
) -> None:
    """Split the edges of a file into relations, also if they do not fit into memory.

    The edges are read twice (ppr: 17 times, direction: three times); memory holds one value per node. After a kill the
    same command resumes. With a column graph_id, or --graph COLUMN, each graph is split by itself.
    """
    with exit_on_user_error(), plain_warnings():
        if sql is not None:
            typer.echo(_sql(edges, by, out, source, target, graph, undirected, sql))
            return
        if out is None:
            raise ValueError("-o must name the Parquet file to write, got none")
        from graphprism.streaming import split_file

        with EdgeProgress() as progress:
            found = split_file(
                edges,
                out,
                by,
                source=source,
                target=target,
                graph=graph,
                num_nodes=nodes,
                undirected=undirected,
                sparse_ids=sparse_ids,
                progress=progress,
            )
    _print(found)


def _sql(
    edges: Path,
    by: str,
    out: Path | None,
    source: str | None,
    target: str | None,
    graph: str | None,
    undirected: bool,
    dialect: str,
) -> str:
    if undirected:
        raise ValueError("--undirected must not come with --sql: add the reverse edges to the table")
    from graphprism.streaming import open_edges, split_sql

    found = open_edges(edges, source=source, target=target, graph=graph)
    if found.graph is not None:
        way = "give every node an id of its own, and leave the column out"
        raise ValueError(f"--sql must not come with a column {found.graph}, as it would merge nodes of graphs: {way}")
    place = f"{edges}/" if edges.is_dir() else str(edges)
    return split_sql(
        by, place, None if out is None else str(out), dialect=dialect, source=found.source, target=found.target
    )


def _print(found: TypedEdges) -> None:
    typer.echo(
        f"{found.path} is written: {counted(found.num_edges, 'edge')} of {counted(found.num_nodes, 'node')} in "
        f"{counted(found.num_relations, 'relation')}, checksummed."
    )
    if found.graph is not None:
        typer.echo(f"Each graph of the column {found.graph} is split by itself.")
    if found.counts is None or found.num_edges == 0:
        return
    table = Table("relation", "name", "edges", "share")
    names = found.names or [""] * found.num_relations
    for number, (name, count) in enumerate(zip(names, found.counts, strict=True)):
        table.add_row(str(number), name, f"{count:,}", percent(count, found.num_edges, 1))
    Console().print(table)


class EdgeProgress:
    """Shows the current pass and its edges on stderr: a bar on a terminal, else a line per pass."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._has_bar = console.is_terminal
        columns = (TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.percentage:>3.0f}%"))
        self._bar = Progress(
            *columns, TimeRemainingColumn(), console=console, transient=True, disable=not self._has_bar
        )
        self._task = self._bar.add_task("", total=None)
        self._name = ""

    def __enter__(self) -> EdgeProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, name: str, done: int, total: int | None) -> None:
        """A chunk is done."""
        if name != self._name:
            self._name = name
            self._bar.reset(self._task, description=name, total=total, completed=done)
            if not self._has_bar:
                place = f", from edge {done:,}" if done else ""
                print(f"{name}{place}", file=sys.stderr, flush=True)
        self._bar.update(self._task, completed=done, total=total)

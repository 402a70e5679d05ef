"""``graphprism inspect``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from graphprism.analysis import Certificate, SplitComparison, certify, inspect_graph
from graphprism.cli.arguments import Data, GraphName, Labels, Undirected, exit_on_user_error
from graphprism.experiments.find_graph import find_graph


def inspect(
    graph: GraphName,
    split: Annotated[
        str | None, typer.Option(help="An ordering, such as degree or degree,ppr; all of them without it.")
    ] = None,
    undirected: Undirected = False,
    labels: Labels = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    data: Data = None,
) -> None:
    """Say which splits keep the nodes of a graph or a dataset apart, and what is proven about them."""
    with exit_on_user_error():
        found = find_graph(graph, data, labels=labels, undirected=undirected)
        result: Certificate | SplitComparison = inspect_graph(found) if split is None else certify(found, split)
    if as_json:
        typer.echo(result.to_json())
    else:
        Console().print(result)

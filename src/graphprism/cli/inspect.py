"""``graphprism inspect``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from graphprism._text import suggest
from graphprism.cli.arguments import Data, GraphName, Labels, Undirected, exit_on_user_error

if TYPE_CHECKING:
    import torch

    from graphprism.analysis import Certificate, SplitComparison


def inspect(
    graph: GraphName,
    split: Annotated[
        str | None,
        typer.Option(help="A split, such as degree or degree, ppr * direction. Default: compare all orderings."),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(help="The layer to certify, such as mrs-gcn. Default: a plain sum of messages."),
    ] = None,
    undirected: Undirected = False,
    labels: Labels = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    data: Data = None,
) -> None:
    """Show which splits distinguish the nodes of a graph or a data set, with certificates.

    The third column of an edge list is the weight of edges. Under a line of column names it is so only if it is called
    weight (weights, edge_weight, w, value, val, strength), else it is ignored; the output says which.
    """
    with exit_on_user_error():
        from graphprism.analysis import FileGraph, certify, inspect_graph
        from graphprism.experiments.find_graph import find_graph

        make = None if layer is None else _layer(layer)
        found = find_graph(graph, data, labels=labels, undirected=undirected)
        result: Certificate | SplitComparison = (
            inspect_graph(found, layer=make) if split is None else certify(found, split, layer=make)
        )
    if as_json:
        typer.echo(result.to_json())
    else:
        Console().print(result)
        if isinstance(found, FileGraph):
            for text in filter(None, (_names(result, found.labels), found.note)):
                typer.echo(f"{found.name}: {text}.")


# More nodes of cycles are not named.
_MOST_NAMES = 12


def _names(result: Certificate | SplitComparison, labels: Sequence[str] | None) -> str:
    """The names of the nodes whose numbers a certificate shows; empty where nodes are numbers, or none is shown."""
    from graphprism.analysis import Certificate

    if not labels or not isinstance(result, Certificate) or result.num_graphs != 1:
        return ""
    shown = [*(result.witness or ()), *(node for each in result.relations for node in each.cycle)]
    chosen = sorted(list(dict.fromkeys(shown))[:_MOST_NAMES])
    return "; ".join(f"node {node} is {labels[node][:40]!r}" for node in chosen)


# Enough for two matrices per relation (directed layers): fewer channels would limit the rank.
_CHANNELS = 64


def _layer(name: str) -> Callable[[int], torch.nn.Module]:
    """Makes the layer of that name from the number of relations."""
    from graphprism.nn import CONVOLUTIONS

    known = [other for other, conv in CONVOLUTIONS.items() if conv.relational and conv.edge_norm is not None]
    if name not in known:
        raise ValueError(f"--layer must be one of {', '.join(known)}, got {name!r}{suggest(name, known)}")
    return lambda relations: CONVOLUTIONS[name].make(
        _CHANNELS, max(_CHANNELS, 2 * relations + 1), num_relations=relations
    )

"""Reads tables of nodes, edges and graphs from users' files, and guesses the role of their columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from graphprism._checks import check_path
from graphprism.datasets.preprocessing import wanted_columns
from graphprism.io.columns import SUFFIXES, Columns, read_columns
from graphprism.io.graphml import read_graphml_columns

# Names of files and columns, ignoring case, spaces and punctuation, in order of preference.
_FILES = {
    "nodes": ("nodes", "node", "vertices", "vertex", "entities", "atoms", "points", "papers", "users", "items"),
    "edges": (
        *("edges", "edge", "links", "link", "edgelist", "arcs", "bonds", "relations", "connections"),
        *("citations", "cites", "interactions", "follows", "adjacency"),
    ),
    "graphs": ("graphs", "graph", "molecules", "samples"),
}
_COLUMNS = {
    "id": ("id", "nodeid", "node", "vertex", "vertexid", "name", "key", "index", "atom", "atomid", "label"),
    "graph": ("graph", "graphid", "molecule", "moleculeid", "molid", "mol", "sample", "sampleid"),
    "source": ("source", "src", "from", "u", "sourceid", "fromid", "start", "head", "node1", "id1", "i", "a", "citing"),
    "destination": (
        *("target", "dst", "to", "v", "targetid", "toid", "end", "tail", "node2", "id2", "j", "b", "cited"),
        *("destination", "dest"),
    ),
    "graph_id": ("graph", "graphid", "id", "molecule", "moleculeid", "molid", "sample", "sampleid", "name", "index"),
    "fold": ("fold", "split", "set", "subset", "partition"),
}


@dataclass(frozen=True)
class GraphTables:
    """Tables of one graph, or of several.

    Attributes:
        edges: A row for every edge.
        nodes: A row for every node; None if nodes occur only in edges.
        graphs: A row for every graph, where graphs have targets.
        directed: Whether edges are directed; None if the file does not say.
    """

    edges: Columns
    nodes: Columns | None = None
    graphs: Columns | None = None
    directed: bool | None = None

    def with_new(self, new: GraphTables) -> GraphTables:
        """This graph with the nodes and edges of another table added to it."""
        nodes = new.nodes if self.nodes is None else self.nodes if new.nodes is None else self.nodes.joined(new.nodes)
        graphs = new.graphs if self.graphs is None else self.graphs
        return replace(self, edges=self.edges.joined(new.edges), nodes=nodes, graphs=graphs)


def read_tables(path: Path, files: Mapping[str, str] | None = None) -> GraphTables:
    """Reads a folder of CSV or Parquet files, or a GraphML file.

    Args:
        path: The folder or the file.
        files: Names of the files of ``nodes``, ``edges`` and ``graphs`` in the folder, where they cannot be guessed.

    Raises:
        ValueError: A file is missing or cannot be read.
    """
    check_path("path", path)
    if path.is_dir():
        found = _find_files(path, files or {})
        tables = {part: read_columns(file) for part, file in found.items()}
        return GraphTables(tables["edges"], tables.get("nodes"), tables.get("graphs"))
    nodes, edges, directed = read_graphml_columns(path)
    return GraphTables(edges, nodes, directed=directed)


def _find_files(folder: Path, given: Mapping[str, str]) -> dict[str, Path]:
    tables = [file for file in sorted(folder.iterdir()) if file.is_file() and _suffix(file) in SUFFIXES]
    found: dict[str, Path] = {}
    for part, names in _FILES.items():
        if given.get(part):
            found[part] = folder / given[part]
            continue
        matches = [file for name in names for file in tables if name in _words(file)]
        if matches:
            found[part] = matches[0]
    if "edges" not in found:
        there = ", ".join(file.name for file in tables[:12]) or "no CSV or Parquet file"
        raise ValueError(f"{folder}: must have a table of edges, such as edges.csv (--edges names it), got {there}")
    return found


def _suffix(file: Path) -> str:
    return Path(file.name.lower().removesuffix(".gz")).suffix


def _words(file: Path) -> set[str]:
    """The words of a file's name, and all of them as one: ``my-edges.csv.gz`` -> my, edges, myedges."""
    stem = file.name.lower().partition(".")[0]
    words = re.split(r"[^a-z0-9]+", stem)
    return {*words, "".join(words)}


def find_column(part: str, table: Columns, given: str | None, besides: Iterable[str] = ()) -> str:
    """The column of a table that is the ``part`` of `_COLUMNS`; empty where none has such a name.

    Raises:
        ValueError: The column named by the user does not exist.
    """
    if given:
        wanted_columns(table, [given])
        return given
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in table if name not in set(besides)}
    return next((plain[name] for name in _COLUMNS[part] if name in plain), "")

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
    "weight": ("weight", "weights", "edgeweight", "w", "strength", "value", "val"),
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
        notices: Sentences about files that were taken for tables although their names do not say so.
    """

    edges: Columns
    nodes: Columns | None = None
    graphs: Columns | None = None
    directed: bool | None = None
    notices: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, str]:
        """Names of the files by part, where every part is a file."""
        parts = {"nodes": self.nodes, "edges": self.edges, "graphs": self.graphs}
        names = {part: table.path.name for part, table in parts.items() if table is not None}
        return names if len(set(names.values())) == len(names) else {}

    def with_new(self, new: GraphTables) -> GraphTables:
        """This graph with the nodes and edges of another table added to it."""
        nodes = new.nodes if self.nodes is None else self.nodes if new.nodes is None else self.nodes.joined(new.nodes)
        graphs = new.graphs if self.graphs is None else self.graphs
        return replace(self, edges=self.edges.joined(new.edges), nodes=nodes, graphs=graphs)


def read_tables(
    path: Path, files: Mapping[str, str] | None = None, likely: Mapping[str, str] | None = None
) -> GraphTables:
    """Reads a folder of CSV or Parquet files, or a GraphML file.

    Args:
        path: The folder or the file.
        files: Names of the files of ``nodes``, ``edges`` and ``graphs`` in the folder, where they cannot be guessed.
        likely: Names as in ``files`` that are taken where the folder has such a file, before any guess.

    Raises:
        ValueError: A file is missing or cannot be read.
    """
    check_path("path", path)
    if path.is_dir():
        found, notices = _find_files(path, files or {}, likely or {})
        tables = {part: read_columns(file) for part, file in found.items()}
        return GraphTables(tables["edges"], tables.get("nodes"), tables.get("graphs"), notices=tuple(notices))
    if _suffix(path) in SUFFIXES:
        must = "must be the folder of the tables, edges and nodes,"
        raise ValueError(f"{path}: {must} got one table: name {path.parent}")
    nodes, edges, directed = read_graphml_columns(path)
    return GraphTables(edges, nodes, directed=directed)


def missing_table(folder: Path, part: str, why: str = "") -> ValueError:
    """The error for a folder without a table of ``part``: how to name it, and what the folder has."""
    there = ", ".join(file.name for file in _table_files(folder)[:12]) or "no CSV or Parquet file"
    named = f"(--{part} NAME or files={{{part!r}: NAME}} names it)"
    return ValueError(f"{folder}: must have a table of {part}{why}, such as {part}.csv {named}, got {there}")


def _table_files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.iterdir()) if file.is_file() and _suffix(file) in SUFFIXES]


def _find_files(folder: Path, given: Mapping[str, str], likely: Mapping[str, str]) -> tuple[dict[str, Path], list[str]]:
    """Files by part, and sentences about those that were found by their content."""
    there = _table_files(folder)
    found = {part: folder / given[part] for part in _FILES if given.get(part)}
    for part, names in _FILES.items():
        free = [file for file in there if file not in found.values()]
        matches = [file for file in free if file.name == likely.get(part)]
        matches += [file for name in names for file in free if name in _words(file)]
        if part not in found and matches:
            found[part] = matches[0]
    if "edges" in found and "nodes" in found:
        return found, []
    tables = {file: table for file in there if file not in found.values() and (table := _try_read(file)) is not None}
    notices = []
    for part, guess in (("edges", _guess_edges), ("nodes", _guess_nodes)):
        if part not in found:
            file = guess(tables, {each: read_columns(path) for each, path in found.items()})
            if file is not None:
                found[part] = file
                del tables[file]
                notices.append(f"{file.name} is taken as the table of {part} (--{part} names another).")
    if "edges" not in found:
        raise missing_table(folder, "edges")
    return found, notices


def _try_read(file: Path) -> Columns | None:
    """A table with rows, or None: beside tables a folder may hold a text that is none."""
    try:
        table = read_columns(file)
    except ValueError:
        return None
    return table if len(table.rows) else None


def _guess_edges(tables: Mapping[Path, Columns], found: Mapping[str, Columns]) -> Path | None:
    """Of tables without a telling name the one with the edges; None where that is not clear.

    It is the only one beside the nodes, the only one with columns named as both ends of edges, or the only one of which
    two columns hold ids of another table alone.
    """
    wide = {file: table for file, table in tables.items() if len(table) >= 2}
    if len(wide) == 1 and "nodes" in found:
        return next(iter(wide))
    named = [file for file, table in wide.items() if _has_ends(table)]
    if len(named) == 1:
        return named[0]
    held = [
        file
        for file, table in wide.items()
        for nodes in ([found["nodes"]] if "nodes" in found else [each for each in wide.values() if each is not table])
        if _has_ids_alone(table, nodes)
    ]
    return held[0] if len(set(held)) == 1 else None


def _has_ends(table: Columns) -> bool:
    source = find_column("source", table, None)
    return bool(source and find_column("destination", table, None, [source]))


def _has_ids_alone(edges: Columns, nodes: Columns) -> bool:
    """Whether the first two columns of texts or whole numbers hold only ids, which are there once in ``nodes``."""
    ends = [set(edges.text(name).tolist()) for name, column in edges.items() if column.dtype.kind in "iO"][:2]
    return len(ends) == 2 and any(
        set.union(*ends) <= values
        for name, column in nodes.items()
        if column.dtype.kind in "iO" and len(values := set(nodes.text(name).tolist())) == column.size
    )


def _guess_nodes(tables: Mapping[Path, Columns], found: Mapping[str, Columns]) -> Path | None:
    """Of the tables beside the edges the only one, or the only one with an id for both ends of every edge."""
    if "edges" not in found:
        return None
    wide = [file for file, table in tables.items() if len(table) >= 2]
    if len(tables) == 1 and wide:
        return wide[0]
    held = [file for file, table in tables.items() if _has_ids_alone(found["edges"], table)]
    return held[0] if len(held) == 1 else None


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

"""Reader of GraphML, safe against entity expansion."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import ClassVar, NamedTuple
from xml.parsers import expat

import numpy as np
import torch
from torch import Tensor

from graphprism._text import counted
from graphprism.io.columns import Columns
from graphprism.io.file_graph import FileGraph, GraphFileError, open_file, read_block

_NUMBERS = {"int", "long", "float", "double", "boolean"}
_WORDS = {"true": 1.0, "false": 0.0}
_LONGEST_NUMBER = 1000
# Deepest nesting of elements; nested graphs, which need more, are not supported.
_DEEPEST = 100


class _Key(NamedTuple):
    name: str
    kind: str  # "node", "edge", "all" or "graph"
    numeric: bool
    default: float | None


class GraphMLHandler:
    """SAX-style handler that collects nodes, edges and their attributes."""

    class Problem(Exception):
        """The file is XML but not a supported graph."""

    _NESTED: ClassVar[dict[str, str]] = {
        "hyperedge": "edges of more than two ends are not read",
        "port": "ports of nodes are not read",
    }

    def __init__(self) -> None:
        self.name = ""
        self.numbers: dict[str, int] = {}
        self.ends: list[int] = []
        self.undirected: list[bool] = []
        self._keys: dict[str, _Key] = {}
        self._values: dict[tuple[str, str], dict[int, float]] = {}
        self._texts: dict[tuple[str, str], dict[int, str]] = {}
        self._path: list[str] = []
        self._text: list[str] = []
        self._text_length = 0
        self._data_key = ""
        self._default_undirected = True

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        tag = name.rpartition(" ")[2]
        if not self._path and tag != "graphml":
            raise self.Problem(f"must be GraphML, got XML that begins with <{tag[:40]}>")
        if tag in self._NESTED:
            raise self.Problem(self._NESTED[tag])
        if len(self._path) == _DEEPEST:
            raise self.Problem(f"elements must be nested at most {_DEEPEST} deep")
        self._path.append(tag)
        self._text, self._text_length = [], 0
        if tag in ("key", "graph", "node", "edge", "data"):
            getattr(self, f"_start_{tag}")(attributes)

    def characters(self, text: str) -> None:
        """Text between tags."""
        if self._path and self._path[-1] in ("data", "default") and self._text_length <= _LONGEST_NUMBER:
            self._text.append(text[: _LONGEST_NUMBER + 1])
            self._text_length += len(text)

    def end(self, _: str) -> None:
        """An element ends."""
        tag, text = self._path.pop(), "".join(self._text).strip()
        if tag == "data" and self._path[-1] in ("node", "edge"):
            row = (len(self.numbers) if self._path[-1] == "node" else len(self.undirected)) - 1
            if (key := self._keys.get(self._data_key)) and key.numeric:
                self._values.setdefault((self._path[-1], self._data_key), {})[row] = self._number(text)
            elif key and text:
                self._texts.setdefault((self._path[-1], self._data_key), {})[row] = text[:_LONGEST_NUMBER]
        elif tag == "default" and self._path[-1] == "key":
            name, key = next(reversed(self._keys.items()))
            self._keys[name] = key._replace(default=self._number(text) if key.numeric else None)

    def columns(self, kind: str) -> dict[str, list[float]]:
        """The numeric attributes that every node or every edge has, by name."""
        rows = len(self.numbers) if kind == "node" else len(self.undirected)
        found: dict[str, list[float]] = {}
        for number, key in self._keys.items():
            values = self._values.get((kind, number), {})
            if key.default is not None and key.kind in (kind, "all"):
                values = {row: values.get(row, key.default) for row in range(rows)}
            if rows and len(values) == rows:
                found[key.name] = [values[row] for row in range(rows)]
        return found

    def left_out(self, read: dict[str, dict[str, list[float]]]) -> list[str]:
        """The attributes that are not among those ``read`` of nodes and of edges, each with the reason."""
        found = []
        for kind, rows in (("node", len(self.numbers)), ("edge", len(self.undirected))):
            for number, key in self._keys.items():
                values = self._values.get((kind, number), {}) or self._texts.get((kind, number), {})
                if values and key.name not in read[kind]:
                    reason = f"{len(values):,} of {counted(rows, kind)} have one" if key.numeric else "text"
                    found.append(f"{kind} attribute {key.name[:40]!r} ({reason})")
        return found

    def table(self, kind: str, path: Path) -> Columns:
        """All attributes of nodes or edges, including text, with missing values; ids and ends come first."""
        rows = len(self.numbers) if kind == "node" else len(self.undirected)
        names = np.array([*self.numbers], dtype=object)
        ends = np.array(self.ends, dtype=np.int64).reshape(-1, 2)
        found = {"id": names} if kind == "node" else {"source": names[ends[:, 0]], "target": names[ends[:, 1]]}
        for number, key in self._keys.items():
            if key.kind not in (kind, "all"):
                continue
            if key.numeric:
                column = np.full(rows, np.nan if key.default is None else key.default)
                values = self._values.get((kind, number), {})
                column[list(values)] = list(values.values())
            else:
                column = np.full(rows, None, dtype=object)
                for row, text in self._texts.get((kind, number), {}).items():
                    column[row] = text
            if key.kind == kind or (kind, number) in self._values or (kind, number) in self._texts:
                found.setdefault(key.name, column)
        return Columns(found, path)

    def _number(self, text: str) -> float:
        if len(text) > _LONGEST_NUMBER:
            raise self.Problem(f"a number must have at most {_LONGEST_NUMBER} characters")
        try:
            return _WORDS[text.lower()] if text.lower() in _WORDS else float(text)
        except ValueError:
            raise self.Problem(f"{text[:40]!r} must be a number, as its key says") from None

    def _start_key(self, attributes: dict[str, str]) -> None:
        key = self._required(attributes, "id")
        numeric = attributes.get("attr.type", "string") in _NUMBERS
        self._keys[key] = _Key(attributes.get("attr.name", key), attributes.get("for", "all"), numeric, None)

    def _start_graph(self, attributes: dict[str, str]) -> None:
        if self._path != ["graphml", "graph"] or self.numbers:
            raise self.Problem("holds more than one graph; one is read")
        self.name = attributes.get("id", "")
        self._default_undirected = attributes.get("edgedefault", "undirected") == "undirected"

    def _start_node(self, attributes: dict[str, str]) -> None:
        name = self._required(attributes, "id")
        if name in self.numbers:
            raise self.Problem(f"node {name[:40]!r} occurs twice")
        self.numbers[name] = len(self.numbers)

    def _start_edge(self, attributes: dict[str, str]) -> None:
        for end in ("source", "target"):
            name = self._required(attributes, end)
            if name not in self.numbers:
                raise self.Problem(f"the {end} of an edge must be a node above it, got {name[:40]!r}")
            self.ends.append(self.numbers[name])
        directed = attributes.get("directed")
        self.undirected.append(self._default_undirected if directed is None else directed == "false")

    def _start_data(self, attributes: dict[str, str]) -> None:
        self._data_key = self._required(attributes, "key")

    def _required(self, attributes: dict[str, str], name: str) -> str:
        if name not in attributes:
            raise self.Problem(f"<{self._path[-1]}> must have an attribute {name!r}")
        return attributes[name]


_BLOCK_BYTES = 1 << 20


def read_graphml(path: Path) -> FileGraph:
    """Reads a GraphML file with one graph, nodes numbered in the order of the file.

    An undirected edge becomes two edges. Numeric and boolean attributes that every node has become the columns of
    ``x``, those that every edge has the columns of ``edge_attr``; the edge attribute ``weight`` becomes
    ``edge_weight``. Document types and entities are rejected, as entity expansion can exhaust memory.
    """
    handler = _parsed(path)
    if not handler.numbers:
        raise GraphFileError(path, "holds no nodes")
    ends = torch.tensor(handler.ends, dtype=torch.long).view(-1, 2).t()
    both = torch.tensor(handler.undirected, dtype=torch.bool) & (ends[0] != ends[1])
    read = {kind: handler.columns(kind) for kind in ("node", "edge")}
    left_out = handler.left_out(read)
    weight = read["edge"].pop("weight", None)
    attributes = _matrix(read["edge"], len(handler.undirected))
    return FileGraph(
        edge_index=torch.cat([ends, ends[:, both].flip(0)], dim=1),
        num_nodes=len(handler.numbers),
        x=_matrix(read["node"], len(handler.numbers)),
        edge_attr=None if attributes is None else _with_turned(attributes, both),
        edge_weight=None if weight is None else _with_turned(torch.tensor(weight, dtype=torch.float64), both),
        labels=tuple(handler.numbers),
        name=handler.name or path.name,
        edge_names=tuple(read["edge"]),
        note=f"not read: {'; '.join(left_out)}" if left_out else "",
    )


def read_graphml_columns(path: Path) -> tuple[Columns, Columns, bool]:
    """The nodes and the edges of a GraphML file as tables, including text, and whether all edges are directed."""
    handler = _parsed(path)
    if not handler.numbers:
        raise GraphFileError(path, "holds no nodes")
    directed = bool(handler.undirected) and not any(handler.undirected)
    return handler.table("node", path), handler.table("edge", path), directed


def _parsed(path: Path) -> GraphMLHandler:
    parser = expat.ParserCreate(namespace_separator=" ")
    handler = GraphMLHandler()
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.characters
    parser.XmlDeclHandler = _check_encoding
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.EntityDeclHandler = _refuse_doctype
    parser.buffer_text = True
    try:
        with open_file(path) as file:
            while block := read_block(path, file, _BLOCK_BYTES, parser.CurrentLineNumber):
                parser.Parse(block, False)
            parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise GraphFileError(path, f"must be well-formed XML: {expat.ErrorString(error.code)}", error.lineno) from None
    except _Refused as error:
        raise GraphFileError(path, str(error), parser.CurrentLineNumber) from None
    except GraphMLHandler.Problem as error:
        raise GraphFileError(path, str(error), parser.CurrentLineNumber) from None
    return handler


class _Refused(Exception):
    pass


def _refuse_doctype(*_: object) -> None:
    raise _Refused("document types and entities are not read, for safety; remove the <!DOCTYPE ...>")


# Encodings built into the parser; for others it needs a table of 256 characters.
_OWN_ENCODINGS = {"UTF-8", "UTF-16", "ISO-8859-1", "US-ASCII"}


def _check_encoding(_version: object, encoding: str | None, _standalone: object) -> None:
    if encoding is None or encoding.upper() in _OWN_ENCODINGS:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            known = len(bytes(range(256)).decode(encoding, "replace")) == 256
    except (LookupError, ValueError, Warning):
        known = False
    if not known:
        raise _Refused(f"must be in UTF-8, UTF-16 or an encoding of one byte a character, got {encoding[:40]!r}")


def _with_turned(rows: Tensor, both: Tensor) -> Tensor:
    """Rows of edges, then those of the edges that are taken the other way, too."""
    return torch.cat([rows, rows[both]])


def _matrix(columns: dict[str, list[float]], rows: int) -> Tensor | None:
    return torch.tensor(list(columns.values()), dtype=torch.float64).view(len(columns), rows).t() if columns else None

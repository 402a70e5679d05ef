"""GraphML, read without ever expanding an entity."""

from __future__ import annotations

from pathlib import Path
from xml.parsers import expat

import torch
from torch import Tensor

from graphprism.analysis.graph_files._graphml_handler import GraphMLHandler
from graphprism.analysis.graph_files._open_file import open_file, read_block
from graphprism.analysis.graph_files.file_graph import FileGraph
from graphprism.analysis.graph_files.graph_file_error import GraphFileError

_BLOCK_BYTES = 1 << 20


def read_graphml(path: Path) -> FileGraph:
    """Reads a GraphML file with one graph, nodes numbered in the order of the file.

    An undirected edge becomes one edge each way. Numbers and truth values on nodes become the columns of ``x`` and
    those on edges the columns of ``edge_attr``, where every node or edge has them; an edge attribute called
    ``weight`` is ``edge_weight``. Document types and entities are refused: a few bytes of them can fill any memory.
    """
    handler = _parsed(path)
    if not handler.numbers:
        raise GraphFileError(path, "holds no nodes")
    ends = torch.tensor(handler.ends, dtype=torch.long).view(-1, 2).t()
    both = torch.tensor(handler.undirected, dtype=torch.bool) & (ends[0] != ends[1])
    weight, attributes = _edge_columns(handler)
    return FileGraph(
        edge_index=torch.cat([ends, ends[:, both].flip(0)], dim=1),
        num_nodes=len(handler.numbers),
        x=_matrix(handler.columns("node"), len(handler.numbers)),
        edge_attr=None if attributes is None else torch.cat([attributes, attributes[both]]),
        edge_weight=None if weight is None else torch.cat([weight, weight[both]]),
        labels=tuple(handler.numbers),
        name=handler.name or path.name,
    )


def _parsed(path: Path) -> GraphMLHandler:
    parser = expat.ParserCreate(namespace_separator=" ")
    handler = GraphMLHandler()
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.characters
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


def _edge_columns(handler: GraphMLHandler) -> tuple[Tensor | None, Tensor | None]:
    columns = handler.columns("edge")
    weight = columns.pop("weight", None)
    num_edges = len(handler.undirected)
    return None if weight is None else torch.tensor(weight, dtype=torch.float64), _matrix(columns, num_edges)


def _matrix(columns: dict[str, list[float]], rows: int) -> Tensor | None:
    return torch.tensor(list(columns.values()), dtype=torch.float64).view(len(columns), rows).t() if columns else None

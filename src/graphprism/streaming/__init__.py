"""Out-of-core splits of edges: from file to file in several passes, or as SQL."""

from graphprism.streaming.edge_file import EdgeFile, EdgeFileError, open_edges
from graphprism.streaming.split_file import split_file
from graphprism.streaming.sql import split_sql
from graphprism.streaming.typed_edges import TypedEdges, open_split

__all__ = [
    "EdgeFile",
    "EdgeFileError",
    "TypedEdges",
    "open_edges",
    "open_split",
    "split_file",
    "split_sql",
]

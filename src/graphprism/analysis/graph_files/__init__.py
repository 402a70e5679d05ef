"""Graphs from files, and what the certificates say about them."""

from graphprism.analysis.graph_files.file_graph import FileGraph
from graphprism.analysis.graph_files.graph_file_error import GraphFileError
from graphprism.analysis.graph_files.inspect_graph import inspect_graph
from graphprism.analysis.graph_files.read_graph import read_graph

__all__ = ["FileGraph", "GraphFileError", "inspect_graph", "read_graph"]

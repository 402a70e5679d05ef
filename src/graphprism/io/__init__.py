"""Graphs from files, and what the certificates say about them."""

from __future__ import annotations

from graphprism.io.file_graph import FileGraph, GraphFileError
from graphprism.io.read_graph import read_graph

__all__ = ["FileGraph", "GraphFileError", "read_graph"]

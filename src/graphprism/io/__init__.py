"""Graphs from files: in memory, or as PyG's remote backend."""

from __future__ import annotations

from graphprism.io.file_graph import FileGraph, GraphFileError
from graphprism.io.read_graph import read_graph
from graphprism.io.remote_backend import ArrayFeatures, RelationStore, remote_backend

__all__ = ["ArrayFeatures", "FileGraph", "GraphFileError", "RelationStore", "read_graph", "remote_backend"]

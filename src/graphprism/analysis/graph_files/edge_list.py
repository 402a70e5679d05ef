"""Edge lists: a line per edge, with source, target and possibly a weight."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from graphprism.analysis.graph_files._edge_lines import Block, blocks
from graphprism.analysis.graph_files._named_edges import read_named_edges
from graphprism.analysis.graph_files.file_graph import FileGraph
from graphprism.analysis.graph_files.graph_file_error import GraphFileError

_Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]

# Edges keep a node number in 32 bits while a file is read.
_LARGEST_ID = 2**31 - 1
_LARGEST_INTEGER = 2**63 - 1
# A table with a row for every number up to the largest one must not dwarf the file that it comes from.
_SPARE_NODES = 10_000_000


def read_edge_list(path: Path, *, labels: bool = False) -> FileGraph:
    """Reads an edge list: ``source target [weight]`` on each line, separated by spaces, tabs, commas or semicolons.

    Lines that are empty or start with # or % are skipped, and so is a first line of column names. Nodes are whole
    numbers from 0 and keep their number, so that there are as many nodes as the largest one plus 1. With ``labels``
    every node is a name, and nodes are numbered in the order in which they appear. The file is read in blocks of 16
    MB.
    """
    if labels:
        return read_named_edges(path)
    ends: list[npt.NDArray[np.int32]] = []
    weights: list[npt.NDArray[np.float64]] = []
    for block in blocks(path):
        table = _numbers(path, block)
        _check_ids(path, block, table[:, :2])
        ends.append(table[:, :2].astype(np.int32))
        if block.columns == 3:
            weights.append(np.ascontiguousarray(table[:, 2], np.float64))
    if not ends:
        raise GraphFileError(path, "holds no edges")
    return _graph(path, np.concatenate(ends), np.concatenate(weights) if weights else None)


def _numbers(path: Path, block: Block) -> _Numbers:
    """The table of a block, (lines, columns); `blocks` has counted the columns of every line."""
    plain = not block.text.translate(None, b"0123456789 \n")
    flat = _parsed(path, block, np.int64 if plain else np.float64)
    # numpy gives the largest number for all that are larger, which a weight may be.
    return _parsed(path, block, np.float64) if plain and flat.max(initial=0) == _LARGEST_INTEGER else flat


def _parsed(path: Path, block: Block, dtype: type[Any]) -> _Numbers:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # what numpy has for text that is not a number
        try:
            flat: _Numbers = np.fromstring(block.text, dtype, sep=" ")
        except (DeprecationWarning, ValueError):
            raise _first_bad_line(path, block) from None
    if flat.size != block.num_lines * block.columns or not np.isfinite(flat).all():
        raise _first_bad_line(path, block)
    return flat.reshape(-1, block.columns)


def _check_ids(path: Path, block: Block, ids: _Numbers) -> None:
    if ids.size and (ids.min() < 0 or ids.max() > _LARGEST_ID or not bool((ids == np.rint(ids)).all())):
        raise _first_bad_line(path, block)


def _first_bad_line(path: Path, block: Block) -> GraphFileError:
    for line, cells in _cells(block):
        problem = next((text for text in map(_problem_of_id, cells[:2]) if text), "") or _problem_of_weight(cells[2:])
        if problem:
            return GraphFileError(path, problem, line)
    return GraphFileError(path, "holds text that is not a number", block.first_line)


def _cells(block: Block) -> Iterator[tuple[int, list[bytes]]]:
    for number, text in enumerate(block.text.split(b"\n"), start=block.first_line):
        if text.strip():
            yield number, text.split()


def _problem_of_id(cell: bytes) -> str:
    try:
        value = float(cell.decode())
    except UnicodeDecodeError:
        return "the line must be UTF-8 text"
    except ValueError:
        return f"{_shown(cell)} must be a node number; names are numbered with labels=True"
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):
        return f"{_shown(cell)} must be a whole number to be a node"
    if value < 0:
        return f"node numbers must not be negative, got {_shown(cell)}"
    return f"node numbers must be at most {_LARGEST_ID}, got {_shown(cell)}" if value > _LARGEST_ID else ""


def _problem_of_weight(cells: list[bytes]) -> str:
    for cell in cells:
        try:
            value = float(cell.decode())
        except UnicodeDecodeError:
            return "the line must be UTF-8 text"
        except ValueError:
            return f"{_shown(cell)} must be a number to be a weight"
        if not np.isfinite(value):
            return f"weights must be finite, got {_shown(cell)}"
    return ""


def _shown(cell: bytes) -> str:
    return repr(cell.decode()[:40])


def _graph(path: Path, ends: npt.NDArray[np.int32], weights: npt.NDArray[np.float64] | None) -> FileGraph:
    num_nodes = int(ends.max()) + 1
    if num_nodes > 2 * len(ends) + _SPARE_NODES:
        raise GraphFileError(
            path, f"node numbers reach {num_nodes - 1} with {len(ends)} edges; number them densely with labels=True"
        )
    edge_index = torch.from_numpy(ends.T.astype(np.int64))
    weight = None if weights is None else torch.from_numpy(weights)
    return FileGraph(edge_index, num_nodes, edge_weight=weight, name=path.name)

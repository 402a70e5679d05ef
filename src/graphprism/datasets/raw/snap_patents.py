"""Snap-Patents from its .mat file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphprism._extras import needs_extra
from graphprism.datasets.packed_dataset import PackedDataset, pack_nodes
from graphprism.datasets.packed_file import DatasetFileError
from graphprism.datasets.raw.arxiv_year import year_splits
from graphprism.datasets.raw.raw_file import quantile_labels, raw_file
from graphprism.known import DATASETS

_KEYS = ("edge_index", "node_feat", "num_nodes", "years")
# Rows densified at a time: 269 features of 65,536 patents take 141 MB in float64.
_CHUNK = 1 << 16


def snap_patents(name: str, folder: Path) -> PackedDataset:
    """Reads patents, citations (citing to cited) and years of grant, and bins the years into five classes.

    Sparse features become dense: uint8 where that is exact, else float32; 0.8 or 3.1 GB for 2.9 million patents. A
    patent without a year is in no fold and has class 0.

    Raises:
        FileNotFoundError: The file is missing.
        DatasetFileError: The file is damaged or does not hold these arrays.
    """
    known = DATASETS[name]
    path = raw_file(name, folder, known.files[0])
    content = _load(path)
    labels = quantile_labels(np.asarray(content["years"], np.float64).reshape(-1), known.num_classes)
    masks, note = year_splits(name, folder, labels)
    missing = int((labels < 0).sum())
    note = " ".join(filter(None, [note, f"{missing} patents have no year and no split." if missing else ""]))
    edge_index = torch.from_numpy(np.ascontiguousarray(content["edge_index"], np.int32))
    y = torch.from_numpy(np.maximum(labels, 0).astype(np.uint8))
    return pack_nodes(name, known, _dense(content.pop("node_feat")), edge_index, y, masks, note)


def _load(path: Path) -> dict[str, Any]:
    with needs_extra("snap-patents, published as a .mat file,"):
        from scipy.io import loadmat  # type: ignore[import-untyped]
        from scipy.sparse import issparse  # type: ignore[import-untyped]
    _try_in_a_process(path)
    try:
        content: dict[str, Any] = loadmat(path, variable_names=_KEYS)
    # scipy raises many kinds of errors on damaged files, its own and those of zlib.
    except Exception as error:
        raise DatasetFileError(path, f"it is no whole .mat file of version 5 ({error})") from error
    missing = [key for key in _KEYS if key not in content]
    if missing or not issparse(content["node_feat"]):
        raise DatasetFileError(path, f"`{', '.join(missing)}` is missing" if missing else "`node_feat` must be sparse")
    try:
        content["node_feat"].check_format(full_check=True)  # scipy does not check indices before it writes
    except ValueError as error:
        raise DatasetFileError(path, f"`node_feat` must be a whole sparse matrix ({error})") from error
    _check_sizes(path, content)
    return content


_LOAD = "import sys, scipy.io; scipy.io.loadmat(sys.argv[1], variable_names=sys.argv[2:])"


def _try_in_a_process(path: Path) -> None:
    """Reads the file in a subprocess first: on damaged files scipy was seen to crash (SIGSEGV)."""
    done = subprocess.run([sys.executable, "-c", _LOAD, path, *_KEYS], capture_output=True, check=False)
    if done.returncode < 0:
        raise DatasetFileError(path, "it is no whole .mat file of version 5 (reading it ends the process)")


def _check_sizes(path: Path, content: dict[str, Any]) -> None:
    num_nodes, edges = int(np.max(content["num_nodes"], initial=0)), content["edge_index"]
    if edges.ndim != 2 or len(edges) != 2:
        raise DatasetFileError(path, f"`edge_index` must have shape [2, E], got {list(edges.shape)}")
    for key, found in (("node_feat", content["node_feat"].shape[0]), ("years", content["years"].size)):
        if found != num_nodes:
            raise DatasetFileError(path, f"`{key}` must be that of {num_nodes} patents, got {found}")


def _dense(sparse: Any) -> Tensor:
    """A scipy sparse matrix as a dense tensor, allocated only once, in its final dtype."""
    values = sparse.data
    whole = bool(np.isin(values, np.arange(256)).all())
    dense = torch.empty(sparse.shape, dtype=torch.uint8 if whole else torch.float32)
    rows = sparse.tocsr()
    for start in range(0, len(dense), _CHUNK):
        dense[start : start + _CHUNK] = torch.from_numpy(rows[start : start + _CHUNK].toarray())
    return dense

"""Provenance of a result: hardware, versions, commit and the fingerprint of its data."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from dataclasses import fields
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy
import torch
import torch_geometric
from torch import Tensor

from graphprism import __version__
from graphprism.datasets import PackedDataset


def hardware(device: torch.device, count: int, runs_at_once: int = 1) -> dict[str, Any]:
    """Kind, name and number of the devices of a run, for `graphprism.results.RunResult`.

    >>> hardware(torch.device("cpu"), 2)["count"]
    2
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    return {"device": device.type, "name": name, "count": count, "runs_at_once": runs_at_once}


def processor() -> str:
    """Name of the processor, as reported by the system."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


SOURCE = Path(__file__).resolve().parent.parent


def source_commit(folder: Path = SOURCE) -> str | None:
    """The commit of the package's source, with ``+`` where files were changed since; None outside of a checkout."""
    try:
        # a package that is installed inside of another checkout is not part of it
        _git(folder, "ls-files", "--error-unmatch", "__init__.py")
        commit = _git(folder, "rev-parse", "HEAD")
        return commit + ("+" if _git(folder, "status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Versions of the packages that can affect results; those that are not installed are left out.

    >>> versions()["torch"] == torch.__version__
    True
    """
    found = {
        "graphprism": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "torch_geometric": str(torch_geometric.__version__),
        "numpy": numpy.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
    }
    # from their metadata: importing them takes seconds
    for name in ("lightning", "torchmetrics"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def provenance(device: torch.device, count: int = 1, runs_at_once: int = 1) -> dict[str, Any]:
    """Hardware, versions, commit and time, by the names of the fields of `graphprism.results.RunResult`.

    It runs git, so results that end together share one.

    >>> sorted(provenance(torch.device("cpu")))
    ['commit', 'finished_at', 'hardware', 'versions']
    """
    return {
        "hardware": hardware(device, count, runs_at_once),
        "versions": versions(),
        "commit": source_commit(),
        "finished_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def data_identity(dataset: PackedDataset) -> str:
    """SHA-256 fingerprint of a data set, of its tensors and its task: data sets with the same one train the same.

    Notes, the checksum of the file, ids of nodes and preprocessing do not count.

    >>> from graphprism.datasets import molecules
    >>> [data_identity(molecules(10)) == data_identity(molecules(number)) for number in (10, 11)]
    [True, False]
    """
    left_out = ("note", "sha256", "preprocessing", "node_ids")
    names = (field.name for field in fields(dataset) if field.name not in left_out)
    values = {name: getattr(dataset, name) for name in names}
    for name in ("pairs", "edge_weight"):  # fingerprints from before these fields existed stay valid
        if values[name] is None:
            del values[name]
    return digest(values)


def digest(value: Any) -> str:
    """SHA-256 of numbers, strings and tensors in dictionaries and lists."""
    total = hashlib.sha256()
    _add(total, value)
    return total.hexdigest()


def _add(total: Any, value: Any) -> None:
    if isinstance(value, Tensor):
        total.update(f"{value.dtype} {list(value.shape)}".encode())
        total.update(value.detach().cpu().contiguous().view(-1).numpy().tobytes())
    elif isinstance(value, dict):
        total.update(f"dict {len(value)}".encode())
        for key, each in value.items():
            _add(total, key)
            _add(total, each)
    elif isinstance(value, list | tuple):
        total.update(f"list {len(value)}".encode())
        for each in value:
            _add(total, each)
    else:
        total.update(f"{type(value).__name__} {value!r};".encode())

"""``graphprism doctor``."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from graphprism import __version__
from graphprism._extras import EXTRAS
from graphprism._text import counted
from graphprism.known import DATA_VARIABLE, data_folder


def doctor() -> None:
    """Print versions, devices and backends, and why a backend is not available."""
    console = Console()
    console.print(_versions(), _devices(), _backends())
    folder = data_folder()
    there = counted(list(folder.glob("*.npz")), "packed file") if folder.is_dir() else "not there yet"
    named = "" if os.environ.get(DATA_VARIABLE) else f"; {DATA_VARIABLE} names another"
    typer.echo(f"Data sets: {folder} ({there}{named})")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _versions() -> Table:
    table = _table("Versions", "package", "version", "needed for")
    table.add_row("graphprism", __version__, "")
    table.add_row("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}", "")
    for name in ("torch", "torch_geometric", "numpy"):
        table.add_row(name, _version(name) or f'missing: pip install "{name}"', "everything")
    for name, extra in EXTRAS.items():
        if name == "tomli" and sys.version_info >= (3, 11):  # there tomllib of the standard library stands for it
            continue
        missing = rf'missing: pip install "graphprism\[{extra}]"'
        table.add_row(name, _version(name) or missing, f"the extra {extra}")
    return table


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _devices() -> Table:
    import torch

    table = _table("Devices", "device", "what torch says of it")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    table.add_row("cpu", f"{counted(cores or 1, 'core')}, {counted(torch.get_num_threads(), 'thread')}")
    for number in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(number)
        table.add_row(
            f"cuda:{number}",
            f"{found.name}, {found.total_memory / 2**30:.0f} GiB, capability {found.major}.{found.minor}",
        )
    if not torch.cuda.is_available():
        built = torch.version.cuda
        why = (
            f"built for CUDA {built}, but no device or driver answers" if built else "this torch is built without CUDA"
        )
        table.add_row("cuda", f"none: {why}")
    return table


def _backends() -> Table:
    table = _table("Backends of ops", "op", "runs here", "does not")
    for name, backends in _all_backends():
        reasons = [f"{other}: {reason}" for other, reason in backends.reasons().items()]
        table.add_row(name, ", ".join(backends), "; ".join(reasons))
    return table


def _all_backends() -> Iterator[tuple[str, Any]]:
    from graphprism.ops import csr, entries, linear_csr, relu_normalize
    from graphprism.ops.backends import Backends
    from graphprism.ops.batched import pair_products, slot_sum, step

    # public ops, then those of lockstep training
    for module in (csr, linear_csr, entries, relu_normalize, slot_sum, pair_products, step):
        name = module.__name__.rpartition(".")[2].replace("_", " ")
        for key, value in vars(module).items():
            if isinstance(value, Backends):
                yield name if key == "BACKENDS" else f"{name}: {key.lower().replace('_', ' ')}", value

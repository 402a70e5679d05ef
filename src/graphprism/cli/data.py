"""``graphprism data``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from graphprism._text import counted
from graphprism.cli.arguments import Data, complete_dataset, exit_on_user_error
from graphprism.known import DATASETS, KnownDataset, data_folder, find_name

if TYPE_CHECKING:
    from graphprism.datasets import PackedDataset

app = typer.Typer(help="Find, fetch, pack and check data sets.", no_args_is_help=True)


@app.command(name="list")
def list_datasets(data: Data = None) -> None:
    """List the data sets that are known by name or lie in the folder of data sets."""
    folder = data_folder(data)
    table = Table("name", "level", "task", "metric", "packed", "source", title=f"Data sets in or for {folder}")
    files = {path.stem: path for path in sorted(folder.glob("*.npz"))}
    for name, known in DATASETS.items():
        packed = _size(files.pop(name)) if name in files else _way(known)
        table.add_row(name, known.level, known.task, known.metric, packed, known.source)
    for name, path in files.items():
        table.add_row(name, "", "", "", _size(path), str(path))
    Console().print(table)


@app.command()
def pack(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A name that `graphprism data list` shows.", autocompletion=complete_dataset
        ),
    ],
    data: Data = None,
) -> None:
    """Write a data set to NAME.npz in the folder of data sets; fetched by PyG, or read from its raw files there."""
    with exit_on_user_error():
        from graphprism.datasets import load
        from graphprism.datasets.load import packed_path

        there = (data_folder(data) / f"{find_name(name, data_folder(data))}.npz").is_file()
        path = packed_path(name, data)
        dataset = load(path)
    typer.echo(f"{path} {'was there already' if there else 'is written'}: {_summary(dataset)}.")
    if dataset.note:
        typer.echo(f"note: {dataset.note}")


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME | FILE.npz]...", help="All files of the folder without it.")
    ] = None,
    data: Data = None,
) -> None:
    """Read packed files in full and check sizes, ranges and checksums; exit code 1 if one of them is not whole."""
    folder = data_folder(data)
    paths = [Path(name) if name.endswith(".npz") else folder / f"{find_name(name, folder)}.npz" for name in names or []]
    paths = paths or sorted(folder.glob("*.npz"))
    with exit_on_user_error():
        if not paths:
            raise FileNotFoundError(f"{folder}: there are no packed files")
        whole = [_verify(path) for path in paths]
    if not all(whole):
        raise typer.Exit(1)


def _verify(path: Path) -> bool:
    from graphprism.datasets import DatasetFileError, load

    try:
        dataset = load(path)
    except DatasetFileError as error:
        typer.echo(f"error: {error}", err=True)
        return False
    checksum = "the checksum is right" if dataset.sha256 else "without a checksum"
    typer.echo(f"{path} is whole: {_summary(dataset)}, {checksum}.")
    return True


def _way(known: KnownDataset) -> str:
    """Source of a data set that is not packed yet."""
    if known.loader or known.files:
        return "on first use" if known.loader else "from raw files"
    return "as a packed file" if known.address else "not needed"


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"


def _summary(dataset: PackedDataset) -> str:
    nodes, edges = counted(dataset.x.size(0), "node"), counted(dataset.edge_index.size(1), "edge")
    return f"{counted(dataset, 'graph')}, {nodes}, {edges}"

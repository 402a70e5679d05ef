"""``graphprism data``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from graphprism._text import counted, uncut_table
from graphprism.cli.arguments import Data, complete_dataset, exit_on_user_error, plain_warnings
from graphprism.known import DATASETS, KnownDataset, data_folder, find_name

if TYPE_CHECKING:
    from graphprism.datasets import PackedDataset

app = typer.Typer(help="List, download, import, pack and verify data sets.", no_args_is_help=True)


@app.command(name="list")
def list_datasets(data: Data = None) -> None:
    """List the data sets that are known by name or packed in the data folder."""
    folder = data_folder(data)
    files, rows = {path.stem: path for path in sorted(folder.glob("*.npz"))}, []
    about = {name: _about(path) for name, path in files.items()}
    own = {name: path for name, path in files.items() if name not in DATASETS or "preprocessing" in about[name]}
    for name, known in DATASETS.items():
        if name not in own:
            packed = _size(files[name]) if name in files else _way(known)
            rows.append((name, known.level, known.task, known.metric, packed, known.source))
    for name, path in own.items():
        level, task, metric = (str(about[name].get(key) or "") for key in ("level", "task", "metric"))
        rows.append((name, level, task, metric, _size(path), str(path)))
    header = ("name", "level", "task", "metric", "packed", "source")
    Console().print(uncut_table(header, rows, title=f"Data sets in or for {folder}"))


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
    """Pack a data set into NAME.npz in the data folder, from PyG's download or from raw files in that folder."""
    with exit_on_user_error():
        from graphprism.datasets import load
        from graphprism.datasets.load import packed_path

        there = (data_folder(data) / f"{find_name(name, data_folder(data))}.npz").is_file()
        path = packed_path(name, data)
        dataset = load(path)
    typer.echo(f"{path} {'was there already' if there else 'is written'}: {_summary(dataset)}.")
    if dataset.note:
        typer.echo(f"note: {dataset.note}")


_FILES, _COLUMNS, _FOLDS = "Files", "Columns", "Folds"


def _column(help: str, panel: str = _COLUMNS) -> Any:
    return typer.Option(metavar="NAME", help=help, rich_help_panel=panel, show_default="guessed")


@app.command(name="import")
def import_files(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A folder of CSV or Parquet tables (nodes, edges, graphs), GraphML, .npz, or pyg:TUDataset(NCI1).",
        ),
    ],
    target: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Target column, or several, comma-separated.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="regression|binary|multiclass|multilabel|link", show_default="inferred from the target"),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="mae, rmse, auroc, ap, accuracy, f1, hits@50, ...", show_default="the usual one")
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE",
            help="Value of a target with two values that F1 and AP count.",
            show_default="the second in alphabetical order",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the data set.", show_default="that of PATH")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE.npz", help="File to write.", show_default="NAME.npz in the data folder"
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Describe the data and write nothing.")] = False,
    nodes: Annotated[str | None, _column("File of nodes.", _FILES)] = None,
    edges: Annotated[str | None, _column("File of edges.", _FILES)] = None,
    graphs: Annotated[str | None, _column("File of graphs.", _FILES)] = None,
    id: Annotated[str | None, _column("Id of a node.")] = None,
    source: Annotated[str | None, _column("Source node of an edge.")] = None,
    destination: Annotated[str | None, _column("Destination node of an edge.")] = None,
    weight: Annotated[str | None, _column("Weight of an edge.")] = None,
    graph: Annotated[str | None, _column("Graph of a node.")] = None,
    graph_id: Annotated[str | None, _column("Id of a graph.")] = None,
    drop: Annotated[str, typer.Option(metavar="NAMES", help="Columns to ignore.", rich_help_panel=_COLUMNS)] = "",
    category: Annotated[
        str, typer.Option(metavar="NAMES", help="Numeric columns to treat as categories.", rich_help_panel=_COLUMNS)
    ] = "",
    number: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Columns that are numbers although they are named like types.",
            rich_help_panel=_COLUMNS,
        ),
    ] = "",
    directed: Annotated[
        bool | None,
        typer.Option("--directed/--undirected", help="Whether edges are directed.", rich_help_panel=_COLUMNS),
    ] = None,
    scale_target: Annotated[
        bool, typer.Option("--scale-target", help="Standardise the target for training.", rich_help_panel=_COLUMNS)
    ] = False,
    fold: Annotated[str | None, _column("train, valid, test, or numbers from 0.", _FOLDS)] = None,
    shares: Annotated[
        str,
        typer.Option(
            metavar="NUMBERS", help="Shares of training, validation and test for drawn folds.", rich_help_panel=_FOLDS
        ),
    ] = "0.8,0.1,0.1",
    folds: Annotated[int, typer.Option(min=1, help="Number of folds of nodes to draw.", rich_help_panel=_FOLDS)] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of drawn folds.", rich_help_panel=_FOLDS)] = 0,
    data: Data = None,
) -> None:
    """Import your own graphs: describe them, and pack them for `graphprism train --dataset NAME`."""
    columns = {
        "id": id,
        "source": source,
        "destination": destination,
        "weight": weight,
        "graph": graph,
        "graph_id": graph_id,
        "fold": fold,
    }
    files = {part: file for part, file in (("nodes", nodes), ("edges", edges), ("graphs", graphs)) if file}
    with exit_on_user_error(), plain_warnings():
        from graphprism.datasets import describe, from_files, save
        from graphprism.training import Task

        dataset = from_files(
            path,
            _names(target or ""),
            name=name,
            root=data,
            task=task,
            metric=metric,
            positive=positive,
            files=files,
            columns=columns,
            drop=_names(drop),
            categories=_names(category),
            numbers=_names(number),
            directed=directed,
            scale_target=scale_target,
            shares=_shares(shares),
            folds=folds,
            seed=seed,
        )
        Task.of(dataset)  # raises for a metric that does not fit
        typer.echo("\n".join(describe(dataset)))
        if dry_run:
            return
        file = out or data_folder(data) / f"{dataset.name}.npz"
        if file.suffix != ".npz":
            raise ValueError(f"`out` must end in .npz, got {file}")
        replaced = file.is_file()
        if replaced and out is None and file.stem in DATASETS and "preprocessing" not in _about(file):
            raise ValueError(
                f"{file} is the data set {file.stem} of `graphprism data list`: --name NAME gives yours another name"
            )
        save(dataset, file)
    typer.echo(f"{file} is written ({_size(file)}){', in place of an earlier one' * replaced}.")


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"`shares` must be three comma-separated numbers, got {text!r}") from None


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME | FILE.npz]...", help="Default: all files of the data folder.")
    ] = None,
    data: Data = None,
) -> None:
    """Check sizes, ranges and checksums of packed files; exit code 1 if one is damaged."""
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
    """How a data set that is not packed yet gets there."""
    if known.loader or known.files:
        return "on first use" if known.loader else "from raw files"
    return "as a packed file" if known.address else "not needed"


def _about(path: Path) -> dict[str, Any]:
    """What a packed file says of itself; empty if it cannot be read."""
    from graphprism.packed import open_arrays, parse_about

    try:
        arrays = open_arrays(path, ("about",))
    except (ValueError, OSError):
        return {}
    return parse_about(arrays.get("about")) or {}


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"


def _summary(dataset: PackedDataset) -> str:
    nodes, edges = counted(dataset.x.size(0), "node"), counted(dataset.edge_index.size(1), "edge")
    return f"{counted(dataset, 'graph')}, {nodes}, {edges}"

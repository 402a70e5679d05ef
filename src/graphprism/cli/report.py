"""``graphprism report``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from graphprism._files import check_regular, write_whole
from graphprism._text import counted
from graphprism.cli.arguments import exit_on_user_error
from graphprism.ledger import Ledger
from graphprism.report import page, paper_page
from graphprism.results import Cell, RunResult, TableResult, training_of


def read_tables(folder: Path) -> list[TableResult]:
    """All tables of a folder, sorted by name; raises for a file that is no table."""
    return [_table(path) for path in sorted(folder.glob("*.json"))]


def read_figures(folder: Path) -> dict[str, str]:
    """SVG texts of ``figure-*/figure-*.svg`` by title, with the settings from the JSON file beside each."""
    paths = [path for path in sorted(folder.glob("figure-*/figure-*.svg")) if path.is_file()]
    return {_title(path): path.read_text("utf-8", errors="replace") for path in paths if path.stem == path.parent.name}


def tables_of(runs: Sequence[RunResult], tables: Sequence[TableResult]) -> list[TableResult]:
    """Tables restricted to these runs: drops our numbers in cells with other runs, and tables without any left."""
    keys = {run.key for run in runs}

    def own(cell: Cell) -> Cell:
        other = Cell(cell.row, cell.column, paper=cell.paper, note=cell.note)
        return cell if keys.issuperset(cell.runs) else other

    found = (replace(table, cells=tuple(map(own, table.cells))) for table in tables)
    return [table for table in found if any(cell.runs for cell in table.cells)]


def _table(path: Path) -> TableResult:
    try:
        check_regular(path)
        return TableResult.from_json(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: not a table ({error}); run its command again or remove the file") from error


def _title(path: Path) -> str:
    name = path.stem.replace("-", " ").capitalize()
    try:
        beside = path.with_suffix(".json")
        check_regular(beside)
        spec = json.loads(beside.read_text("utf-8"))["spec"]
        return f"{name}: {spec['seeds']} seeds, {spec['layers']} layers, {spec['graphs']}, split by {spec['split']}"
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return name


LEDGER = Path("outputs/ledger.jsonl")
TABLES = Path("outputs/tables")


def report(
    ledger: Annotated[
        Path, typer.Option(metavar="FILE", help="Results of runs, one per line; restricts the page to them.")
    ] = LEDGER,
    tables: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of tables, NAME.json, and beside it the figures.")
    ] = TABLES,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE|FOLDER", help="The page to write, or a folder of results, which gets a report.html."
        ),
    ] = Path("outputs/report.html"),
    paper: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write all cells of the paper's tables as Markdown to --out FILE.md instead, from the ledgers *.jsonl "
            "and tables *.json in this folder.",
        ),
    ] = None,
) -> None:
    """Write one HTML page of all results: tables beside the paper's, loss curves and every run."""
    if paper is not None:
        with exit_on_user_error():
            _write_paper(paper, out)
        return
    asked_for = {ledger, tables} - {LEDGER, TABLES}
    # With --ledger alone, show only tables of its runs, and no figures, which have no runs.
    alone = ledger in asked_for and tables not in asked_for
    if alone and not out.is_dir():
        tables = ledger.parent / TABLES.name
    if out.is_dir():  # the --out of other commands
        ledger, tables = (path if path in asked_for else out / path.name for path in (ledger, tables))
        out = out / "report.html"
    with exit_on_user_error():
        if out.suffix not in (".html", ".htm"):
            raise ValueError(f"{out}: must be a folder of results or a file that ends in .html, got neither")
        for path in sorted(asked_for):
            if not path.exists():
                raise FileNotFoundError(f"{path}: there is no such file or folder")
        for path, holds, kind in ((ledger, ledger.is_file(), "a file"), (tables, tables.is_dir(), "a folder")):
            if path.exists() and not holds:
                raise ValueError(f"{path}: must be {kind}, got something else")
        found, runs, figures = read_tables(tables), _read_runs(ledger), read_figures(tables.parent)
        if alone:
            found, figures = tables_of(runs, found), {}
        write_whole(out, page(found, runs, figures), "the report")
    if not ledger.exists():
        way = "`graphprism report --out FOLDER` takes the runs of `graphprism train --out FOLDER`"
        typer.echo(f"There is no {ledger}; {way}.", err=True)
    typer.echo(f"The report of {counted(runs, 'run')} and {counted(found, 'table')} is in {out}.")


def paper_text(folder: Path, out: Path) -> str:
    """The text of the Markdown page ``out``."""
    from graphprism.experiments.stored import stored_tables

    tables, absent = stored_tables(folder)
    return paper_page(tables, f"graphprism report --paper {folder} --out {out}", absent)


def _write_paper(folder: Path, out: Path) -> None:
    if out.suffix != ".md":
        raise ValueError(f"`--out` must be a file that ends in .md with --paper, got {out}")
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder")
    write_whole(out, paper_text(folder, out), "the page")
    typer.echo(f"Every cell of the paper's tables is in {out}.")


def _read_runs(ledger: Path) -> list[RunResult]:
    """All valid lines, one of copies; the others are reported on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runs = Ledger(ledger).read()
    for warning in caught:
        typer.echo(f"warning: {warning.message}", err=True)
    # searches of earlier versions appended the result of a trial again when they were resumed
    by_training: dict[str, RunResult] = {}
    for run in runs:
        by_training.setdefault(training_of(run), run)
    return list(by_training.values())

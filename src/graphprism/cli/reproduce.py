"""``graphprism reproduce``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from graphprism.analysis.figures import save_figure, write_atomically
from graphprism.cli.arguments import Data
from graphprism.cli.errors import one_sentence
from graphprism.cli.progress import progress
from graphprism.experiments import FIGURE_2, figure_2_spec, plot_figure_2, run_figure_2

app = typer.Typer(help="Compute a figure or table of the paper.", no_args_is_help=True)


@app.callback()
def reproduce() -> None:
    """A group, so that there can be more figures than one."""


@app.command("figure-2")
def figure_2(
    models: Annotated[str, typer.Option(help="Names between commas.")] = ",".join(FIGURE_2.models),
    graphs: Annotated[str | None, typer.Option(help="zinc, molecules or cora; zinc if its file is there.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds: 50; 10 on cora.", show_default=False)] = None,
    layers: Annotated[int, typer.Option(help="Number of iterations.")] = FIGURE_2.layers,
    channels: Annotated[int, typer.Option(help="Width of the states.")] = FIGURE_2.channels,
    data: Data = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write.")] = Path("outputs/figure-2"),
) -> None:
    """Follow the rank-one distance through 128 layers with fresh random weights, with and without a split."""
    start = time.perf_counter()
    with one_sentence():
        spec = figure_2_spec(models.split(","), graphs, seeds, layers, channels, data)
        with progress(len(spec.models) * spec.seeds) as advance:
            result = run_figure_2(spec, data, on_run=lambda model, seed: advance(f"{model}, seed {seed}"))
        write_atomically(out / "figure-2.json", result.to_json().encode())
        picture = plot_figure_2(result)
        for name in ("figure-2.png", "figure-2.svg"):
            save_figure(picture, out / name)
    Console().print(result)
    typer.echo(f"0 is one signal. JSON, PNG and SVG are in {out} ({time.perf_counter() - start:.0f} s).")

"""``graphprism tune``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from graphprism._text import counted
from graphprism.cli import train_options as option
from graphprism.cli.arguments import Data, exit_on_user_error


def tune(
    context: typer.Context,
    file: option.RunFile = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUES",
            help="A range (lr=1e-4..1e-2) or values (jk=none|cat); may be repeated.",
            show_default="lr, layers, dropout, residual",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Number of trials, including those of earlier calls.")] = 20,
    group: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Trials trained at once; they differ only in lr and weight_decay.",
            show_default="8 on a GPU, else 1",
        ),
    ] = None,
    dataset: option.Dataset = "molecules",
    model: option.Models = None,
    split: option.Split = None,
    layers: option.Layers = None,
    width: option.Width = None,
    budget: option.Budget = None,
    epochs: option.Epochs = None,
    patience: option.Patience = None,
    metric: option.Metric = None,
    class_weights: option.ClassWeights = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search and of the runs.")] = 0,
    data: Data = None,
    out: option.Out = Path("outputs"),
    accelerator: option.Accelerator = "auto",
) -> None:
    """Search hyper-parameters with Optuna; trials with poor validation scores are stopped early.

    The same command resumes an interrupted search. The best settings are written to FOLDER/best.toml, for `graphprism
    train FOLDER/best.toml --seeds 0..4`; test scores are never used for a choice.
    """
    from graphprism.cli.train import options_of

    try:
        with exit_on_user_error():
            options = {"seeds": str(seed), "folds": "0", "lr": None, **options_of(context)}
            _run(options)
    except KeyboardInterrupt:
        typer.echo("stopped before a trial began; the same command starts where this one did", err=True)
        raise typer.Exit(130) from None


# Default search space.
_SPACE = ("lr=1e-4..1e-2", "layers=2..8", "dropout=0.0|0.2|0.5", "residual=false|true")
_MOST_SHOWN = 5
_ENDED = ("finished", "pruned", "diverged")


def _run(options: dict[str, Any]) -> None:
    import torch

    from graphprism._extras import needs_extra
    from graphprism._text import rich_table, short
    from graphprism.cli.progress import EpochProgress
    from graphprism.cli.run_file import write_run_file
    from graphprism.cli.run_training import train_data, train_runs
    from graphprism.cli.train_table import score_heading
    from graphprism.experiments.tune import Tuner, parse_choice

    with needs_extra("a search for settings"):
        import optuna
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    options["dataset"], set_data = train_data(options["dataset"], options["data"])
    space = dict(parse_choice(text) for text in options["vary"] or _SPACE)
    first, *others = (options["model"] or "mrs-gcn").split(",")
    base = train_runs({**options, "model": first}, set_data)[0]
    if set_data.level != "graph" and set_data.directed and not options["model"]:
        base = train_runs({**options, "model": "mrs-dir-gcn"}, set_data)[0]
    on_gpu = options["accelerator"] != "cpu" and torch.cuda.is_available()
    out = Path(options["out"])
    tuner = Tuner(
        base,
        space,
        set_data,
        out,
        accelerator=options["accelerator"],
        group=options["group"] or (8 if on_gpu else 1),
        seed=base.seed,
    )
    typer.echo(
        f"{base.dataset}: {counted(options['trials'], 'trial')} of {base.model} over "
        f"{', '.join(options['vary'] or _SPACE)}; {counted(base.epochs, 'epoch')} each at most",
        err=True,
    )
    if others:
        typer.echo(f"of {options['model']} the first is tuned (--model {others[0].strip()} takes another)", err=True)
    metric = base.metric or set_data.metric
    ended, under_way = sum(row["state"] in _ENDED for row in tuner.found().trials), [0]
    with EpochProgress() as progress, _says_what_is_kept(lambda: (ended, options["trials"], under_way[0])):

        def watch(report: Any) -> None:
            under_way[0] = report.epoch
            if progress.has_bar:  # no lines per epoch elsewhere
                progress(report)

        def say(row: dict[str, Any]) -> None:
            nonlocal ended
            ended, under_way[0] = ended + 1, 0
            settings = ", ".join(f"{name} {short(row.get(name))}" for name in space)
            score = f" {tuner.study.user_attrs['metric']} {short(row['value'])}" if row["value"] is not None else ""
            progress.say(f"trial {row['number']}: {row['state']}{score} ({settings})")

        tuner.study.set_user_attr("metric", metric)
        progress.metric = metric
        found = tuner.run(options["trials"], watch, say)
    finished = sorted(
        (row for row in found.trials if row["state"] == "finished"),
        key=lambda row: row["value"],
        reverse=tuner.study.direction.name == "MAXIMIZE",
    )
    counts = {state: sum(row["state"] == state for row in found.trials) for state in _ENDED}
    header = ["trial", *space, f"val {score_heading(metric)}", f"test {score_heading(metric)}", "epochs"]
    columns = ("number", *space, "value", "test", "epochs")
    rows = [[short(row.get(column)) for column in columns] for row in finished[:_MOST_SHOWN]]
    from rich.console import Console

    words = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    Console().print(rich_table(f"{set_data.name}: {words}", header, rows, "Chosen by validation."))
    if found.best is not None:
        write_run_file(out / "best.toml", [found.best])
        typer.echo(f"The best settings are in {out / 'best.toml'}.")


@contextmanager
def _says_what_is_kept(state: Callable[[], tuple[int, int, int]]) -> Iterator[None]:
    """Says on Ctrl-C what is kept, from trials that ended, those asked for and the last epoch; exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        ended, asked, epoch = state()
        kept = f"no trial of {asked:,} has ended"
        if ended:
            verbs = "has ended and is" if ended == 1 else "have ended and are"
            kept = f"{ended:,} of {counted(asked, 'trial')} {verbs} kept"
        current = f", the {'next' if ended else 'first'} one is kept up to epoch {epoch}" if epoch else ""
        typer.echo(f"stopped: {kept}{current}; the same command resumes", err=True)
        raise typer.Exit(130) from None

"""``graphprism tune``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphprism._text import counted, rich_table, short
from graphprism.cli import train_options as option
from graphprism.cli.arguments import Data, exit_on_user_error, plain_warnings

if TYPE_CHECKING:
    from graphprism.experiments.tune import Tuned, Tuner


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
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            autocompletion=option.complete_models,
            help="A model of `graphprism train`; of several, comma-separated, each is tuned with --trials trials.",
            show_default="mrs-gcn; mrs-dir-gcn on directed graphs",
        ),
    ] = None,
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
    train FOLDER/best.toml --seeds 0..4`, and of several models those of each to FOLDER/best-MODEL.toml; test scores are
    never used for a choice.
    """
    from graphprism.cli.train import options_of

    try:
        with exit_on_user_error(), plain_warnings():
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
    from graphprism.cli.run_file import write_run_file
    from graphprism.cli.run_training import train_data, train_runs
    from graphprism.cli.train_table import score_heading
    from graphprism.experiments.tune import Tuner, parse_choice
    from graphprism.nn import CONVOLUTIONS
    from graphprism.protocols import plain_model
    from graphprism.training import METRICS

    with needs_extra("a search for settings"):
        import optuna
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    options["dataset"], dataset = train_data(options["dataset"], options["data"])
    space = dict(parse_choice(text) for text in options["vary"] or _SPACE)
    names = options["model"] or CONVOLUTIONS[plain_model(dataset.level, dataset.directed)].partner
    bases = {run.model: run for run in reversed(train_runs({**options, "model": names}, dataset))}
    bases = dict(reversed(bases.items()))
    if "model" in space:  # all of them are in one search
        bases = dict([*bases.items()][:1])
    first, out = next(iter(bases.values())), Path(options["out"])
    on_gpu = options["accelerator"] != "cpu" and torch.cuda.is_available()
    group, accelerator = options["group"] or (8 if on_gpu else 1), options["accelerator"]
    # all of them first: values that do not fit a model are refused before anything is trained
    tuners = [
        Tuner(base, space, dataset, out, accelerator=accelerator, group=group, seed=base.seed)
        for base in bases.values()
    ]
    models = first.model if len(bases) == 1 else f"each of {', '.join(bases)}"
    settings = tuners[0].num_settings
    if settings is not None and settings < options["trials"]:
        options["trials"] = settings
        typer.echo(f"There are {counted(settings, 'setting')}; each is tried once.", err=True)
    typer.echo(
        f"{first.dataset}: {counted(options['trials'], 'trial')} of {models} over "
        f"{', '.join(options['vary'] or _SPACE)}; {counted(first.epochs, 'epoch')} each at most",
        err=True,
    )
    found = [_search(tuner, options["trials"], named=len(bases) > 1) for tuner in tuners]
    metric = first.metric or dataset.metric
    best = [(each.value, each.best) for each in found if each.best is not None and each.value is not None]
    best.sort(key=lambda each: each[0], reverse=METRICS[metric].larger_is_better)
    if not best:
        return
    write_run_file(out / "best.toml", [best[0][1]])
    if len(bases) == 1:
        typer.echo(f"The best settings are in {out / 'best.toml'}.")
        return
    scores = ", ".join(f"{run.model} {short(value)}" for value, run in best)
    after = counted(options["trials"], "trial")
    typer.echo(f"Best validation {score_heading(metric)} of each model, after {after}: {scores}.")
    files = {out / f"best-{run.model}.toml": run for _, run in best}
    for file, run in files.items():
        write_run_file(file, [run])
    of_each = ", ".join(map(str, files))
    typer.echo(f"The best settings are in {out / 'best.toml'} ({best[0][1].model}), those of each model in {of_each}.")


def _search(tuner: Tuner, trials: int, named: bool) -> Tuned:
    """Searches the settings of one model, and prints its trials and a table of the best."""
    from rich.console import Console

    from graphprism.cli.progress import EpochProgress
    from graphprism.cli.train_table import score_heading

    base, space, dataset = tuner.base, tuner.space, tuner.dataset
    metric = base.metric or dataset.metric
    tuner.study.set_user_attr("metric", metric)
    ended, under_way = sum(row["state"] in _ENDED for row in tuner.found().trials), [0]
    name = f"{base.model}, " if named else ""
    with EpochProgress() as progress, _says_what_is_kept(lambda: (ended, trials, under_way[0]), name):

        def watch(report: Any) -> None:
            under_way[0] = report.epoch
            if progress.has_bar:  # no lines per epoch elsewhere
                progress(report)

        def say(row: dict[str, Any]) -> None:
            nonlocal ended
            ended, under_way[0] = ended + 1, 0
            settings = ", ".join(f"{name} {short(row.get(name))}" for name in space)
            score = f" {metric} {short(row['value'])}" if row["value"] is not None else ""
            state = f"pruned after {counted(row['epochs'], 'epoch')}," if row["state"] == "pruned" else row["state"]
            progress.say(f"{name}trial {row['number']}: {state}{score} ({settings})")

        progress.metric = metric
        found = tuner.run(trials, watch, say)
    finished = sorted(
        (row for row in found.trials if row["state"] == "finished"),
        key=lambda row: row["value"],
        reverse=tuner.study.direction.name == "MAXIMIZE",
    )
    counts = {state: sum(row["state"] == state for row in found.trials) for state in _ENDED}
    header = ["trial", *space, f"val {score_heading(metric)}", f"test {score_heading(metric)}", "epochs"]
    columns = ("number", *space, "value", "test", "epochs")
    rows = [[short(row.get(column)) for column in columns] for row in finished[:_MOST_SHOWN]]
    words = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    Console().print(rich_table(f"{dataset.name}: {name}{words}", header, rows, "Chosen by validation."))
    return found


@contextmanager
def _says_what_is_kept(state: Callable[[], tuple[int, int, int]], model: str) -> Iterator[None]:
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
        typer.echo(f"stopped: {model}{kept}{current}; the same command resumes", err=True)
        raise typer.Exit(130) from None

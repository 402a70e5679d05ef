"""The interface of the experiments of ``graphprism reproduce``: trained tables, measured tables and figures."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from graphprism._text import counted, duration
from graphprism.experiments.runner import Listener, Reproduction, Trainer
from graphprism.experiments.spec import Settings, TableSpec
from graphprism.experiments.table import show_table, write_table
from graphprism.plotting import save_figure
from graphprism.results import RunResult, TableResult
from graphprism.training import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The part of a title that differs between runs of one configuration.
_SEED = re.compile(r", seed \d+")


@dataclass(frozen=True)
class Option:
    """An option of an experiment, which becomes an option of its command.

    Attributes:
        name: Key in the options that `Experiment.prepare` takes.
        kind: Type of its values, such as ``int`` or ``str | None``.
        default: Default value.
        help: One sentence.
    """

    name: str
    kind: Any
    default: Any
    help: str


@dataclass(frozen=True)
class Output:
    """Result of a job.

    Attributes:
        shown: A renderable of `rich`.
        files: All files written.
    """

    shown: Any
    files: tuple[Path, ...]


class Progress(Protocol):
    """Receives the progress of a job."""

    def advance(self, title: str) -> None:
        """Called after each step."""

    def epoch(self, report: Any) -> None:
        """Called after each training epoch with a `graphprism.training.EpochReport`."""

    def say(self, line: str) -> None:
        """Shows a permanent message."""


class Job(Protocol):
    """An experiment with checked options, ready to run."""

    @property
    def steps(self) -> int:
        """Number of calls of `Progress.advance` by `run`."""

    @property
    def noun(self) -> str:
        """Name of a step: ``"run"`` or ``"row"``."""

    def plan(self) -> list[str]:
        """Lines that describe what `run` would do."""

    def run(self, progress: Progress) -> Output:
        """Computes the numbers and writes the files."""


class Experiment(Protocol):
    """A table or figure of the paper; all are listed in `graphprism.experiments.tables.TABLES`."""

    @property
    def name(self) -> str:
        """Name of the command: ``graphprism reproduce NAME``."""

    @property
    def help(self) -> str:
        """One sentence."""

    @property
    def options(self) -> tuple[Option, ...]:
        """Options beside the folders of data and results, which every experiment has."""

    def prepare(self, options: Mapping[str, Any], data: Path | None, out: Path, dry_run: bool = False) -> Job:
        """Checks the options and loads the data.

        Args:
            options: A value for each of `options`.
            data: Folder of data sets.
            out: Folder of results.
            dry_run: Whether only `Job.plan` will be called: nothing is downloaded.

        Raises:
            ValueError: An option is invalid.
            OSError: The data are missing.
        """


def _counts(titles: Iterable[str], noun: str) -> list[str]:
    """Distinct titles without seeds, each with its number of steps."""
    return [f"{title}: {counted(count, noun)}" for title, count in Counter(_SEED.sub("", t) for t in titles).items()]


@dataclass(frozen=True)
class TrainedTable:
    """An `Experiment` that trains the runs of a table.

    Attributes:
        spec: The table.
        draw: Draws a figure from the table and all results by key; None without a figure.
        wrap: Wraps the trainer of the settings, to do more than train; None to use it directly.
    """

    spec: TableSpec
    draw: Callable[[TableResult, Mapping[str, RunResult]], Figure] | None = None
    wrap: Callable[[Trainer], Trainer] | None = None

    @property
    def name(self) -> str:
        """That of the table."""
        return self.spec.name

    @property
    def help(self) -> str:
        """The title, and a remark that calls resume."""
        return f"{self.spec.title}; finished runs are read from the ledger, interrupted ones are resumed."

    @property
    def options(self) -> tuple[Option, ...]:
        """The fields of `Settings`."""
        return (
            Option("rows", str | None, None, "Rows to run, comma-separated; default: all."),
            Option("columns", str | None, None, "Columns to run, comma-separated; default: all."),
            Option("seeds", int, self.spec.seeds, "Runs of each configuration."),
            Option("grid", str, "best", "best: published hyper-parameters; full: the whole published grid."),
            Option("epochs", int | None, None, "Replaces the published number, for quick trials."),
            Option("engine", str, "auto", "eager, lockstep (many runs at once on a GPU) or auto."),
            Option("seconds", float | None, None, "Stop training after this time; the same command resumes."),
        )

    def prepare(self, options: Mapping[str, Any], data: Path | None, out: Path, dry_run: bool = False) -> TrainingJob:
        """Plans the runs and loads their data sets; warns about missing ones."""
        settings = Settings(**{**options, **{name: _names(options[name]) for name in ("rows", "columns")}})
        reproduction = Reproduction.of(self.spec, settings, data, out, fetch=not dry_run)
        for reason in reproduction.missing.values():
            warnings.warn(reason, stacklevel=2)
        return TrainingJob(reproduction, self.draw, wrap=self.wrap)


@dataclass(frozen=True)
class TrainingJob:
    """The `Job` of a `TrainedTable`."""

    reproduction: Reproduction
    draw: Callable[[TableResult, Mapping[str, RunResult]], Figure] | None
    noun: str = "run"
    wrap: Callable[[Trainer], Trainer] | None = None

    @property
    def steps(self) -> int:
        """Number of runs of the wanted cells."""
        return len(self.reproduction.runs)

    def plan(self) -> list[str]:
        """Remaining runs, their steps, and their time as far as the ledger has comparable runs."""
        wanted, found = self.reproduction, self.reproduction.estimate()
        left, results = found.runs - found.finished, wanted.results()
        runs = _counts((run.title for run in wanted.runs if run.key not in results), self.noun)
        absent = sorted({run.dataset for run in wanted.runs} - set(wanted.datasets))
        known = f"about {duration(found.seconds)} by like runs on this machine" if found.seconds else ""
        unknown = f"{counted(found.unknown, 'run')} of unknown time until the first like them has run"
        steps = f"{found.steps:,} steps" + (f" and those on {', '.join(absent)}, fetched first" if absent else "")
        time = "".join(f"; {part}" for part in (known, unknown if found.unknown else "") if part and left)
        return [*runs, f"{left} of {found.runs} runs to do ({found.finished} are in the ledger), {steps}{time}."]

    def run(self, progress: Progress) -> Output:
        """Trains the runs that the ledger lacks; writes the table and the figure, if any."""
        wanted = self.reproduction
        trainer = wanted.trainer if self.wrap is None else self.wrap(wanted.trainer)
        table = wanted.run(listener_of(progress, wanted.runs), trainer)
        files = [wanted.out / "tables" / f"{table.name}.json"]
        if self.draw is not None:
            files += save_png_and_svg(self.draw(table, wanted.results()), wanted.out, table.name)
        return Output(show_table(table), tuple(files))


def listener_of(progress: Progress, runs: Sequence[Run]) -> Listener:
    """Callbacks that show what becomes of these runs."""
    titles = {run.key: run.title for run in runs}

    def on_run(result: RunResult) -> None:
        if result.status == "diverged":
            progress.say(f"diverged: {titles[result.key]}")
        progress.advance(titles[result.key])

    def on_wait(count: int) -> None:
        found = counted(count, "run")
        progress.say(f"waiting for {found} of another process; stop at any time, the same command resumes")

    def on_stop(count: int) -> None:
        progress.say(f"time is up, {counted(count, 'run')} to do; the same command resumes")

    return Listener(on_run, progress.epoch, on_wait, on_stop)


OnStep: TypeAlias = Callable[[str], None]


def _write_table(table: TableResult, out: Path) -> list[Path]:
    return [write_table(table, out)]


@dataclass(frozen=True)
class Measured:
    """An `Experiment` without a ledger: a table or figure that is measured anew in every call.

    Attributes:
        name: Name of the command.
        help: One sentence.
        measure: ``measure(data=..., on_step=..., **options)`` returns the result.
        steps: ``steps(data=..., **options)`` returns the title of each step; raises `ValueError` for invalid options.
        options: Options of the two functions.
        noun: Name of a step.
        write: Writes the result below a folder and returns the files.
        show: Returns a renderable of `rich` for the result.
    """

    name: str
    help: str
    measure: Callable[..., Any]
    steps: Callable[..., Sequence[str]]
    options: tuple[Option, ...] = ()
    noun: str = "run"
    write: Callable[[Any, Path], Sequence[Path]] = _write_table
    show: Callable[[Any], Any] = show_table

    def prepare(self, options: Mapping[str, Any], data: Path | None, out: Path, dry_run: bool = False) -> MeasuringJob:
        """Checks the options."""
        return MeasuringJob(self, dict(options), data, out, tuple(self.steps(data=data, **options)))


@dataclass(frozen=True)
class MeasuringJob:
    """The `Job` of a `Measured`."""

    experiment: Measured
    options: dict[str, Any]
    data: Path | None
    out: Path
    titles: tuple[str, ...]

    @property
    def steps(self) -> int:
        """Number of titles."""
        return len(self.titles)

    @property
    def noun(self) -> str:
        """That of the experiment."""
        return self.experiment.noun

    def plan(self) -> list[str]:
        """The steps, all of which run in every call."""
        steps = counted(self.titles, self.noun)
        return [*_counts(self.titles, self.noun), f"{steps} to do; nothing is kept between calls."]

    def run(self, progress: Progress) -> Output:
        """Measures and writes the result."""
        result = self.experiment.measure(data=self.data, on_step=progress.advance, **self.options)
        return Output(self.experiment.show(result), tuple(self.experiment.write(result, self.out)))


def save_png_and_svg(figure: Figure, out: Path, name: str) -> list[Path]:
    """Writes ``NAME/NAME.png`` and ``NAME/NAME.svg`` below ``out``, where the report reads them."""
    paths = [out / name / f"{name}{suffix}" for suffix in (".png", ".svg")]
    for path in paths:
        save_figure(figure, path)
    return paths


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())

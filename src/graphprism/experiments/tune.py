"""Hyper-parameter search with Optuna: pruned by validation, in lockstep groups where possible."""

from __future__ import annotations

import ast
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import IO, Any

import numpy as np

from graphprism._checks import check_positive, check_type
from graphprism._extras import needs_extra
from graphprism._files import claim, lock
from graphprism._text import suggest
from graphprism.datasets import PackedDataset
from graphprism.ledger import Ledger
from graphprism.results import RunResult, is_copy
from graphprism.training import EpochReport, Run, Task, data_identity, train_lockstep
from graphprism.training.checkpoint import RunFolder
from graphprism.training.data_form import form_of
from graphprism.training.session import Progress
from graphprism.training.train import check_run

# Fields in which runs of a lockstep group may differ: the others are drawn once per group.
_FREE = ("lr", "weight_decay")
# A range whose ends have at least this ratio is drawn on a logarithmic scale.
_LOGARITHMIC = 50
# A trial is judged against others after the warm-up of its learning rate and a share of its epochs, two at least: the
# first epoch of a warm-up trains with a rate of 0, and would be judged by rounding.
_STARTUP_TRIALS, _JUDGED_AFTER, _FEWEST_EPOCHS = 4, 0.1, 2


@dataclass(frozen=True)
class Choice:
    """Search space of one field of a run.

    Attributes:
        values: All values; empty for a range.
        low: Lower end of a range.
        high: Upper end, inclusive.
    """

    values: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Whether a range is over integers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def all_values(self) -> Sequence[Any] | None:
        """Every value, in order; None for a range of real numbers."""
        if self.values:
            return tuple(dict.fromkeys(self.values))
        return range(int(self.low), int(self.high) + 1) if self.is_whole else None

    @property
    def is_logarithmic(self) -> bool:
        """Whether a range is drawn on a logarithmic scale."""
        return self.low > 0 and self.high / self.low >= _LOGARITHMIC


def parse_choice(text: str) -> tuple[str, Choice]:
    """Parses a field and its values: ``lr=1e-4..1e-2``, ``layers=2..8``, ``dropout=0|0.2|0.5``, ``model=gcn|mrs-gcn``.

    Raises:
        ValueError: It has another form, or `Run` has no such field.

    >>> parse_choice("lr=1e-4..1e-2")
    ('lr', Choice(values=(), low=0.0001, high=0.01))
    >>> parse_choice("jk=none|cat")
    ('jk', Choice(values=(None, 'cat'), low=0.0, high=0.0))
    """
    name, _, given = text.partition("=")
    name = name.strip().replace("-", "_")
    known = {each.name for each in fields(Run)} - {"dataset", "seed", "fold", "epochs"}
    if name not in known:
        close = suggest(name, sorted(known))
        raise ValueError(f"`vary` must name a field of a run that may vary, got {name!r}{close}")
    if not given.strip():
        raise ValueError(f"`vary` must be such as lr=1e-4..1e-2 or jk=none|cat, got {text!r}")
    low, dots, high = given.partition("..")
    if dots:
        ends = [_literal(low), _literal(high)]
        if not all(isinstance(each, int | float) and math.isfinite(each) for each in ends) or ends[0] >= ends[1]:
            raise ValueError(f"`vary` must have a range from a number to a larger one, got {text!r}")
        # 0..1 is a range of real numbers where the field holds them
        ends = [float(each) for each in ends] if isinstance(getattr(Run, name), float) else ends
        return name, Choice(low=ends[0], high=ends[1])
    return name, Choice(values=tuple(_literal(each) for each in given.split("|")))


def _literal(text: str) -> Any:
    word = text.strip()
    if word.lower() in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[word.lower()]
    try:
        found = ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word
    return found if isinstance(found, int | float) else word


@dataclass(frozen=True)
class Tuned:
    """Result of a search.

    Attributes:
        best: The run with the best validation score; None if no trial has finished.
        value: Its validation score.
        trials: All trials as plain values: ``number``, ``state``, ``value``, ``test``, ``epochs`` and the fields that
            vary.
    """

    best: Run | None
    value: float | None
    trials: list[dict[str, Any]]


class _JournalLock:
    """Lock of the journal that the system releases with the process.

    Optuna's own is a link: a killed process leaves it behind, which the next one waits half a minute for, and Ctrl-C
    while it is removed ends in an `OSError`.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._path = folder / "journal.lock"
        self._file: IO[bytes] | None = None

    def acquire(self) -> bool:
        self._file = self._path.open("ab")
        lock(self._file)
        return True

    def release(self) -> None:
        if self._file is not None:
            self._file.close()


class Tuner:
    """A resumable Optuna study, stored in ``out / "tune.journal"``.

    Args:
        base: The run whose fields vary.
        space: Fields and their values.
        dataset: The data set.
        out: Folder of the study, of checkpoints and of the ledger.
        accelerator: One of `graphprism.results.ACCELERATORS`.
        group: Number of trials trained at once; they differ only in learning rate and weight decay.
        seed: Seed of the search.
    """

    def __init__(
        self,
        base: Run,
        space: Mapping[str, Choice],
        dataset: PackedDataset,
        out: Path,
        *,
        accelerator: str = "auto",
        group: int = 1,
        seed: int = 0,
    ) -> None:
        check_type("base", base, Run, "a Run")
        check_positive("group", group)
        if not space:
            raise ValueError("`space` must have a field that varies, got none")
        with needs_extra("a search for settings"):
            import optuna
            from optuna.storages import JournalStorage
            from optuna.storages.journal import JournalFileBackend
        ends = {name: choice.values or (choice.low, choice.high) for name, choice in space.items()}
        first: dict[str, Any] = {name: values[0] for name, values in ends.items()}
        for name, values in ends.items():  # raises for invalid values before anything runs
            for value in values:
                check_run(replace(base, **{**first, name: value}), dataset)
        self._optuna, self.base, self.space, self.dataset = optuna, base, dict(space), dataset
        self.out, self.accelerator, self.group, self.seed = out, accelerator, group, seed
        self._task = Task.of(dataset, base)
        out.mkdir(parents=True, exist_ok=True)
        identity = json.dumps(
            [base.to_dict(), {key: vars(each) for key, each in space.items()}, data_identity(dataset)]
        )
        name = f"{base.dataset} {hashlib.sha256(identity.encode()).hexdigest()[:12]}"
        journal_lock: Any = _JournalLock(out / "locks")
        warm_up = space.get("warmup", Choice(values=(base.warmup,)))
        judged = max(_FEWEST_EPOCHS, int(_JUDGED_AFTER * base.epochs)) + int(max(warm_up.values or (warm_up.high,)))
        self.study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(out / "tune.journal"), journal_lock)),
            study_name=name,
            load_if_exists=True,
            direction="maximize" if self._task.larger_is_better else "minimize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=_STARTUP_TRIALS, n_warmup_steps=judged),
        )
        self.study.set_user_attr("title", base.title)

    def run(
        self,
        trials: int,
        on_epoch: Callable[[EpochReport], object] = lambda report: None,
        on_trial: Callable[[dict[str, Any]], None] = lambda trial: None,
    ) -> Tuned:
        """Trains until ``trials`` trials have ended, including those of earlier calls, or all settings were tried.

        Args:
            trials: Number of trials.
            on_epoch: Called after every epoch.
            on_trial: Called with every trial that has ended.
        """
        check_positive("trials", trials)
        takes_all = self.num_settings is not None and self.num_settings <= trials
        groups: dict[int, list[Any]] = {}
        with ExitStack() as claims:
            for trial in self._cut_short(claims):
                if self._is_behind(trial):
                    self.study.tell(trial.number, state=self._optuna.trial.TrialState.PRUNED)
                    on_trial(self._row(self.study.trials[trial.number]))
                else:
                    groups.setdefault(trial.user_attrs.get("group", trial.number), []).append(trial)
            for group in groups.values():
                self._train(group, on_epoch, on_trial)
        while (left := trials - len(self._ended())) > 0:
            with ExitStack() as claims:
                group_of_trials = self._ask(min(self.group, left), takes_all, claims)
                if not group_of_trials:
                    break
                self._train(group_of_trials, on_epoch, on_trial)
        return self.found()

    @property
    def num_settings(self) -> int | None:
        """How many settings there are; None with a range of real numbers."""
        every = [choice.all_values for choice in self.space.values()]
        return None if any(values is None for values in every) else math.prod(len(values or ()) for values in every)

    def found(self) -> Tuned:
        """The best trial so far, and all of them."""
        complete = [each for each in self.study.trials if each.state.name == "COMPLETE"]
        best = self.study.best_trial if complete else None
        rows = [self._row(each) for each in self.study.trials]
        run = None if best is None else Run.from_dict(best.user_attrs["run"])
        return Tuned(run, None if best is None else best.value, rows)

    def _ended(self) -> list[Any]:
        return [each for each in self.study.trials if each.state.is_finished()]

    def _cut_short(self, claims: ExitStack) -> list[Any]:
        """Trials of killed processes, whose claims are released; claims them."""
        found = []
        with self._proposing():  # a new trial of another process has its claim as well
            for each in self.study.trials:
                if each.state.name != "RUNNING" or "run" not in each.user_attrs:
                    continue
                mine = claims.enter_context(claim(self._lock(each.number)))
                # it may have ended meanwhile, before its claim was released
                if mine and self.study.trials[each.number].state.name == "RUNNING":
                    found.append(self._optuna.trial.Trial(self.study, each._trial_id))
        return found

    @contextmanager
    def _proposing(self) -> Iterator[None]:
        """While no other process proposes or takes over trials."""
        with (self.out / "locks" / "propose.lock").open("ab") as file:
            lock(file)
            yield

    def _is_behind(self, trial: Any) -> bool:
        """Whether the last epoch before a kill ends a trial; reports epochs that only the checkpoint has."""
        run = Run.from_dict(trial.user_attrs["run"])
        with self._alone([run]):
            folder = RunFolder(self.out / "checkpoints", run, data_identity(self.dataset), form_of(self.dataset, run))
            try:
                checkpoint = folder.load()
            finally:
                folder.close()
        progress = Progress(self._task.larger_is_better)
        if checkpoint is not None:
            progress.load(checkpoint)
        reported = self.study.trials[trial.number].intermediate_values
        for epoch, value in enumerate(progress.history["val"], start=1):
            if epoch not in reported and not math.isnan(value):
                trial.report(value, epoch)
        # with an older checkpoint, epochs that were reported come again, and the last of them decides
        is_older = progress.epoch < max(reported, default=0)
        if is_older or progress.epochs_left(run) <= 0 or not trial.should_prune():
            return False
        best = progress.best_epoch
        trial.set_user_attr("test", None if best is None else progress.history["test"][best - 1])
        trial.set_user_attr("epochs", progress.epoch)
        return True

    @contextmanager
    def _alone(self, runs: Iterable[Run]) -> Iterator[None]:
        """While no other process trains one of these runs: a trial of its own may have drawn the same values."""
        with ExitStack() as held:
            for key in sorted({run.key for run in runs}):  # in one order, so that no two processes wait for each other
                lock(held.enter_context((self.out / "locks" / f"run-{key}.lock").open("ab")))
            yield

    def _lock(self, number: int) -> Path:
        name = hashlib.sha256(self.study.study_name.encode()).hexdigest()[:12]
        return self.out / "locks" / f"trial-{name}-{number}.lock"

    def _ask(self, count: int, takes_all: bool, claims: ExitStack) -> list[Any]:
        """New trials, claimed; all but the first copy from it the fields that a lockstep group must share.

        With ``takes_all`` they have settings that no trial has had, and there are none where every setting was tried.
        """
        with self._proposing():
            trials: list[Any] = []
            shared: dict[str, Any] = {}
            free = [name for name in self.space if name in _FREE]
            for _ in range(count if free else 1):
                fixed = self._untried(shared) if takes_all else shared
                if fixed is None:
                    break
                trial, values = self._proposed(fixed)
                shared = shared or {name: value for name, value in values.items() if name not in _FREE}
                trials.append(trial)
            for trial in trials:
                trial.set_user_attr("group", trials[0].number)
                claims.enter_context(claim(self._lock(trial.number)))
        return trials

    def _untried(self, shared: Mapping[str, Any]) -> dict[str, Any] | None:
        """Of the settings with these values that no trial has, one that the seed chooses; None if there is none."""
        known = [each.params for each in self.study.get_trials(deepcopy=False)]
        every = product(*(choice.all_values or () for choice in self.space.values()))
        settings = [dict(zip(self.space, values, strict=True)) for values in every]
        left = [each for each in settings if each not in known and all(each[name] == shared[name] for name in shared)]
        generator = np.random.default_rng([self.seed, len(known)])
        return left[int(generator.integers(len(left)))] if left else None

    def _proposed(self, fixed: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """A new trial and its values, ``fixed`` ones among them unless a process was killed while it proposed one.

        A value is a function of the seed, of the number of its trial and of the trials before: one stream of random
        numbers for the whole search would start anew in every process, and a resumed search would propose its first
        trials again.
        """
        # with the lock, no other process is proposing: a trial without its run belongs to one that was killed there
        known = self.study.get_trials(deepcopy=False)
        cut = next((each for each in known if each.state.name == "RUNNING" and "run" not in each.user_attrs), None)
        waiting = [each.number for each in known if each.state.name == "WAITING"]
        number = cut.number if cut is not None else waiting[0] if waiting else len(known)
        if fixed and cut is None and not waiting:
            self.study.enqueue_trial(dict(fixed))
        self.study.sampler = self._sampler(number)
        trial = self.study.ask() if cut is None else self._optuna.trial.Trial(self.study, cut._trial_id)
        values = {}
        for place, (name, choice) in enumerate(self.space.items()):
            self.study.sampler = self._sampler(number, place)
            values[name] = self._value(trial, name, choice)
        trial.set_user_attr("run", replace(self.base, **values).to_dict())
        return trial, values

    def _sampler(self, *numbers: int) -> Any:
        seed = int(np.random.SeedSequence([self.seed, *numbers]).generate_state(1)[0])
        return self._optuna.samplers.TPESampler(seed=seed)

    def _value(self, trial: Any, name: str, choice: Choice) -> Any:
        if choice.values:
            return trial.suggest_categorical(name, list(choice.values))
        if choice.is_whole:
            return trial.suggest_int(name, int(choice.low), int(choice.high))
        return trial.suggest_float(name, float(choice.low), float(choice.high), log=choice.is_logarithmic)

    def _train(
        self,
        trials: Sequence[Any],
        on_epoch: Callable[[EpochReport], object],
        on_trial: Callable[[dict[str, Any]], None],
    ) -> None:
        runs = {trial.number: Run.from_dict(trial.user_attrs["run"]) for trial in trials}
        by_key = {runs[trial.number].key: trial for trial in reversed(trials)}
        reported = {each.number: set(each.intermediate_values) for each in self.study.trials if each.number in runs}

        def watch(report: EpochReport) -> bool:
            trial, behind = by_key[report.run.key], False
            before = reported[trial.number]
            if not math.isnan(report.val):
                if report.epoch not in before:  # a resumed trial may have reported this epoch before
                    trial.report(report.val, report.epoch)
                # decided by the last epoch that was reported
                behind = report.epoch >= max(before, default=0) and bool(trial.should_prune())
            on_epoch(report)
            return behind

        ledger = Ledger(self.out / "ledger.jsonl")
        with self._alone(runs.values()):
            results = train_lockstep(
                list(runs.values()),
                self.dataset,
                folder=self.out / "checkpoints",
                accelerator=self.accelerator,
                on_epoch=watch,
            )
        for trial, result in zip(trials, results, strict=True):
            # a trial with the values of an earlier one, or killed after this line, reads its result from its folder
            if result.status != "stopped" and not is_copy(ledger.find(result.key), result):
                ledger.append(result)
            self._tell(trial, result)
            on_trial(self._row(self.study.trials[trial.number]))

    def _tell(self, trial: Any, result: RunResult) -> None:
        states = self._optuna.trial.TrialState
        trial.set_user_attr("test", result.at_best("test"))
        trial.set_user_attr("epochs", len(result.history["val"]))
        value = result.at_best("val")
        if result.status == "diverged" or value is None:
            self.study.tell(trial.number, state=states.FAIL)
        elif result.status == "stopped":
            self.study.tell(trial.number, state=states.PRUNED)
        else:
            self.study.tell(trial.number, value)

    def _row(self, trial: Any) -> dict[str, Any]:
        names = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "diverged", "RUNNING": "running"}
        return {
            "number": trial.number,
            "state": names.get(trial.state.name, "waiting"),
            "value": trial.value,
            "test": trial.user_attrs.get("test"),
            "epochs": trial.user_attrs.get("epochs"),
            **trial.params,
        }

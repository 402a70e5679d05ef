"""A short paired trial: the plain model against splits, seed by seed, until the time limit."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from graphprism.adviser.candidates import Candidate
from graphprism.datasets import PackedDataset
from graphprism.results import RunResult
from graphprism.training import Diverged, EpochReport, Run, Task, train, train_lockstep
from graphprism.training.processes import device_type
from graphprism.training.train import engine_of

# Size of graph-level networks in a trial: a tenth of the paper's parameters and half of its layers, for a CPU.
_BUDGET, _WIDTH, _LAYERS, _BATCH = 50_000, 64, 4, 16
# Steps that every model should take, and must take: with fewer, models still learn the mean of the targets.
_WANTED_STEPS = {"graph": 1200, "node": 200, "link": 200}
_FEWEST_STEPS = {"graph": 300, "node": 20, "link": 20}
# Epochs at least (more graphs are better than more epochs, but learning-rate schedules count epochs), graphs of the
# timing probe, and graphs for validation at most.
_FEWEST_EPOCHS, _PROBED, _VALIDATED = 4, 128, 500
# Steps of the timing probe: enough to separate the time of a step from the setup of CUDA graphs.
_TIMED = 160
# One thread is taken unless all of them are this much faster. The batches of a trial are small, and where another
# process holds a core, threads wait for each other: a step of 16 molecules took 344 ms with two and 2.5 with one.
_WORTH_THREADS = 1.25
# Share of the time limit at which a training is stopped.
_LIMIT = 1.1
# Share of the time for the first two seeds of all splits; number of these; most seeds.
_FIRST_SHARE, _FIRST_ROUNDS, _MOST_ROUNDS = 0.7, 2, 8

Clock = Callable[[], float]


@dataclass
class Trial:
    """Validation scores of the splits and of the plain model.

    Attributes:
        run: The plain run of the trial, smaller and shorter than the full one.
        graphs: Graphs for training that were used; None on one graph.
        scores: Validation score at its best epoch by label of the split (None is plain) and seed.
        step_ms: Times of a step by label of the split.
        seconds: Time taken.
        skipped: Why there was no trial; None if there was one.
        ended: Why there were no further seeds.
        validated: Number of nodes, graphs or pairs in the validation folds of the trial.
        judged: Number of their targets that a score is about: those of the rarer value for AUROC, those of value 1
            for AP, summed over labels. None for other metrics.
    """

    run: Run
    graphs: int | None = None
    scores: dict[str | None, dict[int, float]] = field(default_factory=dict)
    step_ms: dict[str | None, list[float]] = field(default_factory=dict)
    seconds: float = 0.0
    skipped: str | None = None
    ended: str = ""
    validated: int | None = None
    judged: int | None = None

    def differences(self, split: str, larger_is_better: bool) -> list[float]:
        """Improvement of a split over the plain model, per seed; negative if worse."""
        plain, own = self.scores.get(None, {}), self.scores.get(split, {})
        sign = 1.0 if larger_is_better else -1.0
        return [sign * (own[seed] - plain[seed]) for seed in sorted(own) if seed in plain]

    def cost(self, split: str) -> float | None:
        """Time of a step relative to the plain model."""
        if not self.step_ms.get(split) or not self.step_ms.get(None):
            return None
        return statistics.median(self.step_ms[split]) / statistics.median(self.step_ms[None])


def race(
    run: Run,
    dataset: PackedDataset,
    candidates: Sequence[Candidate],
    seconds: float,
    accelerator: str = "auto",
    clock: Clock = time.perf_counter,
) -> Trial:
    """Trains plain and split models in turn, seed by seed, and drops splits that fall behind.

    If the time is too short for all splits, the last ones wait until the others have two seeds, and are skipped if no
    time is left then: a model after too few steps does not predict the trained one.

    Args:
        run: The plain run as it would be trained in full.
        dataset: Its data; only validation scores are used.
        candidates: The splits, in order of priority.
        seconds: Time limit.
        accelerator: As for `train`.
        clock: Clock in seconds.
    """
    begin = clock()
    plan = _plan(run, dataset, len(candidates) + 1, seconds, accelerator, clock)
    with _threads(plan.threads):
        return _Race(plan, candidates, accelerator, lambda: begin + seconds - clock(), seconds).run()


class _Race:
    """Plain and split models that are trained in turn.

    Args:
        plan: What fits into the time.
        candidates: The splits, in order of priority.
        accelerator: As for `train`.
        left: Seconds that are left.
        seconds: Time limit.
    """

    def __init__(
        self, plan: _Plan, candidates: Sequence[Candidate], accelerator: str, left: Clock, seconds: float
    ) -> None:
        self.plan, self.data, self.accelerator, self.left, self.seconds = plan, plan.data, accelerator, left, seconds
        self.task, self.trial = Task.of(plan.data), Trial(plan.run)
        self.by_label = {each.label: each for each in candidates}
        self.alive: list[str | None] = [None, *list(self.by_label)[: max(plan.models - 1, 0)]]
        self.took: dict[str | None, float] = {}

    def run(self) -> Trial:
        """The first seeds of all models that fit into the time, of the others if time is left, and more of the best."""
        if self.plan.models < 2:
            self.trial.skipped = _too_few(self.seconds, self.task.level, self.plan.enough)
            return self.trial
        is_graphs = self.data.level == "graph"
        self.trial.graphs = int(self.data.subset("train").numel()) if is_graphs else None
        at_once = self.plan.at_once
        for first in range(0, _MOST_ROUNDS, at_once):
            seeds = range(first, min(first + at_once, _MOST_ROUNDS))
            if why := self._round(seeds):
                return self._ended(why)
            if seeds.stop >= _FIRST_ROUNDS:
                if first < _FIRST_ROUNDS and (why := self._late(range(seeds.stop))):
                    return self._ended(why)
                keep = 2 if seeds.stop == _FIRST_ROUNDS else 1
                self.alive = _survivors(self.trial, self.alive, self.task.larger_is_better, keep)
        return self._ended(f"{_MOST_ROUNDS} seeds are the most")

    def _round(self, seeds: range) -> str:
        """Trains these seeds of all models that are left; returns why the trial is over, empty if it is not."""
        for split in list(self.alive):
            if split not in self.alive:
                continue
            # after the first two seeds of all models, or after two models if seeds are trained in lockstep
            enough = seeds.start >= _FIRST_ROUNDS or (self.plan.at_once > 1 and len(self.took) >= 2)
            if enough and self.left() < self.took.get(split, self.took[None]):
                return "no time for another seed"
            if not enough and self.took:
                rounds_after = max(0, _FIRST_ROUNDS - seeds.stop)
                self.alive = _that_fit(self.alive, split, rounds_after, self.took, self.left())
                self.trial.scores = {each: found for each, found in self.trial.scores.items() if each in self.alive}
                if split not in self.alive:
                    continue
            if why := self._train(split, seeds):
                return why
        return ""

    def _late(self, seeds: range) -> str:
        """Trains the first seeds of splits that did not seem to fit, while they do."""
        rounds = -(-len(seeds) // self.plan.at_once)
        for split in self.by_label:
            need = rounds * self.took.get(split, max(self.took.values()))
            if split in self.alive or need > self.left():
                continue
            for first in range(0, len(seeds), self.plan.at_once):
                if why := self._train(split, seeds[first : first + self.plan.at_once]):
                    self.trial.scores.pop(split, None)
                    return why
            self.alive.append(split)
        return ""

    def _train(self, split: str | None, seeds: range) -> str:
        """Trains some seeds of a model and notes their scores; returns why the trial is over, empty if it is not."""
        folds = 1 if self.data.train_mask is None else self.data.train_mask.size(1)
        own = self.plan.run if split is None else self.by_label[split].applied(self.plan.run)
        before = self.left()
        results = _trained(
            [replace(own, seed=seed, fold=seed % folds) for seed in seeds],
            self.data,
            self.accelerator,
            lambda report: self.left() < (1 - _LIMIT) * self.seconds,
        )
        self.took[split] = before - self.left()
        if any(each is not None and each.status == "stopped" for each in results):
            if len(self.trial.scores.get(None, {})) < _FIRST_ROUNDS or len(self.trial.scores) < 2:
                why = f"{self.seconds:.0f} s were over before two seeds were trained"
                self.trial.skipped, self.trial.scores = why, {}
            return "the time was over"
        if any(each is not None and each.best_epoch is None for each in results):
            self.trial.skipped = f"{self.task.metric} is not defined on the validation fold"
            self.trial.scores = {}
            return "no score to compare"
        for seed, result in zip(seeds, results, strict=True):
            _note(self.trial, split, seed, result, self.task)
        return ""

    def _ended(self, why: str) -> Trial:
        trial, masks = self.trial, self.data.val_mask
        trial.ended, trial.seconds = why, self.seconds - self.left()
        if masks is None:
            rows = self.data.subset("val")
        else:  # a node that several folds validate counts once
            folds = sorted({seed % masks.size(1) for seed in trial.scores.get(None, {})})
            rows = masks[:, folds].any(dim=1).nonzero().view(-1)
        trial.validated, trial.judged = rows.numel(), _judged(self.data.y[rows], self.task.metric)
        return trial


def _too_few(seconds: float, level: str, enough: float) -> str:
    needed = f"; about {10 * math.ceil(enough / 10)} s are enough" if math.isfinite(enough) else ""
    return f"{seconds:.0f} s are too few for {_FEWEST_STEPS[level]} steps of two models{needed}"


def _that_fit(
    alive: list[str | None], split: str | None, rounds_after: int, took: dict[str | None, float], left: float
) -> list[str | None]:
    """The models whose first two seeds still fit into the time, at least the plain one and one split.

    A split that was not timed yet may take as long as the slowest one so far.

    Args:
        alive: The models of this round.
        split: The next one.
        rounds_after: Rounds until all have two seeds, after this one.
        took: Seconds of the last round of each model.
        left: Seconds that are left.
    """
    slowest = max(took.values())
    fit = list(alive)
    while len(fit) > 2:
        place = fit.index(split) if split in fit else len(fit)
        work = sum(took.get(each, slowest) for each in fit[place:] + fit * rounds_after)
        if work <= left:
            break
        fit.pop()
    return fit


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Runs PyTorch with this number of threads; None keeps it."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _judged(y: Tensor, metric: str) -> int | None:
    """Number of targets that an AUROC or AP is about; missing ones do not count.

    >>> y = torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, torch.nan]])
    >>> _judged(y, "auroc"), _judged(y, "ap"), _judged(y, "mae")
    (1, 3, None)
    """
    if metric not in ("auroc", "ap"):
        return None
    ones, zeros = (y == 1).sum(0), (y == 0).sum(0)
    return int((torch.minimum(ones, zeros) if metric == "auroc" else ones).sum())


def _note(trial: Trial, split: str | None, seed: int, result: RunResult | None, task: Task) -> None:
    score = -math.inf if task.larger_is_better else math.inf
    if result is not None and result.best_epoch is not None:
        score = float(result.history["val"][result.best_epoch - 1] or 0.0)
        if result.step_ms is not None:
            trial.step_ms.setdefault(split, []).append(result.step_ms)
    trial.scores.setdefault(split, {})[seed] = score


def _survivors(trial: Trial, alive: list[str | None], larger_is_better: bool, keep: int) -> list[str | None]:
    """The plain model and the best splits so far."""
    means = {
        split: statistics.fmean(trial.differences(split, larger_is_better)) for split in alive if split is not None
    }
    best = sorted(means, key=lambda split: -means[split])[:keep]
    return [split for split in alive if split is None or split in best]


def _seeds_at_once(run: Run, dataset: PackedDataset, accelerator: str) -> int:
    """Number of seeds trained in lockstep: several on a GPU, where they cost little more than one."""
    return _MOST_ROUNDS if engine_of(run, dataset, "auto", device_type(accelerator)) == "lockstep" else 1


def _trained(
    runs: Sequence[Run],
    dataset: PackedDataset,
    accelerator: str,
    on_epoch: Callable[[EpochReport], bool] | None = None,
) -> list[RunResult | None]:
    """Results of the runs; None for runs that diverged."""
    if len(runs) > 1:
        results = train_lockstep(runs, dataset, accelerator=accelerator, on_epoch=on_epoch)
        return [None if each.status == "diverged" else each for each in results]
    try:
        return [train(runs[0], dataset, accelerator=accelerator, on_epoch=on_epoch)]
    except Diverged:
        return [None]


class _Plan(NamedTuple):
    run: Run
    data: PackedDataset
    models: int
    at_once: int = 1
    # number of threads; None keeps it
    threads: int | None = None
    # seconds for the fewest steps of two models
    enough: float = math.inf


def _plan(run: Run, dataset: PackedDataset, models: int, seconds: float, accelerator: str, clock: Clock) -> _Plan:
    """Chooses the run, the part of the data and the number of models that fit the time, from timed steps."""
    on_graphs = dataset.level == "graph"
    small, data, few = replace(run, patience=None), dataset, 3
    if on_graphs:
        width = None if run.width is None else min(run.width, _WIDTH)
        layers, batch = min(run.layers, _LAYERS), min(run.batch_size or _BATCH, _BATCH)
        small = replace(run, budget=min(run.budget, _BUDGET), width=width, layers=layers, batch_size=batch, warmup=0)
        data, few = part_of(dataset, _PROBED, 8), 2
    batch, total = small.batch_size or 1, dataset.subset("train").numel() if on_graphs else 1
    at_once = _seeds_at_once(small, data, accelerator)

    def seconds_of(epochs: int, most: float = math.inf) -> float:
        started = clock()
        runs = [replace(small, epochs=epochs, seed=seed) for seed in range(at_once)]
        stop = None if most == math.inf else lambda report: clock() - started > most
        _trained(runs, data, accelerator, stop)
        return clock() - started

    seconds_of(1)  # warm-up
    in_epoch = -(-data.subset("train").numel() // batch) if on_graphs else 1
    set_up, threads = 0.0, None
    if at_once > 1:  # CUDA graph capture takes seconds: a longer probe separates it from the steps
        one, many = seconds_of(1), seconds_of(1 + _TIMED // in_epoch)
        step = max(many - one, 1e-3 * many) / (in_epoch * (_TIMED // in_epoch))
        set_up = max(one - in_epoch * step, 0.0)
    else:
        whole = seconds_of(few)
        if device_type(accelerator) == "cpu" and torch.get_num_threads() > 1:
            with _threads(1):
                alone = seconds_of(few, _WORTH_THREADS * whole)
            if alone <= _WORTH_THREADS * whole:
                whole, threads = alone, 1
        step = whole / (few * in_epoch)
    in_full = run.epochs * -(-total // batch)  # steps of a full training, with batches of this size
    rounds = 1 if at_once > 1 else _FIRST_ROUNDS

    def steps_of(models: int) -> int:
        """Steps per model if ``models`` models share the time."""
        return int((_FIRST_SHARE * seconds / rounds / models - set_up) / step)

    def most(steps: int) -> int:
        """Number of models that can each take ``steps`` steps."""
        return next((each for each in range(models, 0, -1) if steps_of(each) >= min(steps, in_full)), 0)

    fewest = _FEWEST_STEPS[dataset.level]
    if most(fewest) < 2:
        enough = 2 * rounds * (min(fewest, in_full) * step + set_up) / _FIRST_SHARE
        return _Plan(small, dataset, most(fewest), enough=enough)
    models = max(2, most(_WANTED_STEPS[dataset.level]))
    own = steps_of(models)
    if not on_graphs:
        return _Plan(replace(run, epochs=min(run.epochs, own)), dataset, models, at_once, threads)
    own = min(own, 3 * _WANTED_STEPS["graph"], in_full)
    graphs = min(total, max(batch, own * batch // _FEWEST_EPOCHS))
    epochs = max(1, min(run.epochs, round(own * batch / graphs)))
    small = replace(small, epochs=epochs, warmup=min(run.warmup, epochs // 4))
    return _Plan(small, part_of(dataset, graphs, min(_VALIDATED, graphs)), models, at_once, threads)


def part_of(dataset: PackedDataset, train_graphs: int, val_graphs: int) -> PackedDataset:
    """A random part of the training and validation folds (fixed seed); the test fold is a small placeholder."""
    generator = torch.Generator().manual_seed(0)
    chosen = []
    for name, count in (("train", train_graphs), ("val", val_graphs), ("test", 8)):
        graphs = dataset.subset(name)
        chosen.append(graphs[torch.randperm(graphs.numel(), generator=generator)[:count]])
    return dataset.select(torch.cat(chosen).sort().values)

"""`advise`: recommends a split, or none, for a graph and a task, with its evidence."""

from __future__ import annotations

import json
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphprism._checks import check_choice, check_finite_number, check_type
from graphprism._text import MINUS, counted, duration, fixed, rich_table, signed, text_table
from graphprism.adviser.candidates import Candidate, candidates, mrs_model, texts_of
from graphprism.adviser.own_data import drawn_folds, packed
from graphprism.adviser.trial import Trial, race
from graphprism.datasets import PackedDataset, load
from graphprism.nn import CONVOLUTIONS
from graphprism.protocols import plain_model, protocol
from graphprism.training import METRICS, Run, Task

if TYPE_CHECKING:
    from rich.table import Table

# Why a split has no result although it was tried.
_DIVERGED = "diverged"
CONFIDENCES = ("high", "medium", "low")
# Thresholds of (difference / standard error): to advise a split, for medium and for high confidence.
_ADVISED, _MEDIUM, _HIGH = 1.0, 2.5, 4.0
_HEADER = ("split", "relations", "parameters", "pairs", "ties", "step", "gain")


@dataclass(frozen=True)
class Evidence:
    """A split in the trial.

    Attributes:
        candidate: The split and its figures without training.
        runs: Seeds that were trained with it and with the plain model.
        difference: Mean improvement of the validation score over seeds; negative if worse.
        error: Standard error of that mean, from the pooled deviation of all differences of the trial.
        cost: Time of a step relative to the plain model.
    """

    candidate: Candidate
    runs: int = 0
    difference: float | None = None
    error: float | None = None
    cost: float | None = None

    @property
    def ratio(self) -> float | None:
        """The difference over its error; None without a trial."""
        if self.difference is None or not self.error:
            return None
        return self.difference / self.error


@dataclass(frozen=True)
class Advice:
    """A recommendation, with its evidence.

    Attributes:
        split: Text of the advised split; None advises against any.
        confidence: ``"high"``, ``"medium"`` or ``"low"``.
        run: The run to train, plain or split.
        evidence: One entry for each candidate split.
        plain: Mean validation score of the plain model in the trial; None without a trial.
        metric: Name of the score.
        trial: Description of the trial.
        not_tested: Limits of the evidence, a sentence each.
        seconds: Time taken.
        validation: Size of the validation fold in words, such as "20 validation nodes"; empty without a trial.
        folds: A sentence about folds that were drawn; empty if the data has its own.
        too_small: Why the difference of the best split separates nothing, such as "less than one node"; empty where it
            does, and without a trial.
        no_trial: Why there was no trial, with the seconds that are enough; empty where there was one.
    """

    split: str | None
    confidence: str
    run: Run
    evidence: tuple[Evidence, ...]
    plain: float | None
    metric: str
    trial: str
    not_tested: tuple[str, ...]
    seconds: float
    validation: str = ""
    folds: str = ""
    too_small: str = ""
    no_trial: str = ""

    @property
    def sentence(self) -> str:
        """The recommendation; it says so where no trial was run, and where the gain is too small to be sure of."""
        if not self.is_tried and not self._nothing_to_split:
            return f"No advice: {self._why_not()}."
        chosen = self.split, self.run.start
        found = next((each for each in self.evidence if (each.candidate.split, each.candidate.start) == chosen), None)
        if found is None:
            return f"Do not split ({self.confidence} confidence): {self._why_not()}."
        start = "together" if found.candidate.start == "shared" else "apart"
        relations = f"with {counted(found.candidate.relations, 'relation')} that start {start}"
        unsure = f", {self.too_small}: the plain model may be as good" if self.too_small else ""
        return f'Split by "{self.split}", {relations} ({self.confidence} confidence): {self._gain(found)}{unsure}.'

    @property
    def is_tried(self) -> bool:
        """Whether a split was trained beside the plain model."""
        return any(each.difference is not None for each in self.evidence)

    @property
    def _nothing_to_split(self) -> bool:
        left_out = [each.candidate.left_out for each in self.evidence]
        return bool(left_out) and all(left_out) and _DIVERGED not in left_out

    def _why_not(self) -> str:
        tried = [each for each in self.evidence if each.difference is not None]
        if not tried:
            if self._nothing_to_split:
                first = self.evidence[0].candidate
                return f"{first.left_out} ({first.split}), so that there is nothing to split"
            if any(each.candidate.left_out == _DIVERGED for each in self.evidence):
                return f"every model of the trial diverged, with a learning rate of {self.run.lr:g}"
            why = f" ({self.no_trial})" if self.no_trial else ""
            return f"no trial was run{why}, and a certificate alone does not promise a better score"
        best = max(tried, key=lambda each: each.difference or 0.0)
        unsure = f", {self.too_small}: nothing separates the two" if self.too_small else ""
        return f'the best split, "{best.candidate.label}", gave {self._gain(best)}{unsure}'

    def _gain(self, found: Evidence) -> str:
        """The difference in words, as the sign of an error would be ambiguous: better is above 0 for every metric."""
        number = signed(found.difference or 0.0, 3)
        than = {"+": "better than", MINUS: "worse than"}.get(number[0], "beside")
        size = f"{number.lstrip('+' + MINUS)} ± {fixed(found.error, 3)} {METRICS[self.metric].difference_unit}"
        on = f" on {self.validation}" if self.validation else ""
        return f"{size} {than} the plain model in {counted(found.runs, 'paired run')}{on}"

    def to_json(self) -> str:
        """The fields as JSON text, with the sentence."""
        return json.dumps({**asdict(self), "sentence": self.sentence}, allow_nan=False)

    def __str__(self) -> str:
        return f"{text_table(_HEADER, self._rows())}\n\n{self._caption()}"

    def __rich__(self) -> Table:
        return rich_table("Splits beside the plain model", _HEADER, self._rows(), self._caption())

    def _caption(self) -> str:
        lines = [
            self.sentence,
            self._columns(),
            self.trial,
            *([self.folds] if self.folds else []),
            *(f"Not tested: {each}" for each in self.not_tested),
        ]
        return "\n".join([*filter(None, lines), f"It took {duration(self.seconds)}."])

    def _columns(self) -> str:
        layer = CONVOLUTIONS[self.run.model].partner if self.split is None else self.run.model
        pairs = f"Pairs: share of the pairs of nodes that a layer of {layer} is proven to distinguish"
        gain = f"Gain: mean improvement of the validation {METRICS[self.metric].unit} over the plain model, + is better"
        return f"{pairs}.{f' {gain}.' if self.is_tried else ''}"

    def _rows(self) -> list[list[str]]:
        return [_row(each) for each in self.evidence]


def _row(evidence: Evidence) -> list[str]:
    known = evidence.candidate
    share = "" if known.distinguished is None else f"{100 * known.distinguished:.0f} %"
    merged = "" if known.merged is None else f" (one relation {100 * known.merged:.0f} %)"
    silenced = f"; {100 * known.silenced:.0f} % of edges silenced" if known.silenced else ""
    result = known.left_out or "not tried"
    if evidence.difference is not None:
        result = f"{signed(evidence.difference, 3)} ± {fixed(evidence.error, 3)} ({counted(evidence.runs, 'run')})"
    return [
        known.label,
        str(known.relations),
        f"{known.parameters:,}",
        f"{share}{merged}{silenced}",
        "" if known.ties is None else f"{100 * known.ties:.0f} %",
        "" if evidence.cost is None else f"x{evidence.cost:.2f}",
        result,
    ]


def advise(
    data: Any,
    task: str | None = None,
    *,
    run: Run | None = None,
    splits: Sequence[str] | None = None,
    seconds: float = 60.0,
    accelerator: str = "auto",
    clock: Callable[[], float] = time.perf_counter,
) -> Advice:
    """Recommends a split, or none, for training a model on ``data``.

    Every candidate gets a certificate of its layer (pairs of nodes that are proven to be distinguished, ties, edges
    that the norm silences) and its cost. Then the plain model and the splits are trained briefly, with the same seeds
    and folds, on a part of the data if it is large, with the start of ``run`` and with an independent start. Splits
    that fall behind are dropped, and the remaining time goes to further seeds of the best. A split is advised if its
    mean difference in validation score is at least its standard error. The confidence is low if a difference of
    accuracies, AUROC or AP is below one standard error of a proportion on the validation fold. Test scores are not
    used.

    Args:
        data: A `PackedDataset` or its name or file; one ``Data`` with targets ``y`` of nodes; or a list of ``Data``
            with targets ``y`` each; read as `graphprism.datasets.from_data` reads them.
        task: ``"node"``, ``"graph"`` or ``"link"`` (for one ``Data``, to predict its edges); by default inferred from
            the data.
        run: The plain run as it would be trained in full; by default that of ``graphprism train``.
        splits: Texts of the candidates; by default the degree, and edge types, direction and features if present.
        seconds: Time limit of the trial; 0 runs none.
        accelerator: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        clock: Clock in seconds, such as ``time.process_time`` if other programs use the same cores.

    >>> from graphprism.datasets import molecules
    >>> print(advise(molecules(60), seconds=0).sentence)
    No advice: no trial was run (no time was given for one), and a certificate alone does not promise a better score.
    """
    begin = time.perf_counter()
    check_choice("task", task, (None, "node", "graph", "link"))
    check_finite_number("seconds", seconds, least=0)
    dataset = _dataset(data, task)
    run = default_run(dataset) if run is None else run
    check_type("run", run, Run, "None or a Run")
    mrs_model(run)  # raises if there is none
    run = replace(run, model=_plain(run))
    known = candidates(run, dataset, texts_of(splits, dataset))
    tried = [each for each in known if each.left_out is None]
    trial, why = None, "no time was given for one"
    if seconds and not tried:
        why = "no split leaves two relations with edges"
    elif seconds:
        trial = race(run, dataset, tried, seconds, accelerator, clock)
        why = trial.skipped or ""
    advice = _advice(run, dataset, known, trial, why, time.perf_counter() - begin)
    has_folds = isinstance(data, PackedDataset | str | os.PathLike)
    return advice if has_folds else replace(advice, folds=drawn_folds(data, task))


def default_run(dataset: PackedDataset) -> Run:
    """The plain run that ``graphprism train`` would train on a data set.

    Models on graphs have an independent start, as in the paper: from a shared start a short trial would barely move
    the relations.
    """
    fields = protocol(dataset.name, dataset.level, dataset.directed, dataset.has_scaled_features)
    start = {"start": "independent"} if dataset.level == "graph" else {}
    return Run(dataset.name, plain_model(dataset.level, dataset.directed), **{**start, **fields})


def _dataset(data: Any, task: str | None) -> PackedDataset:
    if isinstance(data, str | os.PathLike):
        data = load(data if isinstance(data, str) else Path(data))
    dataset = data if isinstance(data, PackedDataset) else packed(data, task)
    if task is not None and dataset.level != task:
        raise ValueError(f"`task` must be {dataset.level!r} or None for these data, got {task!r}")
    return dataset


def _plain(run: Run) -> str:
    convolution = CONVOLUTIONS[run.model]
    return str(convolution.partner) if convolution.relational else run.model


def _advice(
    run: Run,
    dataset: PackedDataset,
    known: list[Candidate],
    trial: Trial | None,
    why: str,
    seconds: float,
) -> Advice:
    task = Task.of(dataset)
    evidence = _evidence(known, trial, task.larger_is_better)
    tried = [each for each in evidence if each.difference is not None]
    best = max(tried, key=lambda each: each.difference or 0.0, default=None)
    ratio = None if best is None else best.ratio
    chosen = best.candidate if best is not None and ratio is not None and ratio >= _ADVISED else None
    plain = None if trial is None or not trial.scores.get(None) else statistics.fmean(trial.scores[None].values())
    in_noise = best is not None and _is_within_a_proportion(task.metric, plain, best.difference, trial)
    count = None if trial is None or not tried else trial.validated
    return Advice(
        split=None if chosen is None else chosen.split,
        confidence="low" if in_noise else _confidence(best, chosen is not None, known),
        run=run if chosen is None else chosen.applied(run),
        evidence=evidence,
        plain=plain if plain is not None and math.isfinite(plain) else None,
        metric=task.metric,
        trial=_trial_text(trial, why),
        not_tested=_not_tested(run, dataset, trial, _untried(evidence)),
        seconds=seconds,
        validation="" if count is None else counted(count, f"validation {_ITEMS[dataset.level]}"),
        no_trial=why,
        too_small="" if best is None else _too_small(best, task.metric, count, _ITEMS[dataset.level]),
    )


def _evidence(known: list[Candidate], trial: Trial | None, larger_is_better: bool) -> tuple[Evidence, ...]:
    if trial is None:
        return tuple(Evidence(each) for each in known)
    found = {each.label: trial.differences(each.label, larger_is_better) for each in known}
    finite = {split: [each for each in values if math.isfinite(each)] for split, values in found.items()}
    # pooled deviation: two or three differences are too few to estimate their own
    squares = [(each - statistics.fmean(values)) ** 2 for values in finite.values() for each in values]
    freedom = len(squares) - sum(bool(values) for values in finite.values())
    deviation = math.sqrt(sum(squares) / freedom) if freedom > 0 else None
    evidence = []
    for each in known:
        values = finite[each.label]
        if not values or deviation is None or len(values) < len(found[each.label]):  # not tried, or diverged
            left_out = each.left_out or (None if not found[each.label] else _DIVERGED)
            evidence.append(Evidence(replace(each, left_out=left_out)))
            continue
        error = deviation / math.sqrt(len(values))
        evidence.append(Evidence(each, len(values), statistics.fmean(values), error, trial.cost(each.label)))
    return tuple(evidence)


def _confidence(best: Evidence | None, splits: bool, known: list[Candidate]) -> str:
    if best is None:
        return "high" if all(each.left_out for each in known) else "low"
    ratio = best.ratio or 0.0
    if splits:
        return "high" if ratio >= _HIGH else "medium" if ratio >= _MEDIUM else "low"
    return "high" if ratio <= -_MEDIUM else "medium" if ratio < 0.5 else "low"


_ITEMS = {"node": "node", "graph": "graph", "link": "pair"}


def _is_within_a_proportion(metric: str, plain: float | None, difference: float | None, trial: Trial | None) -> bool:
    """Whether a difference is below one standard error of a proportion on the validation fold.

    An AUROC or AP is about the targets of the rarer value: the variance of an AUROC A is at most A (1 - A) divided by
    their number. Runs of a trial share the fold, so that their spread says nothing of it.
    """
    if plain is None or difference is None or trial is None:
        return False
    count, scale = (trial.validated, 100) if metric == "accuracy" else (trial.judged, 1)
    if not count:
        return False
    share = (plain / scale * count + 1) / (count + 2)  # never 0 or 1, where the error would vanish
    return abs(difference) < scale * math.sqrt(share * (1 - share) / count)


def _too_small(best: Evidence, metric: str, count: int | None, item: str) -> str:
    """Why the difference of the best split separates nothing, in words; empty where it does."""
    difference = abs(best.difference or 0.0)
    if metric == "accuracy" and count and difference < 100 / count:
        return f"less than one {item}"
    return "less than two standard errors" if difference < 2 * (best.error or 0.0) else ""


def _trial_text(trial: Trial | None, why: str) -> str:
    if trial is None or trial.skipped:
        return f"Trial: none, {why}."
    run, rounds = trial.run, len(trial.scores.get(None, {}))
    data = "the whole graph" if trial.graphs is None else f"{trial.graphs:,} graphs for training"
    width = f"width {run.width}" if run.width else f"{run.budget:,} parameters"
    length = f"{counted(run.epochs, 'epoch')} at most"
    ended = f"; ended after {duration(trial.seconds)}: {trial.ended}" if trial.ended else ""
    return f"Trial: {counted(rounds, 'seed')}, {data}, {counted(run.layers, 'layer')}, {width}, {length}{ended}."


def _untried(evidence: Sequence[Evidence]) -> list[str]:
    found = [each.candidate for each in evidence if each.difference is None]
    return [each.label for each in found if each.left_out is None]


def _not_tested(run: Run, dataset: PackedDataset, trial: Trial | None, untried: list[str]) -> tuple[str, ...]:
    found = [f"models other than {run.model} and learning rates other than {run.lr:g}."]
    if untried:
        ran = trial is not None and not trial.skipped
        why = "at the pace of the first steps they did not fit into the time" if ran else "no trial was run"
        found.append(f"{'; '.join(untried)}: {why}.")
    if trial is not None and not trial.skipped:
        if trial.run.epochs < run.epochs:
            found.append(f"trainings of more than {counted(trial.run.epochs, 'epoch')}; the full one has {run.epochs}.")
        if trial.graphs is not None and trial.graphs < dataset.subset("train").numel():
            found.append(f"more than {trial.graphs:,} of {dataset.subset('train').numel():,} graphs for training.")
        if trial.run.layers < run.layers:
            found.append(f"networks of more than {counted(trial.run.layers, 'layer')}; the full one has {run.layers}.")
        if trial.run.budget != run.budget or trial.run.width != run.width:
            found.append(f"networks of more than {trial.run.budget:,} parameters; the full one has {run.budget:,}.")
    found.append("test scores: all of this is validation.")
    return tuple(found)

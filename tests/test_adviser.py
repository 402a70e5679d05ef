"""The adviser: what it looks at, how it decides, and what it says."""

import json
import re
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data

import graphprism as gp
from graphprism.adviser import trial
from graphprism.adviser.advice import _advice, default_run
from graphprism.adviser.candidates import Candidate, candidate, candidates, default_splits
from graphprism.adviser.own_data import packed
from graphprism.adviser.trial import Trial, part_of, race
from graphprism.datasets import from_data, molecules
from graphprism.nn import CONVOLUTIONS
from graphprism.training import Run
from tests.training.node_sets import small_set

GRAPHS, NODES = molecules(60), small_set()
LINKS = from_data(Data(x=NODES.x, edge_index=NODES.edge_index), "link")
KNOWN = Candidate("degree", "independent", 3, 100, 0.5, 0.0, 0.3, 0.4, 0.0)


def advice_of(plain, split, candidates=(KNOWN,)):
    """The advice that follows from errors of plain and split models, seed by seed."""
    scores = {None: dict(enumerate(plain)), KNOWN.label: dict(enumerate(split))}
    trial = Trial(default_run(GRAPHS), 10, scores)
    return _advice(default_run(GRAPHS), GRAPHS, list(candidates), trial, "", 1.0)


def test_split_that_is_better_on_every_seed_is_advised():
    advice = advice_of([0.5, 0.6, 0.55], [0.3, 0.41, 0.36])
    assert (advice.split, advice.confidence) == ("degree", "high")
    assert (advice.run.model, advice.run.split) == ("mrs-gcn", "degree")
    assert advice.sentence == (
        'Split by "degree", with 3 relations that start apart (high confidence): 0.193 ± 0.003 MAE better than the '
        "plain model in 3 paired runs."
    )
    assert "Gain: mean improvement of the validation MAE over the plain model, + is better." in str(advice)
    assert "+0.193 ± 0.003 (3 runs)" in str(advice)
    assert advice.evidence[0].difference == pytest.approx(0.19333, rel=1e-3)
    assert advice.evidence[0].error == pytest.approx(0.01 / 3, rel=1e-3)  # of differences 0.20, 0.19 and 0.19


def test_split_that_is_worse_is_advised_against():
    advice = advice_of([0.3, 0.41, 0.36], [0.5, 0.6, 0.55])
    assert (advice.split, advice.confidence, advice.run.model) == (None, "high", "gcn")
    assert advice.sentence.startswith(
        'Do not split (high confidence): the best split, "degree, relations apart", gave 0.193 ± 0.003 MAE worse than '
    )


def test_difference_within_its_error_is_no_reason_to_split():
    assert advice_of([0.5, 0.4, 0.6], [0.4, 0.5, 0.59]).split is None


def test_there_is_no_advice_where_everything_diverged():
    advice = advice_of([float("inf")] * 2, [float("inf")] * 2)
    assert (advice.split, advice.confidence) == (None, "low")
    assert advice.sentence == "No advice: every model of the trial diverged, with a learning rate of 0.001."


def test_diverged_split_is_not_advised():
    advice = advice_of([0.5, 0.6, 0.55], [0.3, 0.41, float("inf")])
    assert advice.split is None
    assert advice.evidence[0].candidate.left_out == "diverged"
    assert json.loads(advice.to_json())["split"] is None


def test_candidates_follow_from_the_data():
    assert default_splits(GRAPHS) == ["degree", "attr(edge_attr)", "degree * attr(edge_attr)"]
    assert default_splits(NODES) == ["degree", "degree * direction", "similarity"]


def test_relations_that_are_held_together_are_tried_apart_as_well():
    run = replace(default_run(NODES), decay=1000.0)
    found = candidates(run, NODES, ["degree"])
    assert [each.label for each in found] == ["degree, relations together", "degree, relations apart"]
    assert found[1].applied(run).start == "independent"
    assert len(candidates(replace(run, start="independent"), NODES, ["degree"])) == 1


def test_candidate_is_certified_for_the_layer_that_runs():
    found = candidate(default_run(GRAPHS), GRAPHS, "degree * attr(edge_attr)")
    assert found.relations < 12
    assert 0 < found.distinguished <= 1
    assert found.merged == 0
    assert 0 < found.ties < 1
    assert found.parameters <= 500_000


def test_grid_with_one_relation_leaves_nothing_to_split():
    side = 12
    node = torch.arange(side * side).view(side, side)  # of a torus: all degrees are equal
    pairs = [torch.stack([node.flatten(), node.roll(1, axis).flatten()]) for axis in (0, 1)]
    edge_index = torch.cat([*pairs, *(pair.flip(0) for pair in pairs)], dim=1)
    data = Data(x=torch.rand(side * side, 1), edge_index=edge_index, y=torch.arange(side * side) % 2)
    advice = gp.advise(data, "node", seconds=5)
    assert (advice.split, advice.confidence) == (None, "high")
    assert "100 % of the edges are in one relation (degree)" in advice.sentence
    assert "Trial: none" in str(advice)


@pytest.mark.parametrize("data", [GRAPHS, NODES, LINKS], ids=["graphs", "nodes", "links"])
def test_advise_tries_and_says_what_it_did_not_test(data):
    run = replace(default_run(data), layers=2, width=8, epochs=6)
    # a second a look: what fits into the time does not depend on the machine
    options = {"seconds": 100, "accelerator": "cpu", "clock": count().__next__}
    advice = gp.advise(data, run=run, splits=["degree"], **options)
    found = advice.evidence[0]
    assert found.candidate.start == run.start
    assert found.runs >= 2
    assert found.error > 0
    assert found.cost > 0
    assert any("test scores" in each for each in advice.not_tested)
    assert json.loads(advice.to_json())["sentence"] == advice.sentence


def test_seeds_at_once_give_the_scores_of_each_alone(monkeypatch):
    """On a GPU all seeds of a model are one group; its set-up is no part of a step."""
    run = replace(default_run(NODES), layers=2, width=8, epochs=4, start="independent", precision="float64")
    tried, found = candidates(run, NODES, ["degree"]), []
    monkeypatch.setattr(trial, "_TIMED", 4)
    for number in (8, 1):
        monkeypatch.setattr(trial, "_seeds_at_once", lambda *_, number=number: number)
        found.append(race(run, NODES, tried, 1000, "cpu", count(0, 0.001).__next__))
    at_once, alone = found
    assert set(at_once.scores) == set(alone.scores) == {None, *(each.label for each in tried)}
    for split, scores in alone.scores.items():
        assert at_once.scores[split].keys() == scores.keys() == set(range(8))
        assert at_once.scores[split] == pytest.approx(scores, rel=1e-6)


def test_advice_names_the_layer_that_it_certifies():
    text = str(gp.advise(GRAPHS, seconds=0))
    assert "Pairs: share of the pairs of nodes that a layer of mrs-gcn is proven to distinguish." in text
    text = str(advice_of([0.5, 0.6, 0.55], [0.3, 0.41, 0.36]))
    assert "that a layer of mrs-gcn is proven" in text


def test_advise_without_a_trial_gives_no_advice(monkeypatch):
    slow = Slow(0.1)
    monkeypatch.setattr(trial, "_trained", slow)
    run = replace(default_run(GRAPHS), epochs=400)
    advice = gp.advise(GRAPHS, run=run, splits=["degree"], seconds=10, accelerator="cpu", clock=lambda: slow.now)
    assert re.match(
        r"No advice: no trial was run \(10 s are too few for 300 steps of two models; about \d+ s are enough\), and a",
        advice.sentence,
    )
    assert advice.split is None
    assert "not tried: no time" not in str(advice)


def test_advise_without_time_does_not_train():
    advice = gp.advise(GRAPHS, seconds=0)
    assert advice.sentence.startswith("No advice: no trial was run (no time was given for one), and")
    assert advice.plain is None
    assert advice.confidence == "low"


def test_advise_takes_a_graph_whose_links_are_predicted():
    advice = gp.advise(Data(x=torch.rand(20, 3), edge_index=torch.randint(20, (2, 60))), "link", seconds=0)
    assert advice.evidence[0].candidate.relations == 3
    with pytest.raises(ValueError, match="`task` must be 'node' or None for these data, got 'link'"):
        gp.advise(NODES, "link", seconds=0)


def test_advise_takes_a_list_of_graphs():
    graphs = [GRAPHS.graph(number) for number in range(30)]
    assert gp.advise(graphs, "graph", seconds=0).metric == "mae"
    with pytest.raises(ValueError, match="`task` must be 'graph' or None for these data, got 'node'"):
        gp.advise(graphs, "node", seconds=0)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (3, "`data` must be a PackedDataset"),
        ([], "at least one"),
        (Data(x=torch.ones(2, 1)), r"must have features `x` .* got x \[2, 1\] of torch.float32 and no y"),
        (Data(edge_index=torch.zeros(2, 0).long(), y=torch.ones(2)), r"got no x and y \[2\] of torch.float32"),
        (Data(x=torch.ones(2, 1), y=torch.ones(2)), "`edge_index` must be a torch.Tensor, got NoneType"),
        (
            [Data(x=torch.ones(2, 1), edge_index=torch.zeros(2, 0).long())],
            "must have features or types `x` and a target",
        ),
    ],
)
def test_advise_refuses_other_data(data, words):
    with pytest.raises((TypeError, ValueError), match=words):
        gp.advise(data)


def targets(kind):
    """Targets of 48 nodes or graphs."""
    numbers = torch.arange(48)
    return {
        "regression": torch.linspace(0, 1, 48),
        "column": torch.linspace(0, 1, 48)[:, None],
        "binary": numbers % 2,
        "multiclass": numbers % 3,
        "multilabel": torch.stack([numbers % 2, numbers // 2 % 2, numbers // 4 % 2], 1).float(),
        "missing": torch.where(numbers % 5 == 0, torch.nan, numbers % 2),
        "unknown": torch.where(numbers % 5 == 0, -1, numbers % 3),
    }[kind]


KINDS = ["regression", "column", "binary", "multiclass", "multilabel", "missing", "unknown"]


@pytest.mark.filterwarnings("ignore:-1 in `y` is read as one of 4 classes", "ignore:10 of 48 graphs are left out")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", ["node", "graph"])
def test_advise_reads_targets_as_training_does(level, kind):
    y = targets(kind)
    data = Data(x=NODES.x.float(), edge_index=NODES.edge_index, y=y)
    if level == "graph":
        edges = torch.tensor([[0, 1, 1], [1, 0, 2]])
        data = [Data(x=torch.rand(3, 2), edge_index=edges, y=each.reshape(1, -1)) for each in y]
    expected = from_data(data)
    run = replace(default_run(expected), layers=1, width=4, epochs=2)
    options = {"seconds": 100, "accelerator": "cpu", "clock": count().__next__}
    advice = gp.advise(data, run=run, splits=["degree"], **options)
    found = packed(data, None)
    assert (found.task, found.metric, advice.metric) == (expected.task, expected.metric, expected.metric)
    torch.testing.assert_close(found.y, expected.y, equal_nan=True)
    assert advice.evidence[0].runs


def test_advise_says_of_one_mask_what_it_draws():
    data = Data(x=NODES.x.float(), edge_index=NODES.edge_index, y=NODES.y.view(-1), train_mask=NODES.train_mask[:, 0])
    assert "the data lacks train_mask, val_mask or test_mask" in gp.advise(data, seconds=0).folds
    assert data.train_mask.equal(NODES.train_mask[:, 0])


def test_advise_refuses_a_model_without_an_mrs_form():
    plain = sorted(name for name, each in CONVOLUTIONS.items() if each.partner is None)
    assert "mlp" in plain
    with pytest.raises(ValueError, match="must have an MRS form"):
        gp.advise(GRAPHS, run=Run(model="mlp"), seconds=0)


def test_part_of_keeps_folds():
    part = part_of(GRAPHS, 20, 3)
    assert part.subset("train").numel() == 20
    assert len(part) < len(GRAPHS)
    first = part.graph(0)
    assert any(torch.equal(first.x, GRAPHS.graph(number).x) for number in range(60))


def nodes_advice(plain, split, validated):
    """The advice that follows from accuracies in percent."""
    scores = {None: dict(enumerate(plain)), KNOWN.label: dict(enumerate(split))}
    trial = Trial(default_run(NODES), None, scores, validated=validated, ended="8 seeds are the most")
    return _advice(default_run(NODES), NODES, [KNOWN], trial, "", 1.0)


def test_confidence_is_low_where_the_validation_fold_is_small():
    scores = ([70.0, 70.0, 75.0], [75.0, 75.0, 79.9])  # a node of twenty is five points
    few, many = nodes_advice(*scores, 20), nodes_advice(*scores, 2000)
    assert (few.split, few.confidence) == ("degree", "low")
    assert "points better than the plain model in 3 paired runs on 20 validation nodes" in few.sentence
    assert many.confidence == "high"
    assert nodes_advice(*reversed(scores), 20).confidence == "low"


@pytest.mark.parametrize("metric", ["auroc", "ap"])
def test_confidence_is_low_where_few_targets_are_judged(metric):
    nodes, run = replace(NODES, task="binary", metric=metric), default_run(NODES)
    scores = {None: {0: 0.70, 1: 0.70, 2: 0.75}, KNOWN.label: {0: 0.75, 1: 0.75, 2: 0.799}}
    few, many = (
        _advice(run, nodes, [KNOWN], Trial(run, scores=scores, validated=4000, judged=judged), "", 1.0)
        for judged in (20, 2000)
    )
    assert (few.split, few.confidence, many.confidence) == ("degree", "low", "high")


def test_trial_counts_the_rarer_value():
    y = (torch.arange(48) % 6 == 0).long()
    data = from_data(Data(x=NODES.x.float(), edge_index=NODES.edge_index, y=y))
    run = replace(default_run(data), layers=2, width=8, epochs=2)
    found = race(run, data, candidates(run, data, ["degree"])[:1], 20, "cpu", count().__next__)
    assert found.judged == int(data.y[data.val_mask[:, 0]].sum()) < found.validated


@pytest.mark.filterwarnings("ignore:no epoch of")
def test_trial_without_a_score_is_none_and_says_so():
    y = torch.arange(48) % 2
    data = Data(x=NODES.x.float(), edge_index=NODES.edge_index, y=y)
    data.val_mask, data.test_mask = (y == 1) & (torch.arange(48) < 12), torch.arange(48) > 40
    data.train_mask = ~data.val_mask & ~data.test_mask
    run = replace(default_run(from_data(data)), layers=2, width=8, epochs=2)
    options = {"seconds": 100, "accelerator": "cpu", "clock": count().__next__}
    advice = gp.advise(data, run=run, splits=["degree"], **options)
    assert advice.sentence.startswith("No advice: no trial was run (auroc is not defined on the validation fold)")
    assert "diverged" not in str(advice)


def test_gain_below_one_validation_node_separates_nothing():
    advice = nodes_advice([70.0, 72.0, 74.0], [70.06, 72.05, 74.07], 500)  # a node of 500 is 0.2 points
    assert (advice.split, advice.confidence) == ("degree", "low")  # the rule stays as it was measured
    assert advice.sentence == (
        'Split by "degree", with 3 relations that start apart (low confidence): 0.060 ± 0.006 points better than the '
        "plain model in 3 paired runs on 500 validation nodes, less than one node: the plain model may be as good."
    )
    assert json.loads(advice.to_json())["sentence"] == advice.sentence


def test_gain_inside_its_interval_separates_nothing():
    advice = advice_of([0.5, 0.6, 0.55], [0.4, 0.59, 0.54])  # 0.04 ± 0.03
    assert (advice.split, advice.confidence) == ("degree", "low")
    assert advice.sentence.startswith('Split by "degree", with 3 relations that start apart (low confidence): 0.040 ± ')
    assert advice.sentence.endswith(
        "MAE better than the plain model in 3 paired runs, less than two standard errors: the plain model may be as "
        "good."
    )


def test_split_that_is_not_advised_and_separates_nothing_says_so():
    advice = advice_of([0.5, 0.4, 0.6], [0.4, 0.5, 0.59])
    assert advice.split is None
    assert advice.sentence.startswith(
        'Do not split (medium confidence): the best split, "degree, relations apart", gave '
    )
    assert advice.sentence.endswith("in 3 paired runs, less than two standard errors: nothing separates the two.")


def test_gain_that_separates_is_said_as_before():
    # low confidence by the size of the fold, but the same side in every paired run
    assert "as good" not in nodes_advice([70.0, 72.0, 74.0], [71.0, 73.1, 74.9], 500).sentence
    assert "separates" not in advice_of([0.3, 0.41, 0.36], [0.5, 0.6, 0.55]).sentence
    assert "separates" not in gp.advise(GRAPHS, seconds=0).sentence


def test_advice_says_why_a_trial_ended():
    assert "ended after 0 s: 8 seeds are the most." in nodes_advice([70.0, 71.0], [72.0, 74.0], 20).trial


class Slow:
    """Trainings that take seconds of their own clock: by threads, by relations, and more after the timing probe."""

    def __init__(self, step, later=1.0, with_threads=1.0):
        self.now, self.step, self.later, self.with_threads, self.trained = 0.0, step, later, with_threads, []

    def __call__(self, runs, dataset, accelerator, on_epoch=None):
        run = runs[0]
        batches = -(-dataset.subset("train").numel() // run.batch_size)
        slow = self.later if run.epochs > 2 else 1.0
        slow *= self.with_threads if torch.get_num_threads() > 1 else 1.0
        status = "finished"
        for epoch in range(run.epochs):
            self.now += slow * self.step * batches
            if on_epoch is not None and on_epoch(SimpleNamespace(epoch=epoch + 1)):
                status = "stopped"
                break
        self.trained.append((run.model, run.split, run.seed, torch.get_num_threads(), status))
        scores = [0.5 + 0.01 * ((3 * run.seed + len(run.split)) % 5) for run in runs]
        return [SimpleNamespace(status=status, best_epoch=1, history={"val": [each]}, step_ms=1.0) for each in scores]


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


SPLITS = ["degree", "attr(edge_attr)", "degree * attr(edge_attr)"]


@pytest.mark.parametrize("later", [1, 2, 3, 30])
def test_trial_keeps_to_its_time_where_trainings_are_slower_than_the_probe(monkeypatch, two_threads, later):
    slow = Slow(0.005, later)
    monkeypatch.setattr(trial, "_trained", slow)
    run = replace(default_run(GRAPHS), epochs=400)
    found = race(run, GRAPHS, candidates(run, GRAPHS, SPLITS), 60, "cpu", lambda: slow.now)
    assert slow.now <= 1.2 * 60
    tried = {split for split, scores in found.scores.items() if split is not None and len(scores) >= 2}
    assert len(tried) == {1: 2, 2: 1, 3: 0, 30: 0}[later]
    assert not any(len(scores) < 2 for scores in found.scores.values())
    if later >= 3:
        assert found.skipped == "60 s were over before two seeds were trained"


@pytest.mark.parametrize(
    ("at_once", "seconds", "later", "number"), [(1, 60, 1.0, 2), (1, 60, 0.5, 3), (8, 20, 1.0, 1), (8, 20, 0.5, 3)]
)
def test_splits_that_did_not_seem_to_fit_are_tried_when_time_is_left(
    monkeypatch, two_threads, at_once, seconds, later, number
):
    slow = Slow(0.005, later)
    monkeypatch.setattr(trial, "_trained", slow)
    monkeypatch.setattr(trial, "_seeds_at_once", lambda *_: at_once)
    run = replace(default_run(GRAPHS), epochs=400)
    found = race(run, GRAPHS, candidates(run, GRAPHS, SPLITS), seconds, "cpu", lambda: slow.now)
    assert slow.now <= 1.2 * seconds
    tried = {split for split, scores in found.scores.items() if split is not None and len(scores) >= 2}
    assert len(tried) == number
    first = set(range(2 if at_once == 1 else 8))
    assert all(set(scores) >= first for scores in found.scores.values())


def test_trial_in_lockstep_tries_all_splits_that_its_plan_has_time_for(monkeypatch):
    slow = Slow(0.005)
    monkeypatch.setattr(trial, "_trained", slow)
    monkeypatch.setattr(trial, "_seeds_at_once", lambda *_: 8)
    run = replace(default_run(GRAPHS), epochs=400)
    tried = candidates(run, GRAPHS, SPLITS)
    found = race(run, GRAPHS, tried, 40, "cpu", lambda: slow.now)
    assert set(found.scores) == {None, *(each.label for each in tried)}
    assert slow.now <= 40


@pytest.mark.parametrize(("with_threads", "threads"), [(100.0, 1), (1.0, 1), (0.4, 2)])
def test_trial_takes_one_thread_unless_more_are_worth_it(monkeypatch, two_threads, with_threads, threads):
    slow = Slow(0.005, with_threads=with_threads)
    monkeypatch.setattr(trial, "_trained", slow)
    run = replace(default_run(GRAPHS), epochs=400)
    found = race(run, GRAPHS, candidates(run, GRAPHS, ["degree"]), 60, "cpu", lambda: slow.now)
    assert found.skipped is None
    assert {count for _, _, seed, count, _ in slow.trained if seed} == {threads}
    assert torch.get_num_threads() == 2


def test_trial_without_time_says_how_much_is_enough(monkeypatch, two_threads):
    run, slow = replace(default_run(GRAPHS), epochs=400), Slow(0.1)
    monkeypatch.setattr(trial, "_trained", slow)
    tried = candidates(run, GRAPHS, ["degree"])
    found = race(run, GRAPHS, tried, 60, "cpu", lambda: slow.now)
    words = re.fullmatch(r"60 s are too few for 300 steps of two models; about (\d+) s are enough", found.skipped)
    assert words
    begin = slow.now
    again = race(run, GRAPHS, tried, float(words[1]), "cpu", lambda: slow.now)
    assert again.skipped is None
    assert len(again.scores) == 2
    assert slow.now - begin <= 1.2 * float(words[1])


def test_trial_knows_its_validation_fold_and_its_end():
    run = replace(default_run(NODES), layers=2, width=8, epochs=2)
    found = race(run, NODES, candidates(run, NODES, ["degree"])[:1], 20, "cpu", count().__next__)
    assert found.ended == "no time for another seed"
    assert 0 < found.validated <= NODES.x.size(0)


def test_splits_that_were_not_tried_are_separated_by_semicolons():
    others = [replace(KNOWN, split=split) for split in ("ppr", "core")]
    advice = advice_of([0.5, 0.6], [0.3, 0.41], [KNOWN, *others])
    assert (
        "ppr, relations apart; core, relations apart: at the pace of the first steps they did not fit into the time."
        in advice.not_tested
    )


def test_advise_says_that_it_drew_folds():
    data = Data(x=torch.rand(20, 3), edge_index=torch.randint(20, (2, 60)), y=torch.arange(20) % 2)
    text = str(gp.advise(data, seconds=0))
    assert "Folds: drawn, 60 % for training, 20 % for validation, 20 % for test; the data lacks train_mask" in text
    mask = torch.arange(20) % 3
    data.train_mask, data.val_mask, data.test_mask = mask == 0, mask == 1, mask == 2
    assert "Folds" not in str(gp.advise(data, seconds=0))


def test_types_of_edges_of_own_data_can_be_split():
    source, target = NODES.edge_index
    kinds = (source + target) % 2
    data = Data(x=NODES.x.float(), edge_index=NODES.edge_index, y=NODES.y.view(-1).long(), edge_attr=kinds)
    advice = gp.advise(data, splits=["attr(edge_attr)"], seconds=0.5, accelerator="cpu")
    assert [(each.candidate.split, each.candidate.relations) for each in advice.evidence[:1]] == [
        ("attr(edge_attr)", 2)
    ]


def test_split_of_ones_own_is_refused_with_what_to_write():
    own = gp.splitting.by_function(lambda graph: graph.edge_index[0] % 2, num_relations=2)
    data = Data(x=NODES.x.float(), edge_index=NODES.edge_index, y=NODES.y.view(-1).long())
    for call in (lambda: gp.advise(data, splits=[own], seconds=0.5), lambda: Run(split=own)):
        with pytest.raises(
            TypeError, match=r"`split` must be text, got ByFunction; .*data.edge_attr = split\(data\).*attr"
        ):
            call()


def test_adviser_keeps_the_weights_of_edges():
    weight = torch.rand(NODES.edge_index.size(1))
    nodes = Data(x=NODES.x, edge_index=NODES.edge_index, edge_weight=weight, y=NODES.y)
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [
        Data(x=torch.rand(2, 3), edge_index=edges, edge_weight=weight[n : n + 2], y=torch.rand(1)) for n in range(9)
    ]
    assert packed(nodes, None).edge_weight.equal(weight)
    assert packed(graphs, None).edge_weight.equal(torch.cat([each.edge_weight for each in graphs]))

from dataclasses import replace

import pytest
import torch

from graphprism.datasets import molecules
from graphprism.report import verdict
from graphprism.training import METRICS, Run, Task, train
from tests.datasets.small_sets import one_graph

TASKS = {
    "mae": Task("graph", "regression", "mae"),
    "ap": Task("graph", "multilabel", "ap"),
    "accuracy": Task("graph", "multiclass", "accuracy"),
}


def test_mae_by_hand():
    output, target = torch.tensor([[1.0, 0.0], [2.0, 4.0]]), torch.tensor([[0.0, 0.0], [2.0, 1.0]])
    assert TASKS["mae"].score(output, target) == 1.0
    assert TASKS["mae"].losses(output, target).sum().item() == 0.5 + 1.5


def test_average_precision_by_hand():
    # label 0: the two positives have ranks 1 and 3, so (1/1 + 2/3) / 2; label 1: its positive has rank 2; label 2: none
    output = torch.tensor([[9.0, 5.0, 0.0], [8.0, 9.0, 0.0], [7.0, -3.0, 0.0]])
    target = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert TASKS["ap"].score(output, target) == pytest.approx((5 / 6 + 1 / 2) / 2)
    # only the order counts, however large the outputs are
    assert TASKS["ap"].score(output * 100, target) == pytest.approx((5 / 6 + 1 / 2) / 2)
    # a tie: both graphs are taken together, precision 1/2
    assert TASKS["ap"].score(torch.tensor([[3.0], [3.0]]), torch.tensor([[1.0], [0.0]])) == pytest.approx(1 / 2)
    assert str(TASKS["ap"].score(output[:, 2:], target[:, 2:])) == "nan"


def test_binary_cross_entropy_by_hand():
    output, target = torch.zeros(3, 2), torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    assert TASKS["ap"].losses(output, target).sum().item() == pytest.approx(3 * 0.6931472)


def test_accuracy_and_cross_entropy_by_hand():
    output, target = torch.tensor([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0]]).log_softmax(1), torch.tensor([[0], [1], [1]])
    assert TASKS["accuracy"].score(output, target) == pytest.approx(200 / 3)
    assert TASKS["accuracy"].losses(output, target).sum().item() == pytest.approx(0.6931472 + 9.0, abs=1e-3)


def test_nothing_has_no_score():
    assert str(TASKS["mae"].score(torch.zeros(0, 1), torch.zeros(0, 1))) == "nan"


def test_a_set_without_loss_or_score_is_refused():
    with pytest.raises(ValueError, match=r"`batch_size` must be None .the whole graph. for targets of nodes, got 32"):
        train(Run(width=4), one_graph())
    with pytest.raises(ValueError, match=r"`dataset.metric` must be one of \['mae', 'rmse', .*\], got 'msle'"):
        train(Run(), replace(molecules(12), metric="msle"))
    with pytest.raises(ValueError, match=r"`dataset.task` must be one of .*, got 'ranking'"):
        train(Run(), replace(molecules(12), task="ranking"))


def average_precision(output, target):
    """The definition: precision at every threshold, times the recall that the threshold adds."""
    total, recall = 0.0, 0.0
    for threshold in sorted(set(output), reverse=True):
        chosen = [hit for value, hit in zip(output, target, strict=True) if value >= threshold]
        before, recall = recall, sum(chosen) / sum(target)
        total += (recall - before) * sum(chosen) / len(chosen)
    return total


def test_average_precision_by_its_definition():
    generator = torch.Generator().manual_seed(0)
    output = torch.randn(200, 5, generator=generator).round(decimals=1)  # with ties
    target = (torch.rand(200, 5, generator=generator) < torch.tensor([0.02, 0.1, 0.3, 0.5, 0.9])).float()
    found = [average_precision(*each) for each in zip(output.t().tolist(), target.t().tolist(), strict=True)]
    assert TASKS["ap"].score(output, target) == pytest.approx(sum(found) / 5)


def test_area_under_roc_by_its_definition():
    """The share of pairs of a hit and a miss in which the hit is above; ties count half."""
    generator = torch.Generator().manual_seed(0)
    output = 100 * torch.randn(200, 1, generator=generator).round(decimals=1)  # with ties, and where sigmoids saturate
    target = (torch.rand(200, 1, generator=generator) < 0.1).float()
    hits, misses = output[target > 0], output[target == 0]
    difference = hits[:, None] - misses
    share = ((difference > 0).double() + 0.5 * (difference == 0).double()).mean()
    task = Task("graph", "binary", "auroc")
    assert task.score(output, target) == pytest.approx(float(share))
    assert task.larger_is_better


def test_directions_of_metrics_are_those_of_the_report():
    assert {name: METRICS[name].larger_is_better for name in METRICS}.items() <= verdict.METRICS.items()


@pytest.mark.parametrize(
    ("level", "change", "words"),
    [
        ("graph", {"fold": 1}, "`fold` must be 0 for targets of graphs, got 1"),
        ("graph", {"self_loops": True}, "`self_loops` must be False for targets of graphs, got True"),
        ("node", {"batch_size": None, "pe": 2}, "`pe` must be 0 for targets of nodes, got 2"),
        ("node", {}, r"`batch_size` must be None \(the whole graph\) for targets of nodes, got 32"),
    ],
)
def test_fields_without_effect_are_refused(level, change, words):
    with pytest.raises(ValueError, match=words):
        Task(level, "multiclass", "accuracy").check(Run(**change))


def test_batch_size_on_nodes_says_both_ways_out():
    dataset = one_graph()
    sentence = r"`batch_size` must be None .* for targets of nodes, got 32: batches of nodes need `neighbors`"
    with pytest.raises(ValueError, match=sentence):
        Task.of(dataset).check(Run("one", "gcn", batch_size=32))
    Task.of(dataset).check(Run("one", "gcn", batch_size=32, neighbors=4))

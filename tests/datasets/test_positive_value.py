"""Which of two values of a target scores such as F1 count, and who says so."""

import pytest

from graphprism.cli.run_training import train_plan
from graphprism.datasets import describe, from_files
from graphprism.datasets.preprocessing import Preprocessing
from graphprism.training import Run, Task
from tests.datasets.own_files import write_people

FRAUD = {"status": ["fraud" if number % 10 == 0 else "ok" for number in range(60)]}


def classes(dataset):
    return Preprocessing.from_dict(dataset.preprocessing).classes


def test_positive_value_is_the_one_that_f1_counts(tmp_path):
    folder = write_people(tmp_path, **FRAUD)
    rare = from_files(folder, "status", positive="fraud", metric="f1")
    assert classes(rare) == ("ok", "fraud")
    assert rare.y.sum() == 6
    by_hand = 1 * rare.y - 0.5  # finds all
    assert Task.of(rare).score(by_hand, rare.y) == 1
    assert Task.of(rare).score(-by_hand.abs(), rare.y) == 0  # "ok" for all finds none
    assert "fraud 6 (10 %)" in "\n".join(describe(rare))


def test_positive_value_of_a_missing_target_stays_missing(tmp_path):
    status = [None, *FRAUD["status"][1:]]
    rare = from_files(write_people(tmp_path, status=status), "status", positive="fraud")
    assert rare.y.sum() == 5
    assert not any(mask[0] for mask in (rare.train_mask, rare.val_mask, rare.test_mask))


def test_import_says_that_the_commoner_word_is_the_positive_one(tmp_path):
    folder = write_people(tmp_path, **FRAUD)
    said = "F1 and AP count 'ok' as the positive value, the second in alphabetical order: --positive fraud"
    assert said in "\n".join(describe(from_files(folder, "status")))
    assert "F1 and AP" not in "\n".join(describe(from_files(folder, "status", positive="ok")))
    assert "F1 and AP" not in "\n".join(describe(from_files(folder, "status", positive="fraud")))
    assert "F1 and AP" not in "\n".join(describe(from_files(folder, "sick")))


def test_plan_of_a_training_names_the_value_of_its_score(tmp_path):
    dataset = from_files(write_people(tmp_path, **FRAUD), "status", positive="fraud")
    run = Run("people", "gcn", layers=2, width=8, batch_size=None)
    assert train_plan([run], dataset)[0].endswith("binary by auroc.")
    assert "binary by f1 of 'fraud'." in train_plan([Run(**{**run.__dict__, "metric": "f1"})], dataset)[0]


def test_positive_value_must_be_one_of_two(tmp_path):
    folder = write_people(tmp_path, **FRAUD)
    with pytest.raises(ValueError, match=r"`positive` must be one of .*'fraud', 'ok'.*, got 'frau'"):
        from_files(folder, "status", positive="frau")
    with pytest.raises(ValueError, match="`positive` must be left out with a target of the task multiclass, got 'red'"):
        from_files(folder, "group", positive="red")


@pytest.mark.parametrize("options", [{"target": "group"}, {"positive": "red"}])
def test_links_refuse_options_of_a_target(tmp_path, options):
    with pytest.raises(ValueError, match="must be left out with the task link"):
        from_files(write_people(tmp_path), task="link", **options)

"""Plain against split, and score by depth: numbers by hand, and what the page shows of them."""

import math
import statistics
from dataclasses import replace

import pytest

from graphprism.report import page
from graphprism.report.comparison import compare, student
from graphprism.report.depth import depth_lines
from tests.report.document import read
from tests.report.samples import depth_runs, node_runs, run


def scored(model, seed, test, **fields):
    """A run whose scores do not depend on the epoch."""
    found = run(model, 4, seed, epochs=2, **fields)
    found.history["val"][:] = found.history["test"][:] = [test, test]
    return found


PLAIN, SPLIT = (0.40, 0.42, 0.41), (0.31, 0.34, 0.31)


def test_interval_of_pairs_by_hand():
    runs = [scored("gcn", seed, test) for seed, test in enumerate(PLAIN)]
    runs += [scored("mrs-gcn", seed, test) for seed, test in enumerate(SPLIT)]
    (found,) = compare(runs)
    assert found.paired
    differences = [split - plain for plain, split in zip(PLAIN, SPLIT, strict=True)]
    assert found.difference == pytest.approx(statistics.mean(differences))
    assert found.half == pytest.approx(4.303 * statistics.stdev(differences) / math.sqrt(3))
    assert found.verdict == "better"


def test_interval_of_two_samples_by_hand():
    runs = [scored("gcn", seed, test) for seed, test in enumerate(PLAIN)]
    runs += [scored("mrs-gcn", 5 + seed, test) for seed, test in enumerate(SPLIT)]
    (found,) = compare(runs)
    assert not found.paired
    errors = [statistics.variance(each) / 3 for each in (PLAIN, SPLIT)]
    freedom = sum(errors) ** 2 / sum(each**2 / 2 for each in errors)
    assert found.half == pytest.approx(student(freedom) * math.sqrt(sum(errors)))


def test_one_run_has_no_interval_and_says_so():
    (found,) = compare([scored("gcn", 0, 0.4), scored("mrs-gcn", 0, 0.3)])
    assert found.half is None
    assert found.verdict == "ours-alone"
    assert "no interval" in page([], [scored("gcn", 0, 0.4), scored("mrs-gcn", 0, 0.3)])


def test_interval_around_zero_is_no_clear_difference():
    runs = [scored("gcn", seed, test) for seed, test in enumerate((0.40, 0.30, 0.35))]
    runs += [scored("mrs-gcn", seed, test) for seed, test in enumerate((0.30, 0.41, 0.33))]
    (found,) = compare(runs)
    assert found.verdict == "within"
    text = read(page([], runs)).one("section", id="comparison").text
    assert "no clear difference: the 95 % interval holds 0" in text


def test_best_by_validation_is_compared_and_diverged_runs_are_left_out():
    runs = [scored("gcn", 0, 0.40), scored("gcn", 0, 0.50, lr=0.1), scored("mrs-gcn", 0, 0.3)]
    runs.append(run("mrs-gcn", 4, 1, status="diverged", epochs=9))
    (found,) = compare(runs)
    assert found.scores[0].mean == 0.40
    assert found.scores[1].count == 1


def test_without_a_partner_there_is_no_comparison():
    assert compare([scored("mrs-gcn", 0, 0.3), scored("sage", 0, 0.4)]) == []
    assert "Plain against split" not in page([], [scored("mrs-gcn", 0, 0.3)])


def test_data_that_changed_under_one_name_are_not_compared():
    plain, split = scored("gcn", 0, 0.4), scored("mrs-gcn", 0, 0.3)
    one, other = (dict.fromkeys(("data",), each * 32) for each in ("ab", "cd"))
    assert compare([replace(plain, **one), replace(split, **other)]) == []
    (found,) = compare([replace(plain, **one), replace(split, **one), replace(split, **other)])
    assert found.dataset == f"{plain.run['dataset']} (data ababababa)"
    (found,) = compare([replace(plain, data=None), replace(split, **one)])  # of an older ledger
    assert found.dataset == plain.run["dataset"]


def test_headline_stands_first_also_without_tables():
    document = read(page([], depth_runs() + node_runs()))
    first = document.all("section")[0]
    assert first.attributes["id"] == "comparison"
    assert [row.one("th").text for row in first.one("tbody").all("tr")] == [
        "zinc12kmae",
        "squirrelaccuracy",
        "chameleonaccuracy",
    ]
    assert "▲ better" in first.one("tbody").all("tr")[0].text


def test_depth_has_a_line_for_each_remedy():
    lines = depth_lines(depth_runs())
    assert sorted(lines) == ["gcn", "mrs-gcn by degree", "mrs-gcn by degree, res"]
    assert list(lines["gcn"]) == [1, 2, 4, 8, 16, 32]
    assert lines["gcn"][32].count == 2  # one run diverged
    section = read(page([], depth_runs())).one("section", id="depth")
    assert len(section.all("path", class_="line")) == 6  # three lines, and three of the legend
    assert "layers" in section.text


def test_one_depth_has_no_drawing():
    assert not read(page([], node_runs())).all("section", id="depth")

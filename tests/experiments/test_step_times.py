"""Step times of runs in lockstep are shares: tables and the report say so beside the paper's."""

from dataclasses import replace

import pytest

from graphprism.experiments import CellSpec, Settings, TableSpec
from graphprism.experiments.plan import plan
from graphprism.experiments.table import make_table
from graphprism.experiments.tables.orderings import ORDERINGS_64, ORDERINGS_TABLE
from graphprism.report.runs import COLUMNS
from graphprism.report.summary import provenance
from graphprism.results import CellStatus, Score
from graphprism.training import Run
from tests.experiments.results_zoo import make_result

RUN = Run("zinc12k", "gcn", epochs=3)


def cell_of(*at_once, reading="step-ms", **more):
    """A cell whose runs were trained with so many at once; None for a result that does not say it."""
    spec = TableSpec("t", "Title", "source", (CellSpec("GCN", "Step", Score(4.3, 0.1, 3), RUN, {}, reading),))
    settings = Settings(seeds=len(at_once))
    places = [{} if count is None else {"runs_at_once": count} for count in at_once]
    results = [make_result(replace(RUN, seed=seed), hardware=place, **more) for seed, place in enumerate(places)]
    table = make_table(spec, settings, plan(spec, settings), {each.key: each for each in results})
    return table.cells[0]


def note_of(*at_once, **more):
    return cell_of(*at_once, **more).note


def test_step_time_of_lockstep_is_said_to_be_a_share():
    words = "of 9 runs in lockstep: the time of their step divided by 9; the paper's is of one run alone"
    assert note_of(9, 9) == words


def test_step_time_of_groups_of_different_sizes_names_both():
    words = "runs in lockstep: the time of their step divided by their number; the paper's is of one run alone"
    assert note_of(3, 9) == f"of 3 to 9 {words}"
    assert note_of(3, 9, None) == f"of 1 to 9 {words}"


def test_share_of_a_step_is_not_compared_with_the_paper():
    assert cell_of(9, 9).status is CellStatus.OTHER_PROTOCOL
    assert cell_of(1, 1).status is CellStatus.MEASURED
    assert cell_of(9, 9, reading="test").status is CellStatus.MEASURED


@pytest.mark.parametrize("at_once", [(1, 1), (None,), ("many",)])
def test_step_time_of_a_run_alone_needs_no_note(at_once):
    assert note_of(*at_once) == ""


def test_runs_on_a_shared_device_have_no_step_time():
    assert note_of(3, 3, step_ms=None) == "steps were not timed: other processes shared the device"


def test_lockstep_says_nothing_about_scores():
    assert note_of(9, 9, reading="test") == ""


@pytest.mark.parametrize("table", [ORDERINGS_TABLE, ORDERINGS_64])
def test_orderings_say_what_published_step_times_are(table):
    assert any("one run alone" in note and "once in every step" in note for note in table.notes)


def test_report_says_that_step_times_are_shares():
    column = next(column for column in COLUMNS if column.name == "step ms")
    assert "share" in column.about
    assert "Median step (ms a run)" in str(provenance([make_result(hardware={"runs_at_once": 9})]))

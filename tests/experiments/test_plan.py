from dataclasses import replace

import pytest
import torch

from graphprism.experiments import Settings
from graphprism.experiments.plan import estimate, plan, runs_to_do
from graphprism.training import Run
from graphprism.training.provenance import hardware
from tests.experiments.results_zoo import make_result
from tests.experiments.tiny_table import TINY


def test_rows_and_columns_choose_what_runs():
    def models(**settings):
        return sorted({run.model for run in runs_to_do(plan(TINY, Settings(**settings)))})

    assert models() == ["gcn", "mrs-gcn"]
    assert models(rows=("MRS-GCN",)) == ["mrs-gcn"]
    assert models(rows=("Others",)) == []
    assert models(columns=("Train",)) == ["gcn", "mrs-gcn"]


def test_cells_share_runs_and_seeds_count():
    assert [run.seed for run in runs_to_do(plan(TINY, Settings(seeds=2)))] == [0, 1, 0, 1]
    assert len(runs_to_do(plan(TINY, Settings(seeds=2, grid="full")))) == 16


def test_published_configurations_come_first():
    runs = runs_to_do(plan(TINY, Settings(seeds=1, grid="full")))
    assert [(run.model, run.lr, run.layers) for run in runs[:3]] == [
        ("gcn", 0.01, 1),
        ("mrs-gcn", 0.01, 1),
        ("gcn", 0.01, 2),
    ]


def test_epochs_make_other_runs():
    few, all_of_them = (runs_to_do(plan(TINY, Settings(epochs=epochs))) for epochs in (2, None))
    assert {run.epochs for run in few} == {2}
    assert not {run.key for run in few} & {run.key for run in all_of_them}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"seeds": 0}, "`seeds` must be at least 1, got 0"),
        ({"epochs": 0}, "`epochs` must be at least 1, got 0"),
        ({"grid": "some"}, r"`grid` must be one of \['best', 'full'\], got 'some'"),
        ({"engine": "warp"}, "`engine` must be one of"),
    ],
)
def test_wrong_settings_are_errors(settings, words):
    with pytest.raises(ValueError, match=words):
        Settings(**settings)


@pytest.mark.parametrize("name", ["rows", "columns"])
def test_unknown_names_are_errors_that_list_the_known(name):
    with pytest.raises(ValueError, match=rf"`{name}` must be among \w+, .*, got nix"):
        plan(TINY, Settings(**{name: ("nix",)}))


def test_estimate_ignores_runs_that_shared_their_device():
    here = hardware(torch.device("cuda" if torch.cuda.is_available() else "cpu"), 1)
    alone = make_result(Run(epochs=3), seconds=6.0, hardware=here)
    shared = make_result(Run(epochs=3, seed=1), seconds=600.0, hardware=here, step_ms=None)
    wanted = [Run(epochs=3, seed=2)]
    assert estimate(wanted, {}, [alone, shared], "eager").seconds == 6.0
    found = estimate(wanted, {}, [shared], "eager")
    assert (found.seconds, found.unknown) == (0.0, 1)
    assert estimate([replace(wanted[0], seed=1)], {}, [shared], "eager").finished == 1


def test_estimate_takes_times_of_the_same_engine_alone():
    here = hardware(torch.device("cuda" if torch.cuda.is_available() else "cpu"), 1)
    known = [make_result(Run(epochs=3), seconds=6.0, hardware=here, engine="eager")]
    assert estimate([Run(epochs=3, seed=2)], {}, known, "eager").unknown == 0
    assert estimate([Run(epochs=3, seed=2)], {}, known, "lockstep").unknown == 1


def test_names_of_rows_and_columns_ignore_case():
    chosen = Settings(rows=(TINY.rows[0].swapcase(),), columns=(TINY.columns[-1].swapcase(),))
    assert chosen.rows[0] not in TINY.rows
    wanted = [(cell.spec.row, cell.spec.column) for cell in plan(TINY, chosen) if cell.wanted]
    assert wanted == [(TINY.rows[0], TINY.columns[-1])]


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(ValueError, match=r"`rows` must be among .*, got nix, mrsgcn; did you mean MRS-GCN\?$"):
        plan(TINY, Settings(rows=("nix", "mrsgcn")))

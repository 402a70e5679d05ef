from dataclasses import replace

import pytest

from graphprism.report.configurations import configurations
from graphprism.report.curves import SHOWN, curve_data, mean_curve
from tests.report.samples import depth_runs, node_runs, run


def test_mean_and_deviation_by_hand():
    curve = mean_curve([[1.0, 2.0, None], [3.0, 2.0, 5.0]], points=10)
    assert curve.epochs == (1, 2, 3)
    assert curve.means == (2.0, 2.0, 5.0)
    assert curve.deviations == pytest.approx((2**0.5, 0.0, 0.0))


def test_epochs_without_a_number_are_passed_over_before_thinning():
    every_fifth = [float(epoch) if epoch % 5 == 0 else None for epoch in range(1, 401)]
    curve = mean_curve([every_fifth], points=20)
    assert len(curve.epochs) == 20
    assert (curve.epochs[0], curve.epochs[-1]) == (5, 400)
    assert curve.means == tuple(map(float, curve.epochs))
    assert curve.deviations is None
    assert curve.total == 80


def test_numbers_that_are_not_finite_end_a_curve():
    assert mean_curve([[1.0, float("nan"), float("inf")]], points=5).epochs == (1,)
    assert mean_curve([[None, float("nan")]], points=5) is None
    assert mean_curve([], points=5) is None


def test_seeds_are_one_configuration_and_folds_too():
    assert [len(each.runs) for each in configurations(depth_runs())] == [3] * 18
    assert [len(each.runs) for each in configurations(node_runs()[:4])] == [2, 2]
    # a field that came later is off in runs from before
    old, new = depth_runs()[:2]
    changed = replace(new, run={**new.run, "later": False, "another": None})
    assert [len(each.runs) for each in configurations([old, changed])] == [2]
    assert [len(each.runs) for each in configurations([old, replace(new, run={**new.run, "later": True})])] == [1, 1]


def test_labels_name_what_differs():
    plain, clipped = run(clip=1.0), run(clip=0.5)
    assert [each.label for each in configurations([plain, clipped, run("gcn")])] == [
        "mrs-gcn by degree, 8 layers, lr 0.0003, clip 1",
        "mrs-gcn by degree, 8 layers, lr 0.0003, clip 0.5",
        "gcn, 8 layers, lr 0.0003",
    ]


def test_best_of_every_family_is_shown_at_first():
    runs = [run("mrs-gcn", layers, score=0.2 + layers / 100) for layers in range(1, 20)] + [run("gcn", score=0.9)]
    curves = curve_data(runs)["panels"][0]["curves"]
    shown = [curve["label"] for curve in curves if curve["shown"]]
    assert len(shown) == SHOWN
    assert "gcn, 8 layers, lr 0.0003" in shown
    assert "mrs-gcn by degree, 1 layer, lr 0.0003" in shown
    assert "mrs-gcn by degree, 19 layers, lr 0.0003" not in shown
    assert curves[:SHOWN] == [curve for curve in curves if curve["shown"]]


def test_larger_scores_are_shown_first_where_they_are_better():
    runs = [run("dir-gcn", layers, score=layers / 100, node=True) for layers in range(1, 20)]
    curves = curve_data(runs)["panels"][0]["curves"]
    assert [curve["shown"] for curve in curves if curve["label"].startswith(("dir-gcn, 1 ", "dir-gcn, 19 "))] == [
        True,
        False,
    ]
    assert curves[-1]["label"].startswith("dir-gcn, 7 ")


def test_diverged_run_is_left_out_of_the_mean_unless_alone():
    whole = run(seed=0)
    broken = replace(run(seed=1, status="diverged"), history={"train_loss": [1e9, None]})
    both, alone = (curve_data(runs)["panels"][0]["curves"][0] for runs in ([whole, broken], [broken]))
    assert max(both["train"]["mean"]) < 2
    assert (both["runs"], both["diverged"]) == (2, 1)
    assert alone["train"]["mean"] == [1e9]
    assert alone["val"] is None


def test_curves_share_their_epochs_and_say_when_they_are_thinned():
    short, long = curve_data(depth_runs()), curve_data([run(epochs=400), run("gcn", epochs=400)])
    assert not short["thinned"]
    assert long["thinned"]
    assert len(long["grids"]) == 1
    assert len(long["grids"][0]) == 150
    assert long["grids"][0][-1] == 400


def test_run_without_history_has_no_panel():
    assert curve_data([replace(run(), history={})])["panels"] == []

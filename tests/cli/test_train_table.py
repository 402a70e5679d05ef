import pytest
from rich.console import Console

from graphprism.cli.train_table import compare_partners, train_table
from graphprism.results import RunResult
from graphprism.training import Run


def result(model, test, val=None, lr=0.001, seed=0, parameters=90_000, **fields):
    run = Run(model=model, lr=lr, seed=seed)
    history = {"train_loss": [0.9, 0.1], "val": [9.0, test if val is None else val], "test": [8.0, test]}
    values = {"status": "finished", "metric": "mae", "larger_is_better": False, "history": history, "best_epoch": 2}
    sizes = {"parameters": parameters, "width": 9, "step_ms": 1.0, "seconds": 20.0, "engine": "eager"}
    return RunResult(**{"key": run.key, "run": run.to_dict(), **values, **sizes, **fields})


def diverged(model, seed=0):
    return result(model, 0.0, seed=seed, status="diverged", history={}, best_epoch=None)


def shown(results):
    console = Console(width=150)
    with console.capture() as captured:
        console.print(train_table(results))
    rows = [line.strip("│").split("│") for line in captured.get().splitlines() if line.startswith("│")]
    return captured.get(), [[cell.strip() for cell in row] for row in rows]


def test_one_seed():
    text, rows = shown([result("gcn", 0.5, parameters=89_999), result("mrs-gcn", 0.25)])
    assert rows == [
        ["gcn", "89,999", "0.1000", "0.5000", "0.5000", "20 s"],
        ["mrs-gcn", "90,000", "0.1000", "0.2500", "0.2500", "20 s"],
    ]
    assert "molecules: seed 0" in text
    assert "val MAE" in text
    assert "test MAE" in text


def test_accuracies_are_percentages_with_two_decimals():
    fields = {"metric": "accuracy", "larger_is_better": True}
    text, rows = shown([result("gcn", 61.8, **fields)])
    assert rows[0][2:5] == ["0.1000", "61.80", "61.80"]
    assert "val accuracy (%)" in text
    assert "test accuracy (%)" in text
    _, rows = shown([result("gcn", 61.8 + seed, seed=seed, **fields) for seed in (0, 1)])
    assert rows[0][3:5] == ["62.30 ± 0.71", "62.30 ± 0.71"]


@pytest.mark.parametrize(
    ("metric", "heading"), [("ap", "AP"), ("auroc", "AUROC"), ("f1", "F1"), ("hits@20", "hits@20")]
)
def test_headings_name_the_metric(metric, heading):
    text, rows = shown([result("gcn", 0.5, metric=metric, larger_is_better=True)])
    assert f"test {heading} " in text
    assert rows[0][4] == "0.5000"


def test_several_seeds_and_rates():
    results = [result("gcn", 0.1 * seed, lr=lr, seed=seed) for lr in (0.1, 0.2) for seed in (1, 3)]
    text, rows = shown(results)
    assert [row[0] for row in rows] == ["gcn, lr 0.1", "gcn, lr 0.2"]
    assert rows[0][4:] == ["0.200 ± 0.141", "40 s"]
    assert "mean and deviation of 2 seeds" in text


def test_table_of_several_seeds_fits_into_eighty_columns():
    results = [result(model, 0.1, seed=seed, seconds=150.0) for model in ("gcn", "mrs-gcn") for seed in (0, 1)]
    console = Console(width=80)
    with console.capture() as captured:
        console.print(train_table(results))
    assert captured.get().count("±") == 6
    assert "│ mrs-gcn │     90,000 │ 0.100 ± 0.000 │" in captured.get()
    fields = {"metric": "accuracy", "larger_is_better": True, "seconds": 150.0}
    with console.capture() as captured:
        console.print(train_table([result("mrs-gcn", 61.8, seed=seed, **fields) for seed in (0, 1)]))
    assert captured.get().count("61.80 ± 0.00") == 2
    assert captured.get().count("(%)") == 2


def test_diverged_runs_have_no_score():
    _, rows = shown([diverged("gcn"), result("gcn", 0.5, seed=1), diverged("mrs-gcn"), diverged("mrs-gcn", 1)])
    assert [row[2:5] for row in rows] == [["1 of 2 diverged", "", ""], ["2 of 2 diverged", "", ""]]
    assert shown([diverged("gcn")])[1][0][2] == "diverged"


@pytest.mark.parametrize(
    ("plain", "mrs", "words"),
    [
        ({"test": 0.5}, {"test": 0.5}, "mrs-gcn's error equals gcn's at equal parameters."),
        ({"test": 0.5}, {"test": 0.39}, "mrs-gcn's error is 22 % below gcn's at equal parameters."),
        ({"test": 0.5}, {"test": 0.6}, "mrs-gcn's error is 20 % above gcn's at equal parameters."),
        (
            {"test": 0.5, "parameters": 1000},
            {"test": 0.39, "parameters": 3000},
            "mrs-gcn's error is 22 % below gcn's with 3,000 against 1,000 parameters.",
        ),
        (
            {"test": 0.5, "metric": "ap", "larger_is_better": True},
            {"test": 0.6, "metric": "ap", "larger_is_better": True},
            "mrs-gcn's ap is 20 % above gcn's at equal parameters.",
        ),
    ],
)
def test_sentence(plain, mrs, words):
    assert compare_partners([result("gcn", **plain), result("mrs-gcn", **mrs)]) == [words]


def test_best_rate_by_validation_not_by_test():
    plain = [result("gcn", 0.4, val=0.9, lr=0.1), result("gcn", 0.5, val=0.8, lr=0.2)]
    mrs = [result("mrs-gcn", 0.1, val=0.7, lr=0.1), result("mrs-gcn", 0.25, val=0.6, lr=0.2)]
    assert compare_partners([*plain, *mrs]) == ["mrs-gcn's error is 50 % below gcn's at equal parameters."]


def test_best_rate_where_more_is_better():
    fields = {"metric": "ap", "larger_is_better": True}
    mrs = [result("mrs-gcn", 0.6, val=0.9, lr=0.1, **fields), result("mrs-gcn", 0.1, val=0.2, lr=0.2, **fields)]
    assert "20 % above" in compare_partners([result("gcn", 0.5, **fields), *mrs])[0]


def test_mean_over_seeds():
    plain = [result("gcn", 0.4), result("gcn", 0.6, seed=1)]
    mrs = [result("mrs-gcn", 0.1), result("mrs-gcn", 0.3, seed=1)]
    assert "60 % below" in compare_partners([*plain, *mrs])[0]


def test_sentence_of_a_change_that_rounds_to_nothing():
    (words,) = compare_partners([result("gcn", 0.6330), result("mrs-gcn", 0.6329)])
    assert words == "mrs-gcn's error is less than 0.5 % below gcn's at equal parameters."
    fields = {"metric": "accuracy", "larger_is_better": True}
    (words,) = compare_partners([result("gcn", 81.00, **fields), result("mrs-gcn", 81.02, **fields)])
    assert words == "mrs-gcn's accuracy is less than 0.05 points above gcn's at equal parameters."


def test_no_sentence_without_a_partner_that_finished():
    assert compare_partners([result("mrs-gcn", 0.5), result("sage", 0.5)]) == []
    assert compare_partners([result("mrs-gcn", 0.5), diverged("gcn")]) == []
    assert compare_partners([result("mrs-gcn", 0.5), diverged("gcn"), result("gcn", 0.5, seed=1)]) == []


def test_partner_of_nine_maps():
    assert len(compare_partners([result("gated-gcn", 0.5), result("mrs-gated-gcn-9", 0.4)])) == 1


@pytest.mark.parametrize(("ours", "words"), [(77.5, "2.5 points below"), (81.0, "1.0 points above")])
def test_accuracies_differ_by_points(ours, words):
    fields = {"metric": "accuracy", "larger_is_better": True}
    results = [result("gcn", 80.0, **fields), result("mrs-gcn", ours, **fields)]
    assert compare_partners(results) == [f"mrs-gcn's accuracy is {words} gcn's at equal parameters."]


@pytest.mark.parametrize(("gap", "within"), [(0.3, True), (1.1, False)])
def test_sentence_says_where_a_difference_is_within_the_deviations(gap, within):
    fields = {"metric": "accuracy", "larger_is_better": True}
    plain = [result("gcn", 80.0 + offset, seed=seed, **fields) for seed, offset in enumerate((-0.5, 0.0, 0.5))]
    mrs = [result("mrs-gcn", 80.0 + gap + offset, seed=seed, **fields) for seed, offset in enumerate((-0.5, 0.0, 0.5))]
    end = ", within the deviations." if within else " parameters."
    assert compare_partners([*plain, *mrs])[0].endswith(end)


@pytest.mark.parametrize(("plain", "split", "words"), [(0.0, 0.0, "equals gcn's"), (0.0, 0.4, "is 0.4 above gcn's")])
def test_a_score_of_0_is_compared(plain, split, words):
    fields = {"metric": "f1", "larger_is_better": True}
    (sentence,) = compare_partners([result("gcn", plain, **fields), result("mrs-gcn", split, **fields)])
    assert sentence == f"mrs-gcn's f1 {words} at equal parameters."

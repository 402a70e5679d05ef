from dataclasses import fields, replace

import pytest

from graphprism.cli.run_training import _training, parse_numbers
from graphprism.cli.run_training import train_runs as runs_on
from graphprism.cli.train_options import (
    MODELS,
    Optimizer,
    Precision,
    Schedule,
    shown_default,
)
from graphprism.datasets import DATASETS, molecules
from graphprism.nn import CONVOLUTIONS
from graphprism.protocols import DATASET_DEFAULTS, DIRECTED_PROTOCOL, NODE_PROTOCOL, PROTOCOL
from graphprism.training import Run
from graphprism.training.run import OPTIMIZERS, PRECISIONS, SCHEDULES
from tests.datasets.small_sets import one_graph

GRAPHS = molecules(12)


def options(**said):
    return {"model": None, "seeds": "0", "folds": "0", "dataset": "molecules", **said}


def train_runs(options):
    return runs_on(options, GRAPHS)


def test_defaults_in_the_help_are_those_of_a_run():
    assert {name: value for name, value in Run().to_dict().items() if name in PROTOCOL} == PROTOCOL
    assert tuple(CONVOLUTIONS) == MODELS
    assert set(DATASET_DEFAULTS) <= set(DATASETS)
    assert all(set(values) <= set(PROTOCOL) for values in DATASET_DEFAULTS.values())


def test_nothing_said_on_molecules():
    plain, mrs = train_runs(options())
    assert (plain.model, mrs.model) == ("gcn", "mrs-gcn")
    assert plain == Run(model="gcn", **DATASET_DEFAULTS["molecules"])
    assert plain.epochs == 8


def test_nothing_said_elsewhere_is_the_protocol_of_the_paper():
    assert train_runs(options(dataset="zinc12k", model="gcn")) == [Run("zinc12k", "gcn", start="independent")]
    (peptides,) = train_runs(options(dataset="peptides-func", model="gcn"))
    assert (peptides.batch_size, peptides.epochs, peptides.layers) == (200, 500, 8)


def test_what_is_said_counts_also_where_it_is_zero():
    (run,) = train_runs(options(model="sage", clip=0.0, warmup=0, epochs=3, residual=True, width=7, layers=None))
    told = {"clip": 0.0, "warmup": 0, "epochs": 3, "residual": True, "width": 7}
    assert run == Run(model="sage", **{**DATASET_DEFAULTS["molecules"], **told})


def test_one_run_for_each_model_rate_and_seed():
    runs = train_runs(options(lr="1e-3, 3e-4", seeds="0..1"))
    assert [(run.model, run.lr, run.seed) for run in runs] == [
        (model, lr, seed) for model in ("gcn", "mrs-gcn") for lr in (1e-3, 3e-4) for seed in (0, 1)
    ]


def test_what_a_run_does_not_have_is_left_out():
    (run,) = train_runs(options(model="gcn", out="x", fresh=True, engine="auto"))
    assert run.to_dict().keys() == {each.name for each in fields(Run)}


def test_twice_the_same_is_one_run():
    assert len(train_runs(options(model="gcn,gcn", lr="0.001,0.001", seeds="3,3,2..3"))) == 2


@pytest.mark.parametrize(
    ("text", "seeds"), [("0", [0]), ("0..3", [0, 1, 2, 3]), ("0,1,5", [0, 1, 5]), ("7..7", [7]), ("4, 0..1", [4, 0, 1])]
)
def test_seeds(text, seeds):
    assert parse_numbers("seeds", text) == seeds


@pytest.mark.parametrize("text", ["", "a", "-1", "1.5", "3..1", "0..", "0...2", "1,,2", "²"])
def test_wrong_seeds(text):
    with pytest.raises(ValueError, match="`seeds` must be"):
        parse_numbers("seeds", text)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"model": "mrs-gnc"}, "got 'mrs-gnc'; did you mean mrs-gcn?"),
        ({"model": "GCN"}, "did you mean gcn?"),
        (
            {"model": "acm-gcn"},
            "'acm-gcn', a whole network: `graphprism reproduce directed` or `train(Run(...))` of Python runs it",
        ),
        ({"model": "gcn,"}, "`model` must be one or several values, comma-separated"),
        ({"model": "xyz"}, "pyg-rgcn, got 'xyz'"),
        ({"lr": "fast"}, "`lr` must be comma-separated numbers, got 'fast'"),
        ({"lr": "0.1,-1"}, "`lr` must be above 0"),
        ({"layers": 0}, "`layers` must be at least 1"),
        ({"precision": "int8"}, "`precision` must be one of"),
    ],
)
def test_wrong_values_are_named(said, words):
    with pytest.raises(ValueError, match="must be") as caught:
        train_runs(options(**said))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_close_is_not_suggested():
    with pytest.raises(ValueError, match=r"got 'transformer' \(one of your own"):
        train_runs(options(model="transformer"))


def test_shown_default_names_every_data_set_with_its_own():
    assert shown_default("epochs") == (
        "400; 8 on molecules; 500 on zinc; 500 on peptides-func; 250 on peptides-struct; 1000 on nodes"
    )
    assert shown_default("batch_size").endswith("; the whole graph on nodes")


@pytest.mark.parametrize(
    ("directed", "protocol", "models"),
    [(False, NODE_PROTOCOL, ["gcn", "mrs-gcn"]), (True, DIRECTED_PROTOCOL, ["dir-gcn", "mrs-dir-gcn"])],
)
def test_targets_of_nodes_have_a_protocol_of_their_own(directed, protocol, models):
    dataset = replace(one_graph(), directed=directed)
    runs = runs_on(options(dataset="mine", folds="0..2"), dataset)
    assert [(run.model, run.fold) for run in runs] == [(model, fold) for model in models for fold in range(3)]
    assert runs[0] == Run("mine", models[0], **protocol)
    assert runs_on(options(dataset="mine", lr="0.5", patience=7), dataset)[0].patience == 7


def test_a_budget_finds_the_width_of_nodes_too():
    dataset = replace(one_graph(), directed=False)
    assert [(run.width, run.budget) for run in runs_on(options(budget=2_000), dataset)] == [(None, 2_000)] * 2
    assert [run.width for run in runs_on(options(budget=2_000, width=7), dataset)] == [7, 7]
    assert [run.width for run in runs_on(options(), dataset)] == [64, 64]


def test_loops_that_a_protocol_adds_can_be_left_out():
    dataset = replace(one_graph(), directed=False)
    assert [run.self_loops for run in runs_on(options(), dataset)] == [True, True]
    assert [run.self_loops for run in runs_on(options(self_loops=False), dataset)] == [False, False]


def test_names_in_the_help_are_those_that_a_run_takes():
    for hint, names in ((Optimizer, OPTIMIZERS), (Schedule, SCHEDULES), (Precision, PRECISIONS)):
        assert hint.__metadata__[0].metavar == "|".join(names)


@pytest.mark.parametrize(("warmup", "is_said"), [(0, False), (2, False), (3, True), (5, True)])
def test_plan_says_that_a_warm_up_does_not_end(warmup, is_said):
    words = _training([Run(epochs=3, warmup=warmup)])
    assert ("which it does not leave (`--warmup 0` for a short trial)" in words) == is_said


@pytest.mark.parametrize("said", [{"ffn": True}, {"activation": "gelu"}])
def test_layers_that_cannot_normalise_leave_out_that_default(said):
    directed = replace(one_graph(), directed=True)
    assert not any(run.normalize for run in runs_on(options(**said), directed))
    assert all(run.normalize for run in runs_on(options(activation="relu"), directed))
    # asked for by a run file: the network refuses it
    assert all(run.normalize for run in runs_on(options(**said, normalize=True), directed))


def test_a_remedy_is_an_option():
    given = {"model": "gcn,mrs-gcn", "remedy": "g2"}
    assert {run.remedy for run in train_runs(options(**given))} == {"g2"}
    nodes = runs_on({**options(**given), "dataset": "cora"}, one_graph())
    assert {(run.remedy, run.encode) for run in nodes} == {("g2", True)}
    with pytest.raises(ValueError, match="`remedy` must be one of"):
        train_runs(options(remedy="g3"))

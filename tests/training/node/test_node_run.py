import dataclasses
import json

import pytest

from graphprism.training import Run
from graphprism.training.node import NodeRun


def test_it_comes_back_from_json():
    run = NodeRun(model="dir-sage", jk=None, fold=7, undirected=True)
    assert NodeRun.from_dict(json.loads(json.dumps(run.to_dict()))) == run


def test_every_field_is_in_the_key():
    other = {
        "dataset": "squirrel", "model": "gcn", "split": "ppr", "layers": 3, "width": 9, "alpha": 0.5, "jk": None,
        "normalize": False, "dropout": 0.1, "input_dropout": True, "share_init": False, "undirected": True,
        "self_loops": True, "row_normalise": False, "lr": 0.1, "weight_decay": 0.1, "epochs": 5, "patience": 3,
        "fold": 1, "seed": 2, "precision": "float64",
    }  # fmt: skip
    assert {*other, "optimizer"} == {field.name for field in dataclasses.fields(NodeRun)}
    keys = {NodeRun(**{name: value}).key for name, value in other.items()}
    assert len(keys | {NodeRun().key}) == len(other) + 1


def test_fields_that_came_later_leave_the_keys_of_old_ledgers():
    told = NodeRun(model="mlp", layers=5, dropout=0.0).to_dict()
    del told["input_dropout"]  # as lines were written before there was such a field
    assert NodeRun.from_dict(told).key == "83a2135ac58d84c7"


def test_a_title_tells_of_dropped_features_where_there_are_some():
    assert "dropout 0.2, lr" in NodeRun().title
    assert "dropout 0.2, of features too, lr" in NodeRun(input_dropout=True).title


def test_a_default_is_no_part_of_the_key_and_a_run_on_graphs_has_another():
    assert NodeRun(layers=6).key == NodeRun().key
    assert NodeRun(dataset="one", model="gcn").key != Run(dataset="one", model="gcn").key


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "gin"}, "`model` must be one of"),
        ({"jk": "lstm"}, "`jk` must be one of"),
        ({"optimizer": "sgd"}, "`optimizer` must be one of"),
        ({"precision": "half"}, "`precision` must be one of"),
        ({"layers": 0}, "`layers` must be at least 1, got 0"),
        ({"width": 0}, "`width` must be at least 1"),
        ({"epochs": 0}, "`epochs` must be at least 1"),
        ({"patience": 0}, "`patience` must be at least 1"),
        ({"fold": -1}, "`fold` must be at least 0, got -1"),
        ({"seed": -1}, "`seed` must be at least 0"),
        ({"weight_decay": -1.0}, "`weight_decay` must be at least 0"),
        ({"alpha": 1.5}, r"`alpha` must be in \[0, 1\], got 1.5"),
        ({"lr": 0.0}, "`lr` must be above 0"),
        ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\)"),
    ],
)
def test_bad_values(options, words):
    with pytest.raises(ValueError, match=words):
        NodeRun(**options)


def test_unknown_fields():
    with pytest.raises(ValueError, match=r"only fields of `NodeRun`, got \['batch_size'\]"):
        NodeRun.from_dict({"batch_size": 3})

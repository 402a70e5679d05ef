import dataclasses
import json

import pytest
import torch

from graphprism.training import Run
from graphprism.training.optim import _CLASSES, IS_DECOUPLED, make_optimizer
from graphprism.training.run import OPTIMIZERS, ORIGIN, run_key

# Another value for every field.
OTHER = {
    "dataset": "squirrel", "model": "mrs-fabernet", "split": "ppr", "layers": 3, "width": 9, "budget": 1000,
    "residual": True, "jk": "cat", "pe": 2, "norm": "batch", "dropout": 0.1, "optimizer": "adam", "lr": 0.1,
    "weight_decay": 0.1, "clip": 0.0, "schedule": "constant", "warmup": 0, "batch_size": None, "epochs": 5, "seed": 2,
    "precision": "float64", "patience": 3, "fold": 1, "alpha": 1.0, "normalize": True, "input_dropout": True,
    "start": "shared", "decay": 2.0, "undirected": True, "self_loops": True, "row_normalise": True, "neighbors": 5,
    "pe_encoder": "deepset", "node_encoder": "atoms", "edge_residual": True, "weight_init": "glorot", "metric": "f1",
    "learned_split": True, "class_weights": "balanced", "ffn": True, "activation": "gelu", "edge_dropout": True,
    "walk_steps": 4, "edge_walks": True, "head_layers": 2,
    "options": "order=2", "encode": True, "remedy": "gcnii",
    "head": "constant", "head_activation": "gelu", "split_layers": "late",
    "deviation": "diagonal",
}  # fmt: skip


def test_run_comes_back_from_json():
    for run in (Run(), Run(model="dir-sage", jk=None, fold=7, undirected=True, batch_size=None), Run(**OTHER)):
        assert Run.from_dict(json.loads(json.dumps(run.to_dict()))) == run


def test_key_has_every_field():
    assert OTHER.keys() == {field.name for field in dataclasses.fields(Run)}
    changes = {**OTHER, "start": "independent"}  # its default is the other value
    needs = {"options": {"model": "fabernet"}}  # no other model has options
    keys = {Run(**{name: value, **needs.get(name, {})}).key for name, value in changes.items()}
    assert len(keys | {Run().key}) == len(OTHER) + 1


@pytest.mark.parametrize("name", OTHER)
def test_key_of_a_run_from_before_a_field_existed_is_that_of_its_origin(name):
    others = {**OTHER, "options": ""} if name == "model" else OTHER  # a convolution has none
    run_dict = Run(**{**others, name: ORIGIN[name]}).to_dict()
    key = Run.from_dict(run_dict).key
    del run_dict[name]  # as lines were written before there was such a field
    assert Run.from_dict(run_dict).key == run_key(run_dict) == key
    assert run_key({**run_dict, name: OTHER[name]}) != key


def test_key_leaves_out_defaults():
    assert Run(layers=8).key == Run().key
    assert Run(dataset="one", model="gcn", batch_size=None).key != Run(dataset="one", model="gcn").key


@pytest.mark.parametrize(
    ("name", "number"), [("clip", 0), ("alpha", -0.0), ("lr", 1), ("weight_decay", 1), ("alpha", 1), ("decay", 1)]
)
def test_equal_runs_have_equal_keys_however_a_number_is_written(name, number):
    run, other = Run(**{name: number}), Run(**{name: float(abs(number))})
    assert run == other
    assert run.key == other.key


def test_title_says_that_features_are_dropped():
    assert "dropout 0.2, lr" in Run(dropout=0.2).title
    assert "dropout 0.2, of features too, lr" in Run(dropout=0.2, input_dropout=True).title


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "gcn2"}, "`model` must be one of"),
        ({"jk": "sum"}, "`jk` must be one of"),
        ({"options": "order=2"}, "`options` must be empty for mrs-gcn, which is a convolution, got 'order=2'"),
        ({"model": "g2", "options": "exponent=2,depth=3"}, "`options` must be name=value between commas"),
        ({"model": "g2", "options": "depth=3,exponent=2"}, "`options` of g2 must be among late_dropout, exponent, got"),
        ({"optimizer": "sgd"}, r"`optimizer` must be one of \['adamw', 'adam'\], got 'sgd'"),
        ({"schedule": "linear"}, "`schedule` must be one of"),
        ({"precision": "half"}, "`precision` must be one of"),
        ({"layers": 0}, "`layers` must be at least 1, got 0"),
        ({"budget": 0}, "`budget` must be at least 1"),
        ({"width": 0}, "`width` must be None or at least 1, got 0"),
        ({"batch_size": 0}, "`batch_size` must be None or at least 1"),
        ({"epochs": 0}, "`epochs` must be at least 1"),
        ({"patience": 0}, "`patience` must be None or at least 1"),
        ({"fold": -1}, "`fold` must be at least 0, got -1"),
        ({"seed": -1}, "`seed` must be at least 0"),
        ({"pe": -1}, "`pe` must be at least 0"),
        ({"warmup": -1}, "`warmup` must be at least 0"),
        ({"clip": -1.0}, "`clip` must be at least 0"),
        ({"weight_decay": -1.0}, "`weight_decay` must be at least 0"),
        ({"alpha": 1.5}, r"`alpha` must be in \[0, 1\], got 1.5"),
        ({"lr": 0.0}, "`lr` must be above 0"),
        ({"dropout": 1.0}, r"`dropout` must be in \[0, 1\)"),
    ],
)
def test_bad_values(options, words):
    with pytest.raises(ValueError, match=words):
        Run(**options)


def test_unknown_fields():
    with pytest.raises(ValueError, match=r"only fields of `Run`, got \['momentum'\]"):
        Run.from_dict({"momentum": 3})


def test_every_optimizer_is_known_to_all_engines():
    assert set(OPTIMIZERS) == set(_CLASSES) == set(IS_DECOUPLED)
    for name, decoupled in IS_DECOUPLED.items():
        # one step without a gradient: only decay apart from the gradient is in proportion to the weight
        weight = torch.nn.Parameter(torch.tensor([1.0, 10.0]))
        optimizer = make_optimizer(Run(optimizer=name, lr=0.1, weight_decay=0.5), [weight])
        weight.grad = torch.zeros(2)
        optimizer.step()
        lost = [1.0, 10.0] - weight.detach().numpy()
        assert lost == pytest.approx([0.05, 0.5] if decoupled else [0.1, 0.1], rel=1e-4)

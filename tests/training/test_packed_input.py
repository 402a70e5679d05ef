"""A packed file as the input of a prediction: it holds features on a scale, and ids."""

import pytest

import graphprism as gp
from graphprism.datasets import from_files, load, save
from graphprism.training import Run, train
from tests.datasets.own_files import write_people

NODES = {"layers": 2, "width": 8, "batch_size": None, "warmup": 0, "epochs": 2, "lr": 0.03}
REST = ("group", "income", "likes_a", "likes_b")


def people(folder, **columns):
    return from_files(write_people(folder, **columns), "sick", drop=REST)


def test_packed_data_of_another_import_are_refused(tmp_path):
    train(Run("people", "gcn", **NODES), people(tmp_path / "old"), folder=tmp_path / "run", accelerator="cpu")
    predictor = gp.load(tmp_path / "run")
    older = people(tmp_path / "new", age=[100.0 + number for number in range(60)])  # scaled by its own mean
    save(older, tmp_path / "new.npz")
    for graphs, name in ((tmp_path / "new.npz", "new.npz"), (older, "`graphs`")):
        with pytest.raises(ValueError, match=f"{name}: the graphs must have the columns, scales and categories of the"):
            predictor.predict(graphs)
        with pytest.raises(ValueError, match="give the tables themselves"):
            predictor(graphs)
    assert len(predictor.predict(tmp_path / "new").ids) == 60


@pytest.mark.parametrize("task", ["node", "link"])
def test_packed_data_keep_their_ids(tmp_path, task):
    options = {"target": "sick", "drop": REST} if task == "node" else {"task": "link", "drop": ("sick", *REST)}
    save(from_files(write_people(tmp_path / "people"), **options), tmp_path / "people.npz")
    data = load(tmp_path / "people.npz")
    train(Run("people", "gcn", **NODES), data, folder=tmp_path / "run", accelerator="cpu")
    (tmp_path / "pairs.csv").write_text("from,to\np3,p5\n")
    pairs = tmp_path / "pairs.csv" if task == "link" else None
    predictor = gp.load(tmp_path / "run")
    for graphs in (tmp_path / "people.npz", data):
        found = predictor.predict(graphs, pairs=pairs)
        assert found.ids[0] == (("p3", "p5") if task == "link" else ("p0",))
        assert found.id_names == (("source", "target") if task == "link" else ("person",))

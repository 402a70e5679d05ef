"""New tables are found as those of training were, and new nodes join the graph that training saw."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import graphprism as gp
from graphprism.datasets import PackedDataset, from_data, from_files, molecules, save
from graphprism.ledger import Ledger
from graphprism.training import Run, train
from graphprism.training.run_splits import run_splits

NODES = {"layers": 2, "width": 8, "batch_size": None, "warmup": 0, "epochs": 2, "lr": 0.03, "self_loops": True}
FILES = {"nodes": "what.csv", "edges": "with.csv"}


def write_shop(folder, names, first, last, *, files=("what.csv", "with.csv"), target=True):
    """Customers ``first`` to ``last`` with edges to those before them."""
    folder.mkdir()
    head, tail = ("name,age,segment", lambda n: f",{'ab'[n % 2]}") if target else ("name,age", lambda n: "")
    rows = [f"{names[n]},{20 + 3 * n % 7}{tail(n)}" for n in range(first, last)]
    (folder / files[0]).write_text("\n".join([head, *rows]) + "\n")
    edges = [f"{names[n]},{names[n - step]}" for n in range(max(first, 2), last) for step in (1, 2)]
    (folder / files[1]).write_text("\n".join(["one,other", *edges]) + "\n")
    return folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    names = [f"c{n}" for n in range(36)]
    old, new = write_shop(folder / "old", names, 0, 30), write_shop(folder / "new", names, 30, 36, target=False)
    dataset = from_files(old, "segment", name="shop", files=FILES)
    train(Run(**NODES), dataset, folder=folder / "runs", accelerator="cpu")
    save(dataset, folder / "shop.npz")
    return folder, old, new


def test_names_of_tables_are_those_of_training(shop):
    folder, old, new = shop
    found = gp.load(folder / "runs").predict(new, graph=old)
    assert found.ids == [(f"c{n}",) for n in range(30, 36)]
    again = gp.load(folder / "runs").predict(new, graph=old, files=FILES)
    assert torch.equal(found.scores, again.scores)


def test_given_names_are_those_of_the_graph_as_well(shop, tmp_path):
    folder = shop[0]
    names = [f"c{n}" for n in range(36)]
    other = ("x.csv", "y.csv")
    old = write_shop(tmp_path / "old", names, 0, 30, files=other)
    new = write_shop(tmp_path / "new", names, 30, 36, files=other, target=False)
    files = {"nodes": other[0], "edges": other[1]}
    assert len(gp.load(folder / "runs").predict(new, graph=old, files=files)) == 6


def test_packed_graph_gives_what_its_tables_give(shop, monkeypatch):
    folder, old, new = shop
    predictor = gp.load(folder / "runs")
    wanted = predictor.predict(new, graph=old)
    monkeypatch.setenv("GRAPHPRISM_DATA", str(folder))
    for graph in (folder / "shop.npz", "shop"):
        found = predictor.predict(new, graph=graph)
        assert found.ids == wanted.ids
        torch.testing.assert_close(found.scores, wanted.scores)


def test_packed_graph_must_be_imported_alike(shop, tmp_path):
    folder, old, new = shop
    save(from_files(old, "segment", files=FILES, drop=("age",)), tmp_path / "other.npz")
    with pytest.raises(
        ValueError, match=r"other.npz: the graph must be imported with the columns and scales of the run"
    ):
        gp.load(folder / "runs").predict(new, graph=tmp_path / "other.npz")


def test_unknown_ends_of_edges_mention_the_graph(shop):
    folder, _, new = shop
    with pytest.raises(ValueError, match=r"'c29' in row 1, .* name that one \(--graph PATH or graph=PATH\)"):
        gp.load(folder / "runs").predict(new)


def test_ids_in_a_file_are_as_many_as_nodes(shop, tmp_path):
    from graphprism.datasets import DatasetFileError, read

    with np.load(shop[0] / "shop.npz") as file:
        arrays = {key: file[key] for key in file.files}
    arrays["node_ids"] = arrays["node_ids"][:-5]
    about = str(arrays["about"])
    arrays["about"] = np.array(about.replace('"sha256": ', '"was": '))
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DatasetFileError, match="`node_ids` must hold 30 texts"):
        read(tmp_path / "bad.npz")
    assert isinstance(read(shop[0] / "shop.npz"), PackedDataset)


def write_friends(folder):
    folder.mkdir()
    (folder / "nodes.csv").write_text("name,age,y\n" + "".join(f"c{n},{n % 7},{n % 2}\n" for n in range(20)))
    edges = "".join(f"c{n},c{(n + 1) % 20},{'ab'[n % 2]},{2001 + n % 3}\n" for n in range(20))
    (folder / "edges.csv").write_text("from,to,how,since\n" + edges)
    return folder


def test_split_by_the_name_of_an_imported_column(tmp_path):
    folder = write_friends(tmp_path / "friends")
    dataset = from_files(folder, "y", categories=("since",))
    columns = [code["name"] for code in dataset.preprocessing["edges"]]
    named, numbered = (
        Run(**NODES, split="degree * attr(since)"),
        Run(**NODES, split="degree * attr(edge_attr, column=1)"),
    )
    assert columns == ["how", "since"]
    assert repr(run_splits(named, dataset)) == repr(run_splits(numbered, dataset))
    train(named, dataset, folder=tmp_path / "runs", accelerator="cpu")
    assert len(gp.load(tmp_path / "runs").predict(folder)) == 20


@pytest.mark.parametrize(
    ("drop", "split", "message"),
    [
        (
            "how",
            "attr(since)",
            r"attr\(since\) must name a column of types, got numbers; import .* --category since or",
        ),
        ("since", "attr(sinc)", r"attr\(sinc\) must name an attribute of edges, got attr\(how\)$"),
    ],
)
def test_split_by_no_column_of_types_says_what_there_is(tmp_path, drop, split, message):
    dataset = from_files(write_friends(tmp_path / "friends"), "y", drop=(drop,))
    with pytest.raises(ValueError, match=message):
        run_splits(Run(**NODES, split=split), dataset)


def test_split_of_a_packed_set_says_which_columns_there_are():
    with pytest.raises(ValueError, match=r"must name an attribute of edges, got attr\(edge_attr, column=0\)$"):
        run_splits(Run(split="attr(bond)"), molecules(20))


def test_folder_of_results_is_its_best_run_by_validation(tmp_path):
    runs = [Run(**{**NODES, "epochs": epochs}, seed=seed) for seed, epochs in ((0, 1), (1, 30), (2, 1))]
    draw = torch.Generator().manual_seed(0)
    x, edges = torch.randn(60, 4, generator=draw), torch.randint(60, (2, 200), generator=draw)
    dataset = from_data(Data(x=x, edge_index=edges, y=(x[:, 0] > 0).long()), task="multiclass")
    results = [train(run, dataset, folder=tmp_path / "checkpoints", accelerator="cpu") for run in runs]
    with pytest.raises(ValueError, match="has 3 runs, name one of them: ") as caught:
        gp.load(tmp_path)
    assert "\n" not in str(caught.value)
    for result in results:
        Ledger(tmp_path / "ledger.jsonl").append(result)
    best = max(results, key=lambda each: each.at_best("val"))
    assert gp.load(tmp_path).run.key == best.key

"""A checkpoint predicts what the network in the process does, on the same data and on new files."""

import csv
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

import graphprism as gp
from graphprism.datasets import from_data, from_files, molecules
from graphprism.ledger import Ledger
from graphprism.training import CheckpointError, Run, load_best, train
from graphprism.training.eager import EagerEngine
from graphprism.training.processes import make_fabric
from tests.datasets.own_files import write, write_molecules, write_people
from tests.training.test_targets import WHOLE, ring

NODES = {"layers": 2, "width": 8, "batch_size": None, "warmup": 0, "epochs": 3, "lr": 0.03, "self_loops": True}
GRAPHS = {"layers": 2, "width": 8, "batch_size": 16, "warmup": 0, "epochs": 3, "lr": 0.01}
REST = {"sick": ("group", "income", "likes_a", "likes_b"), "income": ("sick", "group", "likes_a", "likes_b")}


def in_process(run, dataset, folder, fold="test"):
    """Outputs of the engine that trained, with the weights of its best epoch."""
    engine = EagerEngine(make_fabric(run, "cpu", 1, 1), run, dataset)
    best = load_best(folder, run, dataset)
    engine.network.load_state_dict(best.state_dict())
    return engine.outputs_of(fold)[0]


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("model", ["mrs-gcn", "mrs-dir-sage"])
def test_nodes_equal_the_process(tmp_path, task, model):
    dataset, run = ring(task), Run(**WHOLE, model=model, row_normalise=True, norm="batch")
    train(run, dataset, folder=tmp_path, accelerator="cpu")
    output = gp.load(tmp_path)(dataset)
    assert output.shape == (60, dataset.num_outputs)
    assert torch.equal(output[dataset.test_mask[:, 0]], in_process(run, dataset, tmp_path))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("split", ["features", "similarity"])
def test_splits_read_the_features_before_they_are_normalised(tmp_path, monkeypatch, split, large):
    dataset, run = ring("multiclass"), Run(**WHOLE, split=split, row_normalise=True)
    train(run, dataset, folder=tmp_path, accelerator="cpu")
    monkeypatch.setattr("graphprism.training.predictor._MEMORY_SHARE", 0.0 if large else 0.5)
    output = gp.load(tmp_path)(dataset)
    torch.testing.assert_close(output[dataset.test_mask[:, 0]], in_process(run, dataset, tmp_path))


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_sampled_nodes_equal_the_process(tmp_path, task):
    dataset, run = ring(task), Run(**{**WHOLE, "neighbors": 1, "batch_size": 16}, learned_split=True)
    result = train(run, dataset, folder=tmp_path, accelerator="cpu")
    assert result.history["train_loss"][-1] < result.history["train_loss"][0]
    output = gp.load(tmp_path)(dataset)
    torch.testing.assert_close(output[dataset.test_mask[:, 0]], in_process(run, dataset, tmp_path))


@pytest.mark.parametrize(
    "run",
    [
        Run(**GRAPHS),
        Run(**GRAPHS, model="mrs-gated-gcn", norm="batch", pe=2, split="ppr"),
        Run(**GRAPHS, split="degree * attr(edge_attr)"),
    ],
)
def test_graphs_equal_the_process(tmp_path, run):
    dataset = molecules(60)
    train(run, dataset, folder=tmp_path, accelerator="cpu")
    output = gp.load(tmp_path / run.key)([dataset.graph(number) for number in range(60)])
    torch.testing.assert_close(output[dataset.subset("test")], in_process(run, dataset, tmp_path))


def test_links_equal_the_process(tmp_path):
    dataset, run = ring("link"), Run(**WHOLE)
    train(run, dataset, folder=tmp_path, accelerator="cpu")
    predictor = gp.load(tmp_path / run.key / "best.pt")
    pairs = dataset.pairs[:, dataset.subset("test")]
    assert torch.equal(predictor(dataset, pairs), in_process(run, dataset, tmp_path))
    found = predictor.predict(Data(x=dataset.x, edge_index=dataset.edge_index), pairs=pairs)
    assert found.ids[0] == tuple(str(number) for number in pairs[:, 0].tolist())
    with pytest.raises(ValueError, match="`pairs` must be"):
        predictor.predict(dataset)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([[0], [60]], r"`pairs` must hold numbers in \[0, 60\), got 60"),
        ([[0], [-1]], r"`pairs` must hold numbers in \[0, 60\), got -1"),
        ([[0, 1], [1, 2], [2, 3]], r"`pairs` must have shape \[2, R\], got \[3, 2\]"),
        ([[0.0], [1.0]], "`pairs` must"),
    ],
)
def test_predictor_refuses_pairs_of_other_nodes(pairs, words, tmp_path):
    dataset = ring("link")
    train(Run(**{**WHOLE, "epochs": 1}), dataset, folder=tmp_path, accelerator="cpu")
    predictor, given = gp.load(tmp_path), torch.tensor(pairs)
    for call in (predictor.__call__, predictor.predict):
        with pytest.raises((TypeError, ValueError), match=words):
            call(dataset, pairs=given)


@pytest.mark.parametrize("target", ["sick", "income"])
def test_files_of_nodes_to_a_csv(tmp_path, target):
    folder = write_people(tmp_path / "people")
    dataset = from_files(folder, target, drop=REST[target], scale_target=target == "income")
    run = Run(**{**NODES, "epochs": 60})
    train(run, dataset, folder=tmp_path / "out", accelerator="cpu")
    predictor = gp.load(tmp_path / "out")
    found = predictor.predict(folder)
    found.write_csv(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["person"] for row in rows] == [f"p{number}" for number in range(60)]
    expected = predictor(dataset).double()
    if target == "sick":
        assert list(rows[0]) == ["person", "prediction", "probability_yes"]
        assert [row["prediction"] for row in rows] == [
            "yes" if value > 0 else "no" for value in expected[:, 0].tolist()
        ]
        assert [float(row["probability_yes"]) for row in rows] == pytest.approx(
            expected.sigmoid()[:, 0].tolist(), rel=1e-5
        )
    else:
        pre = dataset.preprocessing
        values = (expected * pre["target_scale"] + pre["target_mean"])[:, 0].tolist()
        assert [float(row["prediction"]) for row in rows] == pytest.approx(values, rel=1e-5)
        assert 3000 < values[0] < 5500


def test_new_nodes_of_the_same_graph(tmp_path):
    old = write_people(tmp_path / "people")
    dataset = from_files(old, "sick", drop=REST["sick"])
    train(Run(**NODES), dataset, folder=tmp_path / "out", accelerator="cpu")
    nodes = "person,age,town,member\nnew,55,Ulm,1\nother,20,Mars,\n"  # a town that training never saw, a missing flag
    new = write(tmp_path / "new", nodes=nodes, edges="from,to\nnew,p3\nnew,other\n")
    found = gp.load(tmp_path / "out").predict(new, graph=old)
    assert found.ids == [("new",), ("other",)]
    assert found.notices == (
        "nodes.csv: column 'town' has 1 value that training did not, 'Mars': taken as a missing one.",
        "nodes.csv: column 'member' lacks 1 value: 0 instead.",
    )
    whole = (old / "nodes.csv").read_text() + "new,55,Ulm,1,,,,,\nother,20,Mars,,,,,,\n"
    edges = (old / "edges.csv").read_text() + "new,p3\nnew,other\n"
    both = gp.load(tmp_path / "out").predict(write(tmp_path / "whole", nodes=whole, edges=edges))
    assert torch.equal(found.scores, both.scores[60:])


def test_new_graphs_from_files(tmp_path):
    dataset = from_files(write_molecules(tmp_path / "old"), "toxic", drop=("energy",))
    train(Run(**GRAPHS), dataset, folder=tmp_path / "out", accelerator="cpu")
    new = write(
        tmp_path / "new",
        graphs="mol_id\nx\ny\n",
        nodes="mol_id,atom,element\nx,0,C\nx,1,O\nx,2,C\ny,0,C\ny,1,N\n",
        edges="mol_id,source,target,bond\nx,0,1,double\nx,1,2,single\ny,0,1,triple\n",
    )
    predictor = gp.load(tmp_path / "out")
    found = predictor.predict(new)
    assert (found.ids, found.id_names) == ([("x",), ("y",)], ("mol_id",))
    # C, O, and what training never saw; double, single, and what training never saw
    x = Data(x=torch.tensor([[0], [1], [0]]), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    x.edge_attr = torch.tensor([[0], [0], [1], [1]])
    y = Data(x=torch.tensor([[0], [2]]), edge_index=torch.tensor([[0, 1], [1, 0]]), edge_attr=torch.tensor([[2], [2]]))
    torch.testing.assert_close(found.scores, predictor([x, y]).double().sigmoid())


def test_tables_of_another_shape_are_one_sentence(tmp_path):
    folder = write_people(tmp_path / "people")
    train(Run(**NODES), from_files(folder, "sick", drop=REST["sick"]), folder=tmp_path / "out", accelerator="cpu")
    predictor = gp.load(tmp_path / "out")
    other = write(tmp_path / "other", nodes="person,town,member\np0,Ulm,1\n", edges="from,to\np0,p0\n")
    with pytest.raises(ValueError, match=r"nodes.csv: must have the column 'age', got 'person', 'town', 'member'"):
        predictor.predict(other)
    with pytest.raises(ValueError, match="nodes must have 5 features as in training, got 2"):
        predictor(Data(x=torch.rand(3, 2), edge_index=torch.tensor([[0], [1]])))


def test_scales_are_those_of_training_not_of_the_new_graph(tmp_path):
    dataset = ring("multiclass")
    train(Run(**WHOLE, row_normalise=True), dataset, folder=tmp_path, accelerator="cpu")
    part = Data(x=dataset.x[:5], edge_index=torch.zeros(2, 0, dtype=torch.long))
    alone = replace(dataset, edge_index=torch.zeros(2, 0, dtype=torch.long), edge_ptr=torch.tensor([0, 0]))
    predictor = gp.load(tmp_path)
    torch.testing.assert_close(predictor(part), predictor(alone)[:5])


def test_checkpoint_without_its_form_is_refused(tmp_path):
    from graphprism.training.checkpoint import RunFolder

    run, dataset = Run(**GRAPHS), molecules(20)
    train(run, dataset, folder=tmp_path, accelerator="cpu")
    with pytest.raises(CheckpointError, match=r"must be a best\.pt that carries the form of its data"):
        gp.load(tmp_path / run.key / "checkpoint.pt")
    folder = RunFolder(tmp_path / "old", run, "data")
    folder.write_best(1, {})
    folder.close()
    with pytest.raises(CheckpointError, match="carries the form"):
        gp.load(tmp_path / "old")


def test_wrong_weights_are_one_sentence(tmp_path):
    from graphprism.training.checkpoint import RunFolder
    from graphprism.training.data_form import form_of

    folder = RunFolder(tmp_path, Run(**GRAPHS), "data", form_of(molecules(20), Run(**GRAPHS)))
    folder.write_best(1, {"weight": torch.zeros(3)})
    folder.close()
    with pytest.raises(CheckpointError, match="the weights do not fit the network of the run"):
        gp.load(tmp_path)


def test_folder_with_several_runs_lists_them(tmp_path):
    for seed in (0, 1):
        train(Run(**GRAPHS, seed=seed), molecules(20), folder=tmp_path, accelerator="cpu")
    with pytest.raises(ValueError, match=r"has 2 runs, name one of them: .* seed 1, molecules\)"):
        gp.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no trained run"):
        gp.load(tmp_path / "nothing")


def test_class_names_of_tensors_are_their_numbers(tmp_path):
    data = Data(x=torch.rand(30, 4), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.arange(30) % 3)
    train(Run(**NODES), from_data(data), folder=tmp_path, accelerator="cpu")
    found = gp.load(tmp_path).predict(data)
    assert found.names == ("0", "1", "2")
    assert found.scores.sum(-1).tolist() == pytest.approx([1.0] * 30)


def test_relations_keep_their_numbers_on_a_graph_that_lacks_some(tmp_path):
    dataset, run = molecules(60), Run(**GRAPHS, split="attr(edge_attr)")
    train(run, dataset, folder=tmp_path, accelerator="cpu")
    predictor = gp.load(tmp_path)
    alike = [number for number in range(60) if dataset.graph(number).edge_attr.unique().numel() < 3][:3]
    assert alike
    together = predictor([dataset.graph(number) for number in range(60)])
    for number in alike:
        torch.testing.assert_close(predictor(dataset.graph(number)), together[number : number + 1])


@pytest.mark.parametrize("counted", [True, False])
def test_added_loops_keep_their_relation_on_a_graph_that_lacks_types(tmp_path, counted):
    here = torch.arange(60)
    edges = torch.cat([torch.stack([here, (here + step) % 60]) for step in (1, 2, 3)], 1)
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    data = Data(x=x, edge_index=edges, edge_attr=torch.arange(3).repeat_interleave(60), y=(x[:, 0] > 0).long())
    dataset = from_data(data, directed=True)
    dataset = dataset if counted else replace(dataset, edge_types=())
    run = Run(**{**NODES, "epochs": 20}, model="mrs-sage", split="attr(edge_attr)", start="independent")
    train(run, dataset, folder=tmp_path, accelerator="cpu")
    predictor = gp.load(tmp_path)
    # without edges of the last type, and without any edge; two more nodes with such an edge change nothing
    part = Data(x=x, edge_index=edges[:, :120], edge_attr=data.edge_attr[:120])
    with_last = Data(
        x=torch.cat([x, x[:2]]),
        edge_index=torch.cat([edges[:, :120], torch.tensor([[60], [61]])], 1),
        edge_attr=torch.cat([data.edge_attr[:120], torch.tensor([2])]),
    )
    torch.testing.assert_close(predictor(part), predictor(with_last)[:60])
    none = Data(x=x, edge_index=edges[:, :0], edge_attr=data.edge_attr[:0])
    one = Data(x=torch.cat([x, x[:2]]), edge_index=torch.tensor([[60], [61]]), edge_attr=torch.tensor([2]))
    torch.testing.assert_close(predictor(none), predictor(one)[:60])


@pytest.mark.parametrize("task", ["multiclass", "link"])
@pytest.mark.parametrize(
    "options",
    [{"model": "mrs-gcn"}, {"model": "mrs-dir-sage", "norm": "batch"}, {"model": "gat", "row_normalise": True}],
    ids=["gcn", "norm", "rows"],
)
def test_large_graph_is_predicted_layer_by_layer(tmp_path, monkeypatch, task, options):
    dataset, run = ring(task), Run(**{**WHOLE, "epochs": 2}, **options)
    train(run, dataset, folder=tmp_path, accelerator="cpu")
    predictor, pairs = gp.load(tmp_path), dataset.pairs
    whole = predictor(dataset, pairs)
    monkeypatch.setattr("graphprism.training.predictor._MEMORY_SHARE", 0.0)
    monkeypatch.setattr("graphprism.training.sampled_graph._EVALUATED_AT_ONCE", 7)
    monkeypatch.setattr("graphprism.training.predictor.WholeGraph", None)  # not built
    torch.testing.assert_close(predictor(dataset, pairs), whole)


@pytest.mark.parametrize("model", ["gine", "mrs-gcn"])
def test_graph_without_edges_may_be_alone(tmp_path, model):
    dataset = molecules(30)
    run = Run(model=model, split="attr(edge_attr)", layers=2, width=8, batch_size=16, warmup=0, epochs=1)
    train(run, dataset, folder=tmp_path, accelerator="cpu")
    graph = dataset.graph(0)
    lonely = Data(x=graph.x, edge_index=graph.edge_index[:, :0], edge_attr=graph.edge_attr[:0], y=graph.y)
    predictor = gp.load(tmp_path)
    torch.testing.assert_close(predictor.predict([lonely]).scores, predictor.predict([graph, lonely]).scores[1:])


def test_large_graph_of_a_model_without_edges_is_one_part(tmp_path, monkeypatch):
    dataset, run = ring("multiclass"), Run(**{**WHOLE, "epochs": 2}, model="mlp")
    train(run, dataset, folder=tmp_path, accelerator="cpu")
    predictor = gp.load(tmp_path)
    whole = predictor(dataset)
    monkeypatch.setattr("graphprism.training.predictor._MEMORY_SHARE", 0.0)
    assert torch.equal(predictor(dataset), whole)


def test_load_of_a_state_dict_advises_to_remove_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(torch.nn.Linear(2, 2).state_dict(), "best.pt")
    with pytest.raises(CheckpointError, match=r"`train` wrote; a state_dict .*`load_state_dict`") as caught:
        gp.load("best.pt")
    assert "remove" not in str(caught.value)
    pickled = pickle.loads(pickle.dumps(caught.value))
    assert str(pickled) == str(caught.value)


def test_load_of_runs_on_different_data_names_the_best_run_of_each(tmp_path):
    results = []
    for number, name in ((40, "small"), (60, "large")):
        for seed in (0, 1):
            run = Run(**GRAPHS, dataset=name, seed=seed)
            results.append(train(run, molecules(number), folder=tmp_path / "checkpoints", accelerator="cpu"))
            Ledger(tmp_path / "ledger.jsonl").append(results[-1])
    best = [min(pair, key=lambda each: each.at_best("val")).key for pair in (results[:2], results[2:])]
    with pytest.raises(ValueError, match=r"has runs on different data; name the best run of one") as caught:
        gp.load(tmp_path)
    for key, name in zip(best, ("small", "large"), strict=True):
        assert f"{tmp_path / 'checkpoints' / key} ({name} by mae)" in str(caught.value)
        assert gp.load(tmp_path / "checkpoints" / key).run.dataset == name


def test_measures_of_a_predictor_name_its_network(tmp_path):
    train(Run(**GRAPHS), molecules(30), folder=tmp_path, accelerator="cpu")
    predictor, graph = gp.load(tmp_path), molecules(1).graph(0)
    for measure in (gp.collapse, gp.explain):
        with pytest.raises(TypeError, match=r"a torch.nn.Module, such as its `.network`, got Predictor"):
            measure(predictor, graph)
        measure(predictor.network, gp.SplitEdges("degree")(graph))


def test_threads_share_a_predictor(tmp_path):
    dataset = molecules(60)
    train(Run(**GRAPHS), dataset, folder=tmp_path, accelerator="cpu")
    predictor = gp.load(tmp_path)
    parts = [dataset.select(range(number, 60, 7)) for number in range(7)]
    wanted = [predictor(part) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for found, alone in zip(pool.map(predictor, parts), wanted, strict=True):
                torch.testing.assert_close(found, alone)

from dataclasses import replace

import pytest
import torch

from graphprism.cli.run_training import train_runs
from graphprism.training import Run, build_model, estimate, load_best, train, train_lockstep
from graphprism.training.node_data import NodeData
from graphprism.training.sampled_graph import SampledGraph
from graphprism.training.whole_graph import WholeGraph
from tests.training.node_sets import numbers, small_links, small_run, small_set

CPU = torch.device("cpu")
SAMPLED = {"dropout": 0.0, "epochs": 4, "neighbors": -1, "batch_size": 48}


def run_of(**options) -> Run:
    return small_run(**{**SAMPLED, **options})


WHOLE = {
    **{model: {"model": model} for model in ("mrs-gcn", "mrs-sage", "gat", "mrs-dir-gcn", "mrs-dir-sage")},
    "a split for each layer": {"model": "mrs-gcn", "split": "degree; ppr"},
    "late splits": {"model": "mrs-gcn", "split_layers": "late"},
}


@pytest.mark.parametrize("name", WHOLE)
def test_all_neighbours_in_one_batch_train_as_the_whole_graph_does(name):
    run = run_of(**WHOLE[name], alpha=0.5, clip=1.0, weight_decay=0.1)
    sampled = train(run, small_set(), accelerator="cpu")
    whole = train(replace(run, neighbors=None, batch_size=None), small_set(), accelerator="cpu")
    # the score of training is of the outputs before each step here, after it there; torchmetrics counts in float32
    for name, bound in (("lr", 0), ("train_loss", 1e-10), ("val", 1e-6), ("test", 1e-6)):
        assert sampled.history[name] == pytest.approx(whole.history[name], rel=bound), name


@pytest.mark.parametrize("model", ["mrs-gcn", "sage", "mrs-dir-gcn", "mrs-gat"])
def test_few_neighbours_learn(model):
    options = {"model": model, "alpha": 0.5, "neighbors": 3, "batch_size": 8, "epochs": 15, "lr": 0.02, "jk": "cat"}
    result = train(run_of(**options, normalize=False), small_set(), accelerator="cpu")
    assert result.history["train_loss"][-1] < 0.6 * result.history["train_loss"][0]
    assert result.history["val"][-1] > 50
    assert result.engine == "eager"


def test_evaluation_takes_all_neighbours(tmp_path):
    run = run_of(neighbors=2, batch_size=8)
    result = train(run, small_set(), accelerator="cpu", folder=tmp_path)
    dataset, whole = small_set(), replace(run, neighbors=None, batch_size=None)
    model = load_best(tmp_path, run, dataset)
    data = NodeData.prepare(whole, dataset, CPU)
    out = model(data.x, data.adj)
    right = (out.argmax(1) == data.y)[dataset.val_mask[:, 0]]
    best = result.history["val"][result.best_epoch - 1]
    assert 100 * float(right.double().mean()) == pytest.approx(best, rel=1e-6)


def test_sampled_run_is_repeatable_and_goes_on(tmp_path):
    run = run_of(neighbors=2, batch_size=8, dropout=0.2, input_dropout=True)
    first, second = (numbers(train(run, small_set(), accelerator="cpu")) for _ in range(2))
    assert first == second
    with pytest.raises(KeyboardInterrupt):
        train(run, small_set(), accelerator="cpu", folder=tmp_path, on_epoch=interrupt_at(2))
    assert numbers(train(run, small_set(), accelerator="cpu", folder=tmp_path)) == first
    assert numbers(train(replace(run, seed=1), small_set(), accelerator="cpu")) != first
    (together,) = train_lockstep([run], small_set(), accelerator="cpu")
    assert numbers(together) == first


def interrupt_at(epoch):
    def on_epoch(report):
        if report.epoch == epoch:
            raise KeyboardInterrupt

    return on_epoch


@pytest.mark.parametrize("options", [{}, {"norm": "batch"}, {"model": "mrs-gcn"}], ids=["directed", "norm", "shared"])
def test_parts_of_a_batch_have_the_outputs_of_the_whole(options):
    run = run_of(neighbors=2, batch_size=16, jk="cat", **options)
    dataset = small_set()
    model = build_model(run, dataset).double().eval()
    data = SampledGraph(run, dataset, CPU)
    assert data.sampler.disjoint == (options != {"model": "mrs-gcn"})
    nodes = data.subset("train")

    def outputs(ranks):
        found = torch.zeros(nodes.numel(), 3, dtype=torch.float64)
        for rank in range(ranks):
            for batch in data.batches(nodes, 16, rank, ranks, epoch=3):
                found[batch.rows] = model(**batch.inputs)
                assert torch.equal(batch.y, data.targets(nodes[batch.rows]))
        return found

    for ranks in (2, 5):
        torch.testing.assert_close(outputs(ranks), outputs(1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("model", ["mrs-gcn", "mrs-dir-sage", "gat"])
def test_links_with_all_neighbours_in_one_batch_train_as_on_the_whole_graph(model):
    run = run_of(model=model, alpha=0.5, jk="cat", normalize=False, batch_size=10_000)
    sampled = train(run, small_links(), accelerator="cpu")
    whole = train(replace(run, neighbors=None, batch_size=None), small_links(), accelerator="cpu")
    for name in ("train_loss", "train", "val", "test"):
        assert sampled.history[name] == pytest.approx(whole.history[name], rel=1e-6), name


def test_links_with_few_neighbours_learn():
    run = run_of(model="mrs-sage", jk=None, neighbors=3, batch_size=32, epochs=20, lr=0.02, normalize=False)
    result = train(run, small_links(), accelerator="cpu")
    assert result.history["train_loss"][-1] < 0.9 * result.history["train_loss"][0]
    again = train(run, small_links(), accelerator="cpu")
    assert numbers(result) == numbers(again)


def test_sampled_links_of_an_epoch_are_those_of_the_whole_graph_in_another_order():
    run, dataset = run_of(model="mrs-gcn", neighbors=2, batch_size=32), small_links()
    sampled = SampledGraph(run, dataset, CPU)
    whole = WholeGraph(replace(run, neighbors=None, batch_size=None), dataset)
    rows, expected = sampled.training_rows(2), whole.training_rows(2)
    assert not torch.equal(rows, expected)
    assert torch.equal(rows.sort().values, expected.sort().values)
    assert torch.equal(sampled.nodes(expected), whole.nodes(expected))
    assert int(sampled.targets(rows).sum()) == dataset.subset("train").numel() == rows.numel() // 2
    # the graph that is sampled has no edge of validation or test
    held = dataset.pairs[:, torch.cat([dataset.subset("val"), dataset.subset("test")])]
    held = held[:, dataset.y[torch.cat([dataset.subset("val"), dataset.subset("test")])][:, 0] > 0]
    edges = {tuple(pair) for pair in sampled.adjs[0].edge_index.T.tolist()}
    assert edges.isdisjoint({tuple(pair) for pair in held.T.tolist()})
    for batch in sampled.batches(rows, 32, 0, 1, epoch=2):
        assert batch.x.size(0) == sum(batch.nodes)
        assert batch.nodes[0] < 2 * batch.total  # an end of several pairs is a seed once


@pytest.mark.parametrize("options", [{}, {"norm": "batch"}, {"model": "mrs-gcn"}], ids=["directed", "norm", "shared"])
def test_parts_of_a_batch_of_links_have_the_outputs_of_the_whole(options):
    run = run_of(neighbors=2, batch_size=50, jk="cat", **options)
    dataset = small_links()
    model = build_model(run, dataset).double().eval()
    data = SampledGraph(run, dataset, CPU)
    rows = data.training_rows(3)

    def outputs(ranks):
        found = torch.zeros(rows.numel(), 1, dtype=torch.float64)
        for rank in range(ranks):
            for batch in data.batches(rows, 50, rank, ranks, epoch=3):
                found[batch.rows] = batch.read(model(**batch.inputs))
                assert torch.equal(batch.y, data.targets(rows[batch.rows]))
        return found

    for ranks in (2, 5):
        torch.testing.assert_close(outputs(ranks), outputs(1), rtol=1e-12, atol=1e-12)


def test_what_cannot_be_sampled_of_links_is_said():
    dataset = small_links()
    with pytest.raises(
        ValueError, match="`batch_size` must be a number of pairs with `neighbors` for targets of links"
    ):
        train(run_of(batch_size=None), dataset, accelerator="cpu")
    with pytest.raises(
        ValueError, match="`batch_size` must be None \\(the whole graph\\) for targets of links, got 48"
    ):
        train(run_of(neighbors=None), dataset, accelerator="cpu")
    with pytest.raises(ValueError, match="`devices` must be 1 for targets of links on the whole graph"):
        train(run_of(neighbors=None, batch_size=None), dataset, accelerator="cpu", devices=2)
    with pytest.raises(ValueError, match="a pair of every batch with batch normalisation, got 89 for 268 pairs, whose"):
        train(run_of(norm="batch", batch_size=89), dataset, accelerator="cpu", devices=2)


@pytest.mark.parametrize("model", ["gpr-gnn", "glognn", "h2gcn"])
def test_baselines_are_not_sampled(model):
    run = run_of(model=model, jk=None, normalize=False)
    with pytest.raises(ValueError, match=f"must be a convolution of this package with `neighbors`, got '{model}'"):
        train(run, small_set(), accelerator="cpu")
    with pytest.raises(ValueError, match=f"must be a convolution of this package with `neighbors`, got '{model}'"):
        estimate(run, small_set(), accelerator="cpu")


@pytest.mark.parametrize("remedy", ["gcnii", "pairnorm", "dropedge"])
def test_remedies_are_not_sampled(remedy):
    run = run_of(model="gcn", remedy=remedy, jk=None, normalize=False, encode=True)
    with pytest.raises(ValueError, match=f"`neighbors` must be None with the remedy {remedy}, got -1"):
        train(run, small_set(), accelerator="cpu")


def test_what_cannot_be_sampled_is_said():
    dataset = small_set()
    with pytest.raises(
        ValueError, match="`batch_size` must be a number of nodes with `neighbors` for targets of nodes"
    ):
        train(run_of(batch_size=None), dataset, accelerator="cpu")
    with pytest.raises(
        ValueError, match="`batch_size` must be None \\(the whole graph\\) for targets of nodes, got 48"
    ):
        train(run_of(neighbors=None), dataset, accelerator="cpu")
    with pytest.raises(ValueError, match="must be a convolution of this package with `neighbors`, got 'pyg-gcn'"):
        train(run_of(model="pyg-gcn"), dataset, accelerator="cpu")
    with pytest.raises(ValueError, match="`neighbors` must be None with gat-degree, which reads the degrees of all"):
        train(run_of(model="gat-degree"), dataset, accelerator="cpu")
    with pytest.raises(ValueError, match="`neighbors` must be None, -1 for all, or at least 1, got 0"):
        run_of(neighbors=0)
    with pytest.raises(ValueError, match="`devices` must be 1 for targets of nodes on the whole graph"):
        train(run_of(neighbors=None, batch_size=None), dataset, accelerator="cpu", devices=2)
    with pytest.raises(ValueError, match="a node of every batch with batch normalisation, got 23 for"):
        train(run_of(norm="batch", batch_size=23), dataset, accelerator="cpu", devices=2)


def test_key_of_a_run_without_neighbours_stays():
    assert small_run().key == Run.from_dict({k: v for k, v in small_run().to_dict().items() if k != "neighbors"}).key
    assert run_of().title == "mrs-dir-gcn by degree, 2 layers, jk max, lr 0.01, all neighbours, fold 0, seed 0, small"


def test_neighbors_is_an_option_of_the_command_line():
    options = {"model": "mrs-gcn", "seeds": "0", "folds": "0", "neighbors": 5, "batch_size": 64, "dataset": "small"}
    (run,) = train_runs(options, small_set())
    assert (run.neighbors, run.batch_size) == (5, 64)

"""Runs on weighted edges: against plain networks of PyG, and by laws over all models."""

import warnings
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_add_pool
from torch_geometric.nn.conv.gcn_conv import gcn_norm

import graphprism as gp
from graphprism.datasets import PackedDataset, from_data, read, save
from graphprism.nn import CONVOLUTIONS, MRSSAGEConv
from graphprism.nn.models import BASELINES
from graphprism.ops.batched.padded_adj import PaddedAdj
from graphprism.training import Run, train, train_lockstep
from graphprism.training.build_model import build_model
from graphprism.training.data_form import form_of
from graphprism.training.edge_weights import run_weights
from graphprism.training.predictor import Predictor
from graphprism.training.prepared_data import PreparedDataset, split_graphs
from graphprism.training.run_splits import run_edges, run_splits, split_input
from graphprism.training.train import check_run, why_not_lockstep
from tests.training.captured_cases import make_engine, trained
from tests.training.node_sets import small_links, small_set

PLAIN = {
    "layers": 2, "width": 6, "optimizer": "adam", "schedule": "constant", "warmup": 0, "clip": 0.0, "lr": 0.01,
    "epochs": 3, "precision": "float64", "start": "independent",
}  # fmt: skip
# Written out, so that no rule of the package decides what is tested.
WEIGHTED = (
    *("gcn", "mrs-gcn", "sage", "mrs-sage", "gat", "mrs-gat", "gin", "mrs-gin", "gated-gcn", "mrs-gated-gcn"),
    *("mrs-gated-gcn-9", "gcne", "mrs-gcne", "gine", "mrs-gine", "gat-degree", "lmgc", "dir-gcn", "mrs-dir-gcn"),
    *("dir-sage", "mrs-dir-sage", "dir-gat", "mrs-dir-gat", "pyg-gcn"),
)
SIGNED = ("gin", "mrs-gin", "gcne", "mrs-gcne", "gine", "mrs-gine", "lmgc")
ATTR = "attr(edge_attr)"


def node_run(model: str = "gcn", **options) -> Run:
    return Run("small", model, **{**PLAIN, "batch_size": None, "split": ATTR, **options})


def graph_run(model: str = "gcn", **options) -> Run:
    return Run("own", model, **{**PLAIN, "batch_size": 8, "split": ATTR, **options})


def losses(run: Run, dataset: PackedDataset) -> list[float]:
    return train(run, dataset, accelerator="cpu", engine="eager").history["train_loss"]


def node_set(**weights) -> PackedDataset:
    """The small set with types of edges, which do not depend on how often an edge is there."""
    found = small_set()
    return replace(found, edge_attr=(found.edge_index.sum(0) % 2)[:, None], edge_types=(2,), **weights)


def weighted_nodes(top: int = 4) -> PackedDataset:
    """The small set with whole weights in [1, top)."""
    draw = torch.Generator().manual_seed(1)
    return node_set(edge_weight=torch.randint(1, top, (192,), generator=draw).double())


def own_graphs(count: int = 24, directed: bool = False) -> list[Data]:
    draw, found = torch.Generator().manual_seed(2), []
    for number in range(count):
        size = 4 + number % 3
        way = torch.stack([torch.arange(size), (torch.arange(size) + 1) % size])
        edges = way if directed else torch.cat([way, way.flip(0)], 1)
        weight = torch.randint(1, 4, (edges.size(1),), generator=draw).double()
        x = torch.rand(size, 3, generator=draw)
        one = Data(x=x, edge_index=edges, edge_weight=weight, y=torch.rand(1, generator=draw))
        found.append(one)
    return found


def graph_set(graphs: list[Data]) -> PackedDataset:
    whole = torch.cat([each.edge_weight for each in graphs])
    plain = from_data([Data(x=each.x, edge_index=each.edge_index, y=each.y) for each in graphs], directed=True)
    return replace(plain, edge_weight=whole)


def repeated(dataset: PackedDataset) -> PackedDataset:
    """Every edge as often as its weight says, without weights."""
    assert dataset.edge_weight is not None
    times = dataset.edge_weight.long()
    owner = torch.arange(len(dataset)).repeat_interleave(dataset.edge_ptr.diff())
    edges = torch.bincount(owner.repeat_interleave(times), minlength=len(dataset))
    return replace(
        dataset,
        edge_index=dataset.edge_index.repeat_interleave(times, 1),
        edge_attr=None if dataset.edge_attr is None else dataset.edge_attr.repeat_interleave(times, 0),
        edge_ptr=torch.cat([edges.new_zeros(1), edges.cumsum(0)]),
        edge_weight=None,
    )


class PyGNodes(torch.nn.Module):
    """Two layers of PyG's GCN on weighted edges."""

    def __init__(self, loops: bool) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([GCNConv(i, o, add_self_loops=loops) for i, o in ((7, 6), (6, 3))])

    def forward(self, x, edge_index, edge_weight):
        return self.convs[1](self.convs[0](x, edge_index, edge_weight).relu(), edge_index, edge_weight)


def copy_convs(network, ours) -> None:
    with torch.no_grad():
        for conv, own in zip(network.convs, ours.convs, strict=True):
            conv.lin.weight.copy_(own.lin().squeeze(0).T if hasattr(own.lin, "mixture") else own.lin.weight)
            conv.bias.copy_(own.bias)


def steps(network, loss, count: int = 3) -> list[float]:
    optimizer, found = torch.optim.Adam(network.parameters(), lr=0.01), []
    for _ in range(count):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        found.append(value.item())
    return found


@pytest.mark.parametrize("metric", [None, "f1"])  # by the engine of many runs, and by the eager one
@pytest.mark.parametrize(("model", "options", "loops"), [
    ("gcn", {}, False), ("gcn", {"self_loops": True}, True), ("pyg-gcn", {}, True),
])  # fmt: skip
def test_gcn_on_nodes_equals_a_network_of_pyg(model, options, loops, metric) -> None:
    draw = torch.Generator().manual_seed(3)
    dataset = node_set(edge_weight=torch.rand(192, generator=draw, dtype=torch.float64))
    run = node_run(model, metric=metric, **options)
    network = PyGNodes(loops).double()
    copy_convs(network, build_model(run, dataset))
    x, mask = dataset.x.double(), dataset.train_mask[:, 0]

    def loss():
        out = network(x, dataset.edge_index, dataset.edge_weight)
        return torch.nn.functional.cross_entropy(out[mask], dataset.y[mask])

    expected = steps(network, loss)
    torch.testing.assert_close(torch.tensor(losses(run, dataset)), torch.tensor(expected), rtol=1e-12, atol=0)
    # the weights matter
    assert losses(run, replace(dataset, edge_weight=None))[0] != pytest.approx(expected[0], rel=1e-4)


def test_gcn_on_graphs_equals_a_network_of_pyg() -> None:
    graphs = own_graphs()
    for each in graphs:
        each.edge_weight = each.edge_weight / 3
    dataset, run = graph_set(graphs), graph_run(batch_size=None, head_layers=1)
    ours = build_model(run, dataset).double()
    parts = [torch.nn.Linear(3, 6), torch.nn.Linear(6, 1)]
    for part, own in zip(parts, (ours.encoder, ours.head), strict=True):
        part.load_state_dict(own.state_dict())
    network = torch.nn.Module()
    network.convs = torch.nn.ModuleList([GCNConv(6, 6, add_self_loops=False) for _ in range(2)])
    network.parts = torch.nn.ModuleList(parts)
    network.double()
    copy_convs(network, ours)
    batch = dataset.batch(dataset.subset("train"))
    weight = torch.cat([graphs[number].edge_weight for number in dataset.subset("train")])

    def loss():
        h = network.parts[0](batch.x.double())
        for conv in network.convs:
            h = conv(h, batch.edge_index, weight).relu()
        return (network.parts[1](global_add_pool(h, batch.batch)) - batch.y.double()).abs().mean()

    expected = steps(network, loss)
    torch.testing.assert_close(torch.tensor(losses(run, dataset)), torch.tensor(expected), rtol=1e-12, atol=0)


def test_mrs_gcn_normalises_over_all_relations_on_top_of_weights() -> None:
    draw = torch.Generator().manual_seed(3)
    dataset = node_set(edge_weight=torch.rand(192, generator=draw, dtype=torch.float64))
    run = node_run("mrs-gcn")
    weights = [(each.lin().detach().double(), each.bias.detach().double()) for each in build_model(run, dataset).convs]
    types, source, target = dataset.edge_attr[:, 0], *dataset.edge_index
    _, share = gcn_norm(dataset.edge_index, dataset.edge_weight, 48, add_self_loops=False)
    h = dataset.x.double()
    for number, (weight, bias) in enumerate(weights):
        rows = torch.einsum("e,ef,efo->eo", share, h[source], weight[types])
        h = bias + torch.zeros(48, rows.size(1), dtype=torch.double).index_add(0, target, rows)
        h = h if number else h.relu()
    mask = dataset.train_mask[:, 0]
    expected = torch.nn.functional.cross_entropy(h[mask], dataset.y[mask]).item()
    assert losses(run, dataset)[0] == pytest.approx(expected, rel=1e-12)


def test_sage_takes_a_weighted_mean_by_hand() -> None:
    dataset = replace(weighted_nodes(), train_mask=torch.ones(48, 3).bool())
    run = node_run("sage", layers=1, epochs=1)
    (conv,) = build_model(run, dataset).double().convs
    source, target = dataset.edge_index
    weight, x = dataset.edge_weight, dataset.x.double()
    total = torch.zeros(48, dtype=torch.double).index_add(0, target, weight).clamp(min=1e-9)
    mean = torch.zeros_like(x).index_add(0, target, weight[:, None] * x[source]) / total[:, None]
    out = mean @ conv.lin()[0] + conv.lin_root(x) + conv.bias
    assert losses(run, dataset)[0] == pytest.approx(torch.nn.functional.cross_entropy(out, dataset.y).item())


# gat-degree counts edges, too; pyg-gcn replaces all loops of a node by one
@pytest.mark.parametrize("model", [each for each in WEIGHTED if each not in ("gat-degree", "pyg-gcn")])
def test_an_edge_of_weight_w_counts_as_w_edges(model: str) -> None:
    dataset = weighted_nodes()
    expected, plain = (losses(node_run(model), each) for each in (repeated(dataset), node_set()))
    torch.testing.assert_close(torch.tensor(losses(node_run(model), dataset)), torch.tensor(expected))
    assert expected[0] != pytest.approx(plain[0], rel=1e-5)


def test_all_convolutions_that_take_weights_are_tested() -> None:
    assert {name for name, conv in CONVOLUTIONS.items() if conv.takes_edge_weight} == {*WEIGHTED}
    assert {name for name, conv in CONVOLUTIONS.items() if conv.takes_signed_weight} == {*SIGNED}
    assert not any(each.takes_edge_weight for each in BASELINES.values())


@pytest.mark.parametrize("model", [each for each in WEIGHTED if "mrs" not in each and each != "gat-degree"])
def test_an_edge_of_weight_w_counts_as_w_edges_in_graphs(model: str) -> None:
    dataset, run = graph_set(own_graphs()), graph_run(model)
    torch.testing.assert_close(torch.tensor(losses(run, dataset)), torch.tensor(losses(run, repeated(dataset))))


@pytest.mark.parametrize("split", ["degree", "degree; ppr"])
def test_weights_of_one_are_the_same_as_none_on_graphs(split: str) -> None:
    dataset, run = graph_set(own_graphs()), graph_run("mrs-gcn", split=split)
    ones = replace(dataset, edge_weight=torch.ones_like(dataset.edge_weight))
    expected = losses(run, replace(dataset, edge_weight=None))
    torch.testing.assert_close(torch.tensor(losses(run, ones)), torch.tensor(expected))


@pytest.mark.parametrize(
    "options",
    [{"undirected": True}, {"self_loops": True}, {"undirected": True, "self_loops": True}, {"split": "soft(degree)"}],
)
@pytest.mark.parametrize("model", ["mrs-gcn", "dir-sage", "gat-degree"])
def test_weights_of_one_are_the_same_as_none_on_nodes(model: str, options) -> None:
    run, ones = node_run(model, **{"split": "degree", **options}), torch.ones(192)
    expected = losses(run, node_set())
    torch.testing.assert_close(torch.tensor(losses(run, node_set(edge_weight=ones))), torch.tensor(expected))


def test_weights_of_added_edges_by_hand() -> None:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 2]])
    dataset = replace(small_set(), edge_index=edges, edge_weight=torch.tensor([1.0, 3.0, 5.0, 7.0]))

    def found(**options):
        run = node_run(**options)
        ends = zip(*run_edges(run, dataset).tolist(), strict=True)
        return dict(zip(ends, run_weights(run, dataset, torch.float64).tolist(), strict=True))

    assert found() == {(0, 1): 1, (1, 0): 3, (1, 2): 5, (2, 2): 7}
    assert found(undirected=True) == {(0, 1): 2, (1, 0): 2, (1, 2): 5, (2, 1): 5, (2, 2): 7}
    loops = found(self_loops=True)
    assert {edge: weight for edge, weight in loops.items() if edge[0] != edge[1]} == {(0, 1): 1, (1, 0): 3, (1, 2): 5}
    assert (loops[2, 2], loops[0, 0], loops[47, 47], len(loops)) == (7, 1, 1, 51)


@pytest.mark.parametrize("remedy", ["gcnii", "pairnorm", "fagcn", "a-dgn", "g2"])
def test_remedies_take_weights(remedy: str) -> None:
    run = node_run("gcn", remedy=remedy, encode=True)
    dataset = weighted_nodes()
    found = losses(run, dataset)
    expected = losses(run, repeated(dataset))
    if remedy == "g2":  # its gate counts edges
        assert found != expected
    else:
        torch.testing.assert_close(torch.tensor(found), torch.tensor(expected))


def test_splits_do_not_depend_on_weights() -> None:
    dataset, run = weighted_nodes(), node_run("mrs-gcn", split="degree, ppr")
    plain = replace(dataset, edge_weight=None)
    found = [run_splits(run, each)[0](split_input(run, each)) for each in (dataset, plain)]
    assert torch.equal(*found)


# batches with batch norm, and degrees within a batch, differ from the whole graph also without weights
@pytest.mark.parametrize(
    "model", [each for each in WEIGHTED if "gated" not in each and each not in ("gat-degree", "pyg-gcn")]
)
def test_batches_of_all_neighbours_equal_the_whole_graph(model: str) -> None:
    dataset = weighted_nodes()
    whole = node_run(model, metric="f1")
    sampled = replace(whole, neighbors=-1, batch_size=48)
    first, second = (train(run, dataset, accelerator="cpu", engine="eager") for run in (whole, sampled))
    torch.testing.assert_close(*(torch.tensor(each.history["train_loss"]) for each in (first, second)))
    torch.testing.assert_close(*(torch.tensor(each.history["val"]) for each in (first, second)))


@pytest.mark.parametrize("model", ["gcn", "mrs-sage", "mrs-dir-sage", "gin"])
def test_sampled_neighbours_carry_weights(model: str) -> None:
    """Of two neighbours of each node: weights change the loss, and weights of one are none."""
    dataset, run = weighted_nodes(), node_run(model, neighbors=2, batch_size=16)
    found, plain = losses(run, dataset), losses(run, replace(dataset, edge_weight=None))
    assert found[0] != pytest.approx(plain[0], rel=1e-4)
    ones = losses(run, replace(dataset, edge_weight=torch.ones(192)))
    torch.testing.assert_close(torch.tensor(ones), torch.tensor(plain))


def test_links_take_weights() -> None:
    dataset = small_links()
    weight = 0.5 + dataset.edge_index.sum(0) % 3
    run = Run("links", "gcn", **{**PLAIN, "batch_size": None})
    ones, found, plain = (
        losses(run, replace(dataset, edge_weight=each)) for each in (torch.ones_like(weight), weight, None)
    )
    torch.testing.assert_close(torch.tensor(ones), torch.tensor(plain))
    assert found[0] != pytest.approx(plain[0], rel=1e-4)


@pytest.mark.parametrize(
    "options", [{}, {"self_loops": True}, {"undirected": True}, {"neighbors": -1, "batch_size": 16}]
)
def test_predictions_on_nodes_are_those_of_the_evaluation(tmp_path, options) -> None:
    dataset, run = weighted_nodes(), node_run("mrs-gcn", **{"split": "degree", **options})
    result = train(run, dataset, folder=tmp_path, accelerator="cpu")
    save(dataset, tmp_path / "own.npz")
    predictor, mask = gp.load(tmp_path / run.key), dataset.test_mask[:, 0]
    out = predictor(read(tmp_path / "own.npz"))
    right = (out.argmax(1) == dataset.y)[mask]
    assert 100 * right.double().mean().item() == pytest.approx(result.at_best("test"))
    graph = Data(
        x=dataset.x, edge_index=dataset.edge_index, edge_attr=dataset.edge_attr, edge_weight=dataset.edge_weight
    )
    torch.testing.assert_close(predictor(graph), out)
    graph.edge_weight = torch.ones(192)
    assert not torch.allclose(predictor(graph), out)


@pytest.mark.parametrize("model", ["gcn", "mrs-gcn", "gin"])
def test_predictions_on_graphs_are_those_of_the_evaluation(tmp_path, model: str) -> None:
    graphs = own_graphs()
    dataset, run = graph_set(graphs), graph_run(model, split="degree")
    result = train(run, dataset, folder=tmp_path, accelerator="cpu")
    predictor, test = gp.load(tmp_path / run.key), dataset.subset("test")
    error = (predictor([graphs[number] for number in test]) - dataset.y[test].double()).abs().mean()
    assert error.item() == pytest.approx(result.at_best("test"))


def test_a_predictor_needs_weights_where_training_had_them(tmp_path) -> None:
    dataset, run = weighted_nodes(), node_run("gcn")
    train(run, dataset, folder=tmp_path, accelerator="cpu")
    with pytest.raises(ValueError, match=r"edges must have weights as in training \(`edge_weight`\), got none"):
        gp.load(tmp_path / run.key)(node_set())
    with pytest.raises(ValueError, match="`edge_weight` must not be negative with gcn"):
        gp.load(tmp_path / run.key)(replace(dataset, edge_weight=-torch.ones(192)))


def test_a_predictor_ignores_weights_that_training_did_not_have() -> None:
    run, plain = node_run("gcn"), node_set()
    form = form_of(plain, run)
    assert form.pop("edge_weight") is False  # checkpoints from before do not have it
    predictor = Predictor(run, form, build_model(run, plain).state_dict())
    assert torch.equal(predictor(weighted_nodes()), predictor(plain))
    notice = "The `edge_weight` of the edges is ignored: the run was trained without."
    assert notice in predictor.predict(weighted_nodes()).notices
    assert notice not in predictor.predict(plain).notices


@pytest.mark.parametrize("model", ["mlp", "pyg-rgcn"])
def test_models_without_weights_ignore_them(model: str) -> None:
    run = node_run(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = train(run, weighted_nodes(), accelerator="cpu").history["train_loss"]
    assert found == train(run, node_set(), accelerator="cpu").history["train_loss"]
    told = [str(each.message) for each in caught]
    assert told == (
        [] if model == "mlp" else ["the `edge_weight` of small is ignored: pyg-rgcn takes edges without weights"]
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"model": "gpr-gnn"}, "gpr-gnn takes edges without weights"),
        (
            {"model": "gcn", "remedy": "dropedge", "encode": True},
            "dropedge computes the weights of the edges that it keeps",
        ),
    ],
)
def test_networks_without_weights_say_so(options, reason: str) -> None:
    run = node_run(**options)
    for call in (train, lambda *args, **more: train_lockstep([args[0]], *args[1:], **more)):
        with pytest.warns(UserWarning, match=f"the `edge_weight` of small is ignored: {reason}"):
            call(run, weighted_nodes(), accelerator="cpu")


@pytest.mark.parametrize("model", WEIGHTED)
def test_negative_weights_are_for_models_that_sum(model: str) -> None:
    dataset, run = replace(weighted_nodes(), edge_weight=-torch.ones(192)), node_run(model, epochs=1)
    if model in SIGNED:
        assert train(run, dataset, accelerator="cpu").status == "finished"
        return
    for call in (check_run, train, lambda *args: train_lockstep([args[0]], args[1])):
        with pytest.raises(ValueError, match=f"`edge_weight` must not be negative with {model}, .*, got -1; .*gin"):
            call(run, dataset)


def test_lockstep_on_graphs_leaves_weights_to_the_eager_engine() -> None:
    dataset, run = graph_set(own_graphs()), graph_run()
    assert why_not_lockstep(run, dataset) == "lockstep on graphs takes edges without weights"
    assert not why_not_lockstep(run, replace(dataset, edge_weight=None))
    (result,) = train_lockstep([run], dataset, accelerator="cpu")
    assert (result.engine, result.history["train_loss"]) == ("eager", losses(run, dataset))


def test_runs_on_nodes_side_by_side_take_weights() -> None:
    dataset, runs = weighted_nodes(), [node_run("mrs-gcn", seed=seed) for seed in (0, 1)]
    results = train_lockstep(runs, dataset, accelerator="cpu")
    assert [each.history["train_loss"] for each in results] == [losses(run, dataset) for run in runs]


def test_a_zero_weight_is_no_edge() -> None:
    dataset = weighted_nodes()
    weight = dataset.edge_weight * (torch.arange(192) % 3 > 0)
    kept = weight > 0
    fewer = replace(
        dataset,
        edge_index=dataset.edge_index[:, kept],
        edge_attr=dataset.edge_attr[kept],
        edge_weight=weight[kept],
        edge_ptr=torch.tensor([0, int(kept.sum())]),
    )
    for model in ("mrs-gcn", "sage", "gat", "gin", "gated-gcn", "dir-sage"):
        found, expected = (losses(node_run(model), each) for each in (replace(dataset, edge_weight=weight), fewer))
        torch.testing.assert_close(torch.tensor(found), torch.tensor(expected))


@pytest.mark.parametrize("model", ["gcn", "mrs-gcn", "dir-sage", "gat", "gin"])
def test_captured_steps_carry_weights(model: str) -> None:
    dataset, run = graph_set(own_graphs()), graph_run(model, split="degree")
    plain, captured = (trained(make_engine(run, captures, dataset=dataset)) for captures in (False, True))
    torch.testing.assert_close(captured[0], plain[0])
    torch.testing.assert_close(captured[1]["model"], plain[1]["model"])


@pytest.mark.parametrize("model", ["gcn", "mrs-gcn"])
def test_tables_of_a_gpu_carry_weights(model: str) -> None:
    dataset, run = graph_set(own_graphs()), graph_run(model, split="degree")
    network, plain, tables = build_model(run, dataset).double(), *(PreparedDataset(run, dataset) for _ in range(2))
    (adj,) = split_graphs(run, dataset, dataset.batch(torch.arange(len(dataset))))
    tables._table = PaddedAdj.build(adj, "sym", torch.float64).relative()
    for one, other in zip(plain.batches(torch.arange(24), 7), tables.batches(torch.arange(24), 7), strict=True):
        assert isinstance(other.adj, PaddedAdj)
        torch.testing.assert_close(network(**other.inputs), network(**one.inputs))


def test_sage_conv_divides_given_weights_by_their_sum() -> None:
    edges, weight = torch.tensor([[0, 1, 2], [2, 2, 0]]), torch.tensor([1.0, 3.0, 5.0])
    x = torch.tensor([[4.0], [8.0], [16.0]])
    options = {"num_relations": 1, "root_weight": False, "bias": False}
    convs = [MRSSAGEConv(1, 1, weighted_mean=flag, **options) for flag in (False, True)]
    scale = [conv.lin().item() for conv in convs]
    found = [(conv(x, edges, None, weight) / by).flatten().tolist() for conv, by in zip(convs, scale, strict=True)]
    assert found == [pytest.approx([80.0, 0.0, 28.0]), pytest.approx([16.0, 0.0, 7.0])]
    assert convs[1](x, edges).div(scale[1]).flatten().tolist() == pytest.approx([16.0, 0.0, 6.0])

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

import graphprism as gp
from graphprism.datasets import from_data, read, save
from graphprism.datasets.folds import draw_folds, parse_folds
from graphprism.datasets.from_data import from_pyg_class, parse_call
from graphprism.training import Run, train
from tests.training.test_targets import WHOLE

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def graph(y, **more):
    return Data(x=torch.rand(len(y), 3), edge_index=EDGES, y=y, **more)


@pytest.mark.parametrize(
    ("y", "task", "shape"),
    [
        (torch.arange(30) % 3, "multiclass", (30,)),
        (torch.arange(30) % 2, "binary", (30, 1)),
        (torch.rand(30), "regression", (30, 1)),
        (torch.arange(60).view(30, 2) % 3 // 2, "multilabel", (30, 2)),
    ],
)
def test_one_graph_with_targets_of_nodes(tmp_path, y, task, shape):
    dataset = from_data(graph(y))
    assert (dataset.level, dataset.task, tuple(dataset.y.shape)) == ("node", task, shape)
    save(dataset, tmp_path / "set.npz")
    assert read(tmp_path / "set.npz").task == task


def test_masks_that_are_left_out_are_named():
    mask = torch.arange(40) % 3 == 0
    some = graph(torch.arange(40) // 3 % 2, train_mask=mask, test_mask=~mask)
    with pytest.warns(UserWarning, match="`train_mask` and `test_mask` left out, .* as there is no `val_mask`"):
        dataset = from_data(some)
    assert int((dataset.train_mask & ~mask[:, None]).sum())  # why: test nodes are trained on
    with pytest.warns(UserWarning, match="`train_mask` left out, .* as there is no `val_mask` and `test"):
        from_pyg_class("pyg:KarateClub", None)


def test_nodes_in_two_masks_are_counted():
    mask = torch.arange(40) % 3
    twice = {"train_mask": mask == 0, "val_mask": mask <= 1, "test_mask": mask == 2}
    with pytest.warns(UserWarning, match="14 nodes in two of `train_mask`, `val_mask` and `test_mask`: scores leak"):
        from_data(graph(torch.arange(40) // 3 % 2, **twice))


def test_masks_of_the_graph_are_its_folds():
    mask = torch.arange(9) % 3
    masks = {"train_mask": mask == 0, "val_mask": mask == 1, "test_mask": mask == 2}
    dataset = from_data(graph(torch.arange(9) // 3 % 2, **masks))
    assert torch.equal(dataset.test_mask, masks["test_mask"][:, None])


def test_a_mask_that_is_given_once_is_that_of_every_fold():
    fold = torch.arange(30) % 3
    masks = {"train_mask": (fold == 0)[:, None].repeat(1, 4), "val_mask": (fold == 1)[:, None].repeat(1, 4)}
    dataset = from_data(graph(torch.arange(30) // 3 % 2, **masks, test_mask=fold == 2))
    assert torch.equal(dataset.test_mask, (fold == 2)[:, None].repeat(1, 4))
    train(Run(**WHOLE, fold=3), dataset, accelerator="cpu")
    masks["val_mask"] = masks["val_mask"][:, :2]
    with pytest.raises(
        ValueError, match="`train_mask`, `val_mask`, `test_mask` must have one number of folds, got 4, 2, 1"
    ):
        from_data(graph(torch.arange(30) // 3 % 2, **masks, test_mask=fold == 2))


@pytest.mark.parametrize("sizes", [(10, 10, 10), (4, 7, 5)])
@pytest.mark.parametrize("targets", [(), (2,)])
def test_targets_of_nodes_of_several_graphs_need_one_graph(sizes, targets):
    graphs = [graph(torch.randint(2, (size, *targets))) for size in sizes]
    with pytest.raises(
        ValueError, match=r"got a row for every node in all of them: .*`from_data\(Batch.from_data_list"
    ):
        from_data(graphs)
    dataset = from_data(Batch.from_data_list(graphs))
    assert (dataset.level, dataset.x.size(0)) == ("node", sum(sizes))
    for one in graphs:
        one.y = torch.rand(1, 2)  # targets of graphs
    assert from_data(graphs, task="regression").y.shape == (3, 2)


def test_a_list_of_one_graph_is_that_graph():
    one = graph(torch.arange(30) % 3)
    assert torch.equal(from_data([one]).y, from_data(one).y)
    with pytest.raises(ValueError, match="`y` must have at least two values"):
        from_data([graph(torch.zeros(30))])


def test_missing_target_is_nan():
    y = torch.rand(30)
    y[3] = float("nan")
    dataset = from_data(graph(y))
    assert not (dataset.train_mask | dataset.val_mask | dataset.test_mask)[3].any()
    assert dataset.y.isfinite().all()


def test_list_of_graphs_with_types(tmp_path):
    graphs = [
        Data(x=torch.tensor([[0], [4], [2]]), edge_index=EDGES, edge_attr=torch.tensor([0, 0, 1, 1]), y=i % 2)
        for i in range(20)
    ]
    dataset = from_data(graphs)
    assert repr(dataset) == "PackedDataset('data', 20 graphs, graph binary by auroc)"
    assert (dataset.node_types, dataset.edge_types, dataset.directed) == ((5,), (2,), False)
    save(dataset, tmp_path / "set.npz")


def test_task_can_be_said():
    assert from_data(graph(torch.arange(30) % 2), task="multiclass").num_outputs == 2
    assert from_data(graph(torch.arange(30) % 3), task="regression").metric == "mae"


def test_links_of_a_graph():
    ring = torch.stack([torch.arange(30), (torch.arange(30) + 1) % 30])
    dataset = from_data(Data(x=torch.rand(30, 2), edge_index=ring), task="link", metric="hits@20")
    assert (dataset.level, dataset.directed, dataset.metric) == ("link", True, "hits@20")
    assert dataset.edge_index.size(1) == 24


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (
            Data(x=torch.rand(4, 1), edge_index=EDGES),
            {},
            r"`y` of one graph must have a row for each of its 4 nodes, got None",
        ),
        (graph(torch.zeros(5)), {}, r"`y` must have at least two values, got '0' in all 5 rows"),
        (graph(torch.arange(6) % 2), {"task": "ranking"}, r"`task` must be one of"),
        ([], {}, r"`data` must be at least one graph, got none"),
        (Data(x=torch.rand(4, 1), edge_index=EDGES[:, :2]), {"task": "link"}, r"at least 3 edges that are no loops"),
    ],
)
def test_wrong_data_is_one_sentence(data, options, message):
    with pytest.raises(ValueError, match=message):
        from_data(data, **options)


def test_wrong_type_is_named():
    with pytest.raises(TypeError, match="`data` must be a Data of PyG or several of them, got int"):
        from_data([3])


def test_call_of_pyg_is_parsed_and_never_executed():
    assert parse_call("TUDataset(NCI1)") == ("TUDataset", ["NCI1"], {})
    assert parse_call("a.B('x y', n=-3, flag=True, sizes=[1, 2])") == (
        "a.B",
        ["x y"],
        {"n": -3, "flag": True, "sizes": [1, 2]},
    )
    for text in ("TUDataset(open('x'))", "__import__('os').system('x')", "f()(x)", "TUDataset(", "1 + 1"):
        with pytest.raises(ValueError, match="must be a class with plain arguments"):
            parse_call(text)


def test_class_of_pyg_from_its_raw_files(tmp_path):
    raw = tmp_path / "pyg" / "TUDataset" / "TINY" / "raw"
    raw.mkdir(parents=True)
    owners = np.repeat(np.arange(1, 13), 3)
    edges = [(3 * g + a, 3 * g + b) for g in range(12) for a, b in ((1, 2), (2, 1), (2, 3), (3, 2))]
    (raw / "TINY_A.txt").write_text("\n".join(f"{a}, {b}" for a, b in edges) + "\n")
    (raw / "TINY_graph_indicator.txt").write_text("\n".join(map(str, owners)) + "\n")
    (raw / "TINY_graph_labels.txt").write_text("\n".join(str(g % 2) for g in range(12)) + "\n")
    (raw / "TINY_node_labels.txt").write_text("\n".join(str(n % 2) for n in range(36)) + "\n")
    dataset = from_pyg_class("pyg:TUDataset(TINY)", tmp_path)
    assert repr(dataset) == "PackedDataset('tudataset-tiny', 12 graphs, graph binary by auroc)"
    assert dataset.edge_index.size(1) == 48


@pytest.mark.parametrize("text", ["pyg:Nothing(x)", "pyg:os.path(x)", "pyg:download_url(x)"])
def test_only_data_sets_of_pyg(tmp_path, text):
    with pytest.raises(ValueError, match=r"must name a class of torch_geometric\.datasets"):
        from_pyg_class(text, tmp_path)


def test_folds_of_small_strata_stay_together():
    folds = draw_folds(np.arange(100) % 7, (0.6, 0.2, 0.2), seed=3)
    assert np.bincount(folds).tolist() == [60, 20, 20]
    assert all(abs((folds[np.arange(100) % 7 == k] == 0).sum() - 8.6) < 2 for k in range(7))


def test_folds_of_cross_validation():
    divisions = parse_folds(np.arange(10) % 5)
    assert divisions.shape == (10, 5)
    assert all(np.bincount(column).tolist() == [6, 2, 2] for column in divisions.T)
    # in division k the rows of fold k are the test, those of the next one validation
    assert divisions[:5, 1].tolist() == [0, 2, 1, 0, 0]
    assert parse_folds(np.array([0.5, 1.0])) is None


def _chains():
    return [Data(x=torch.rand(3, 2), edge_index=EDGES, y=torch.tensor([float(i)])) for i in range(20)]


def _nan_in_x(graph):
    graph.x[1, 0] = float("nan")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.update({"edge_index": EDGES + 1}), r"`edge_index of graph 3` must hold .* in \[0, 3\), got 3"),
        (lambda g: g.update({"edge_index": EDGES - 1}), r"`edge_index of graph 3` must hold .* in \[0, 3\), got -1"),
        (
            lambda g: g.update({"edge_index": EDGES.T}),
            r"`edge_index of graph 3` must have shape \[2, E\], got \[4, 2\]",
        ),
        (lambda g: g.update({"edge_index": None}), r"`edge_index of graph 3` must be a torch.Tensor, got NoneType"),
        (_nan_in_x, r"`x of graph 3` must hold finite numbers, got NaN or infinity in row 1, column 0"),
        (lambda g: g.update({"x": None}), r"`x` must be in all graphs or in none, got none in graph 3"),
        (lambda g: g.update({"x": torch.rand(3, 5)}), r"`x` must have 2 columns as in graph 0, got 5 in graph 3"),
        (
            lambda g: g.update({"x": torch.ones(3, 2).long()}),
            r"`x` must be .*float32 as in graph 0, got .*int64 in graph 3",
        ),
    ],
)
def test_graphs_that_do_not_fit_are_named(change, message):
    graphs = _chains()
    change(graphs[3])
    with pytest.raises((ValueError, TypeError), match=message):
        from_data(graphs)


def test_a_graph_of_networkx_is_named():
    networkx = pytest.importorskip("networkx")
    for function in (from_data, gp.inspect_graph, lambda graph: gp.certify(graph, "degree")):
        with pytest.raises(TypeError, match=r"got a graph of NetworkX: `torch_geometric.utils.from_networkx`"):
            function(networkx.path_graph(4))

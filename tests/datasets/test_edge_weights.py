"""Weights of edges in data sets: from memory, arrays and packed files."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from graphprism.datasets import describe, from_data, from_files, molecules, read, save
from graphprism.io import read_graph
from graphprism.training.provenance import data_identity

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def graphs(count: int = 20) -> list[Data]:
    draw = torch.Generator().manual_seed(0)
    return [
        Data(
            x=torch.rand(3, 2, generator=draw),
            edge_index=EDGES,
            edge_weight=torch.rand(4, generator=draw),
            y=torch.tensor([number / 7]),
        )
        for number in range(count)
    ]


def nodes(**attributes: object) -> Data:
    edges = torch.stack([torch.arange(30), (torch.arange(30) + 1) % 30])
    given = {"edge_weight": torch.arange(30) / 4, **attributes}
    return Data(x=torch.eye(30), edge_index=edges, y=torch.arange(30) % 3, **given)


def test_from_data_keeps_weights_of_graphs() -> None:
    given = graphs()
    dataset = from_data(given)
    torch.testing.assert_close(dataset.edge_weight, torch.cat([each.edge_weight for each in given]), rtol=0, atol=0)
    assert dataset.edge_attr is None
    torch.testing.assert_close(dataset[3].edge_weight, given[3].edge_weight, rtol=0, atol=0)
    torch.testing.assert_close(dataset[[5, 2]].edge_weight, torch.cat([given[5].edge_weight, given[2].edge_weight]))
    whole = Batch.from_data_list([given[4], given[1]])
    torch.testing.assert_close(dataset.batch([4, 1]).edge_weight, whole.edge_weight)


def test_from_data_keeps_weights_of_a_graph_of_nodes() -> None:
    dataset = from_data(nodes())
    assert dataset.edge_weight is not None
    assert dataset.edge_weight.tolist() == (torch.arange(30) / 4).tolist()


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (torch.arange(30), torch.float32),
        (torch.arange(30) % 2 == 0, torch.float32),
        (torch.arange(30).half(), torch.float32),
        (torch.arange(30).double()[:, None], torch.float64),
    ],
)
def test_from_data_makes_numbers_of_weights(given: torch.Tensor, dtype: torch.dtype) -> None:
    found = from_data(nodes(edge_weight=given)).edge_weight
    assert found is not None
    assert (found.dtype, list(found.shape)) == (dtype, [30])
    assert found.tolist() == given.view(-1).double().tolist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.rand(29), r"`edge_weight` must have 30 rows, got shape \[29\]"),
        (torch.rand(30, 2), r"`edge_weight` must have one number for each edge, got shape \[30, 2\]"),
        (torch.full((30,), float("nan")), "`edge_weight` must hold finite numbers, got NaN or infinity in row 0"),
    ],
)
def test_from_data_rejects_weights(given: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_data(nodes(edge_weight=given))


def test_from_data_rejects_weights_in_some_graphs() -> None:
    given = graphs()
    del given[7].edge_weight
    with pytest.raises(ValueError, match="`edge_weight` must be in all graphs or in none, got none in graph 7"):
        from_data(given)


def test_links_keep_the_weights_of_training_edges() -> None:
    both = torch.cat([nodes().edge_index, nodes().edge_index.flip(0)], 1)
    weight = both.sum(0) + 10.0 * (both[0] * both[1])  # the same both ways, different for every edge
    dataset = from_data(Data(x=torch.eye(30), edge_index=both, edge_weight=weight), "link")
    assert dataset.edge_weight is not None
    assert dataset.edge_weight.tolist() == (dataset.edge_index.sum(0) + 10.0 * dataset.edge_index.prod(0)).tolist()
    assert dataset.edge_weight.numel() < weight.numel()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("level", ["graph", "node"])
def test_a_packed_file_keeps_weights(tmp_path, level: str, dtype: torch.dtype) -> None:
    given = graphs() if level == "graph" else [nodes()]
    for each in given:
        each.edge_weight = each.edge_weight.to(dtype) / 3
    dataset = from_data(given if level == "graph" else given[0])
    save(dataset, tmp_path / "own.npz")
    found = read(tmp_path / "own.npz")
    torch.testing.assert_close(found.edge_weight, dataset.edge_weight, rtol=0, atol=0)
    save(found, tmp_path / "again.npz")
    assert read(tmp_path / "again.npz").sha256 == found.sha256
    graph = read_graph(tmp_path / "own.npz")
    torch.testing.assert_close(graph.edge_weight, dataset.edge_weight, rtol=0, atol=0)


def test_a_packed_file_with_damaged_weights_is_rejected(tmp_path) -> None:
    save(from_data(nodes()), tmp_path / "own.npz")
    arrays = dict(np.load(tmp_path / "own.npz"))
    for weight, message in (
        (np.ones(29, np.float32), r"`edge_weight` must have shape \[30\], got \[29\]"),
        (np.full(30, np.nan), "`edge_weight` must hold finite numbers"),
        (np.array(["1"] * 30), "`edge_weight` must hold numbers"),
    ):
        about = arrays["about"].item().replace("sha256", "was")
        np.savez(tmp_path / "bad.npz", **{**arrays, "about": np.array(about), "edge_weight": weight})
        with pytest.raises(ValueError, match=message):
            read(tmp_path / "bad.npz")
    np.savez(tmp_path / "bad.npz", **{**arrays, "edge_weight": 2 * arrays["edge_weight"]})
    with pytest.raises(ValueError, match="checksum"):
        read(tmp_path / "bad.npz")


def test_from_files_reads_weights_of_plain_arrays(tmp_path) -> None:
    graph = nodes()
    arrays = {key: graph[key].numpy() for key in ("x", "edge_index", "edge_weight", "y")}
    np.savez(tmp_path / "plain.npz", **arrays)
    found = from_files(tmp_path / "plain.npz")
    torch.testing.assert_close(found.edge_weight, graph.edge_weight, rtol=0, atol=0)


def test_data_identity_tells_weights_apart() -> None:
    given = {weight: data_identity(from_data(nodes(edge_weight=torch.full((30,), weight)))) for weight in (1.0, 2.0)}
    plain = data_identity(from_data(nodes(edge_weight=None)))
    assert len({*given.values(), plain}) == 3


def test_describe_speaks_of_weights() -> None:
    lines = describe(from_data(nodes()))
    assert "Edge weights: 0 to 7.25, mean 3.625." in lines
    assert not any("weights" in line for line in describe(molecules(20)))


def test_graphs_that_differ_in_weights_alone_are_no_copies() -> None:
    given = graphs()
    for each in given:
        each.x = torch.ones(3, 2)
    assert not any("in training as well" in line for line in describe(from_data(given)))

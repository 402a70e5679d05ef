"""A packed set is indexed like a data set of PyG."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from graphprism.datasets import from_data, molecules
from tests.datasets.small_sets import one_graph, three_graphs


def one_fold():
    dataset = one_graph()
    masks = {key: getattr(dataset, key)[:, :1] for key in ("train_mask", "val_mask", "test_mask")}
    return replace(dataset, **masks)


@pytest.mark.parametrize("index", [1, -2, np.int64(1), torch.tensor(1)])
def test_packed_dataset_number_gives_a_graph(index):
    graph = three_graphs()[index]
    assert type(graph) is Data
    assert graph.x.tolist() == [[2], [0], [27]]


@pytest.mark.parametrize("index", [3, -4])
def test_packed_dataset_number_out_of_range(index):
    with pytest.raises(IndexError, match=rf"`index` must be in \[-3, 3\), got {index}"):
        three_graphs()[index]


@pytest.mark.parametrize("index", [1.0, True, "1", None, torch.tensor(1.0)])
def test_packed_dataset_index_of_another_type(index):
    with pytest.raises(TypeError, match="`index` must be a whole number, a slice, whole numbers or a mask, got"):
        three_graphs()[index]


def test_packed_dataset_iterates_over_graphs():
    assert [graph.num_nodes for graph in three_graphs()] == [2, 3, 1]
    assert [graph.num_nodes for graph in reversed(three_graphs())] == [1, 3, 2]


@pytest.mark.parametrize(
    ("index", "targets"),
    [
        (slice(None), [0.5, -1, 2]),
        (slice(1, None), [-1, 2]),
        (slice(None, None, -1), [2, -1, 0.5]),
        (slice(5, 9), []),
        ([2, 0], [2, 0.5]),
        ((2, 0), [2, 0.5]),
        ([-1, 0], [2, 0.5]),
        (torch.tensor([-3]), [0.5]),
        (torch.tensor([1]), [-1]),
        (np.array([True, False, True]), [0.5, 2]),
    ],
)
def test_packed_dataset_several_graphs_are_a_packed_dataset(index, targets):
    part = three_graphs()[index]
    assert type(part) is type(three_graphs())
    assert part.y.view(-1).tolist() == targets
    assert [float(graph.y) for graph in part] == targets


@pytest.mark.parametrize("number", [3, -4])
def test_packed_dataset_numbers_out_of_range(number):
    for choose in (three_graphs().__getitem__, three_graphs().select, three_graphs().batch):
        with pytest.raises(ValueError, match=rf"`indices` must hold numbers in \[-3, 3\), got {number}"):
            choose([0, number])


@pytest.mark.parametrize("indices", [[-1, 0], (-1, -3), torch.tensor([-1, 0]), np.array([2, -3])])
def test_packed_dataset_select_and_batch_count_from_the_end(indices):
    assert three_graphs().select(indices).y.view(-1).tolist() == [2, 0.5]
    assert three_graphs().batch(indices).y.view(-1).tolist() == [2, 0.5]


def test_packed_dataset_in_a_loader_of_pyg():
    dataset = molecules(6)
    batch = next(iter(DataLoader(dataset, batch_size=6)))
    assert torch.equal(batch.x, dataset.batch(range(6)).x)
    assert torch.equal(batch.edge_index, dataset.batch(range(6)).edge_index)


def test_packed_dataset_mask_of_one_fold_is_one_dimensional():
    graph = one_fold()[0]
    assert graph.train_mask.tolist() == [True, False, False]
    assert graph.x[graph.train_mask].shape == (1, 2)
    assert one_fold().graph(0).train_mask.shape == (3, 1)


def test_packed_dataset_masks_of_several_folds_have_columns():
    assert one_graph()[0].train_mask.shape == (3, 2)


def test_packed_dataset_graph_makes_the_set_again():
    again = from_data(one_fold()[0], directed=True)
    assert torch.equal(again.train_mask, one_fold().train_mask)


def test_packed_dataset_slice_of_one_graph_of_nodes():
    part = one_graph()[:1]
    assert (len(part), part.level) == (1, "node")
    for key in ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(getattr(part, key), getattr(one_graph(), key)), key


def test_packed_dataset_part_keeps_the_number_of_classes():
    dataset = replace(three_graphs(), task="multiclass", metric="accuracy", y=torch.tensor([0, 2, 1]))
    assert dataset[[0]].num_outputs == 3
    assert dataset[:0].num_outputs == 3


def test_packed_dataset_of_links_has_no_parts():
    edges = torch.stack([torch.arange(40), (torch.arange(40) + 1) % 40])
    links = from_data(Data(x=torch.rand(40, 2), edge_index=torch.cat([edges, edges.flip(0)], 1)), "link")
    assert links[0].num_nodes == 40
    with pytest.raises(ValueError, match="must have targets of graphs or nodes to select some, got those of links"):
        links[:1]

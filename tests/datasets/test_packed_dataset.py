from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch

from graphprism.datasets import molecules
from tests.datasets.small_sets import one_graph, three_graphs


def test_a_graph_by_hand():
    graph = three_graphs().graph(1)
    assert graph.x.tolist() == [[2], [0], [27]]
    assert graph.edge_index.tolist() == [[1, 2], [2, 1]]
    assert graph.edge_attr.tolist() == [[3], [3]]
    assert graph.y.tolist() == [[-1.0]]
    assert set(graph.keys()) == {"x", "edge_index", "edge_attr", "y"}


def test_a_batch_by_hand():
    batch = three_graphs().batch([1, 2, 0])
    assert batch.x[:, 0].tolist() == [2, 0, 27, 3, 0, 1]
    assert batch.edge_index.tolist() == [[1, 2, 4, 5], [2, 1, 5, 4]]
    assert batch.batch.tolist() == [0, 0, 0, 1, 2, 2]
    assert batch.ptr.tolist() == [0, 3, 4, 6]
    assert batch.num_graphs == 3


@pytest.mark.parametrize("seed", range(5))
def test_batch_is_that_of_pyg(seed):
    dataset = molecules(40)
    indices = torch.randint(40, (17,), generator=torch.Generator().manual_seed(seed))
    found = dataset.batch(indices)
    wanted = Batch.from_data_list([dataset.graph(int(index)) for index in indices])
    assert set(found.keys()) == set(wanted.keys())
    for key in wanted.keys():  # noqa: SIM118 (of Data, not of a dict)
        assert found[key].dtype == wanted[key].dtype, key
        assert torch.equal(found[key], wanted[key]), key
    assert found.num_graphs == wanted.num_graphs == 17


def test_batch_of_a_graph_without_edges_and_of_no_graph():
    dataset = three_graphs()
    assert dataset.batch([2]).edge_index.shape == (2, 0)
    nothing = dataset.batch([])
    assert (nothing.num_graphs, nothing.x.shape, nothing.y.shape) == (0, (0, 1), (0, 1))


def test_small_types_become_those_of_models():
    dataset = molecules(3)
    assert dataset.x.dtype == dataset.edge_index.dtype == torch.uint8
    graph = dataset.graph(0)
    assert {graph.x.dtype, graph.edge_index.dtype, graph.edge_attr.dtype} == {torch.int64}
    assert graph.y.dtype == torch.float32
    labels = replace(three_graphs(), task="multilabel", y=torch.ones(3, 1, dtype=torch.uint8)).graph(0)
    assert labels.y.dtype == torch.float32


def test_whole_numbers_are_features_at_node_level_unless_they_are_types():
    dataset = replace(one_graph(), x=torch.tensor([[0, 1], [2, 0], [1, 1]], dtype=torch.uint8))
    assert dataset.graph(0).x.dtype == torch.float32
    assert replace(dataset, node_types=(3, 2)).graph(0).x.dtype == torch.int64


def test_node_level_has_masks_and_classes():
    graph = one_graph().graph(0)
    assert graph.y.tolist() == [0, 2, 1]
    assert graph.y.dtype == torch.int64
    assert graph.train_mask.tolist() == [[True, False], [False, True], [False, False]]
    assert graph.test_mask[:, 1].tolist() == [True, False, False]


def test_several_graphs_with_targets_per_node():
    dataset = replace(three_graphs(), level="node", task="multiclass", y=torch.arange(6), split=None)
    assert dataset.batch([2, 0]).y.tolist() == [5, 0, 1]


def test_subsets():
    dataset = three_graphs()
    assert [dataset.subset(name).tolist() for name in ("train", "val", "test")] == [[0], [2], [1]]
    with pytest.raises(ValueError, match="one of \\['train', 'val', 'test'\\], got 'valid'"):
        dataset.subset("valid")
    with pytest.raises(ValueError, match="one is split by node: take val_mask of its graph"):
        one_graph().subset("val")


def test_numbers_of_types_and_outputs():
    dataset = three_graphs()
    assert (dataset.num_node_types, dataset.num_edge_types, dataset.num_outputs) == (28, 4, 1)
    assert (one_graph().num_node_types, one_graph().num_edge_types, one_graph().num_outputs) == (None, None, 3)
    assert replace(dataset, node_types=(28, 3)).num_node_types is None
    assert replace(one_graph(), task="regression").num_outputs == 1


def test_index_out_of_range():
    dataset = three_graphs()
    assert dataset.graph(-1).x.tolist() == [[3]]
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"got {index}"):
            dataset.graph(index)
    for indices in ([0, 3], [-4]):
        with pytest.raises(ValueError, match=r"`indices` must hold numbers in \[-3, 3\)"):
            dataset.batch(indices)


@pytest.mark.parametrize("kind", [torch.tensor, np.array, list])
def test_batch_by_mask(kind):
    dataset = three_graphs()
    mask = [True, False, True]
    assert dataset.batch(kind(mask)).x.tolist() == dataset.batch([0, 2]).x.tolist() == [[0], [1], [3]]
    assert dataset.batch(kind([False] * 3)).num_graphs == 0
    for wrong in ([True], mask * 2, [mask]):
        with pytest.raises(ValueError, match=r"`indices` must have shape \[3\], got"):
            dataset.batch(kind(wrong))


@pytest.mark.parametrize("indices", [[0.0, 1.0], [1.5], torch.tensor([1.0]), np.array([0.9]), torch.tensor(1j)])
def test_batch_takes_whole_numbers_alone(indices):
    with pytest.raises(TypeError, match="`indices` must hold integers, got torch"):
        three_graphs().batch(indices)


def test_batch_of_numbers_of_any_integer_type():
    dataset = three_graphs()
    for indices in (np.array([2, 1], np.int16), torch.tensor([2, 1], dtype=torch.uint8), (2, 1)):
        assert dataset.batch(indices).x.tolist() == [[3], [2], [0], [27]]


@pytest.mark.parametrize("index", [1.5, 1.0, True, torch.tensor(1.0), torch.tensor(True), "1", None, [1]])
def test_graph_takes_a_whole_number_alone(index):
    with pytest.raises(TypeError, match="`index` must be a whole number, got"):
        three_graphs().graph(index)


@pytest.mark.parametrize("index", [1, np.int64(1), torch.tensor(1), torch.tensor(1, dtype=torch.uint8)])
def test_graph_by_number(index):
    assert three_graphs().graph(index).x.tolist() == [[2], [0], [27]]


def test_all_tensors_move():
    moved = three_graphs().to("meta")
    tensors = (moved.x, moved.edge_index, moved.edge_attr, moved.y, moved.node_ptr, moved.edge_ptr, moved.split)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert (len(moved), moved.node_types, moved.note) == (3, (28,), "Written by hand.")


@pytest.mark.gpu
def test_batch_on_the_gpu():
    dataset = molecules(20)
    here, there = dataset.batch([3, 1, 7]), dataset.to("cuda").batch([3, 1, 7])
    for key in here.keys():  # noqa: SIM118
        assert there[key].is_cuda
        assert torch.equal(here[key], there[key].cpu())

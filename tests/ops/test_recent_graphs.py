"""Layers that get the same tensors share one prepared graph, and never an outdated one."""

import gc

import pytest
import torch

from graphprism.nn import MRSGCNConv, MRSSAGEConv
from graphprism.nn.conv import operands
from graphprism.ops import RelationalAdj
from graphprism.ops.csr import Csr
from graphprism.ops.recent_graphs import RecentGraphs


@pytest.fixture
def recent(monkeypatch):
    graphs = RecentGraphs()
    monkeypatch.setattr(operands, "RECENT_GRAPHS", graphs)
    return graphs


@pytest.fixture
def sorts(monkeypatch):
    """How often edges were sorted."""
    counted, build = [], Csr.build
    monkeypatch.setattr(Csr, "build", staticmethod(lambda *args: (counted.append(1), build(*args))[1]))
    return counted


def path(weighted=False):
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    return edges, torch.tensor([0, 1, 2, 2, 0, 1]), torch.rand(6) if weighted else None


def fresh(conv, x, edges, types, weight=None):
    """The answer from new tensors."""
    adj = RelationalAdj(edges.clone(), types.clone(), weight, num_relations=3, num_nodes=x.size(0))
    return conv(x, adj)


def test_layers_of_a_network_and_later_steps_sort_the_edges_once(recent, sorts):
    edges, types, _ = path()
    convs = torch.nn.ModuleList([MRSGCNConv(4, 4), MRSSAGEConv(4, 4), MRSGCNConv(4, 4, add_self_loops=True)])
    for _ in range(3):
        h = torch.randn(4, 4)
        for conv in convs:
            h = conv(h, edges, types)
        h.sum().backward()
    assert len(recent) == 1
    assert len(sorts) == 4  # both directions of the graph, and of the graph with self-loops


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_change_in_place_is_noticed(recent, changed):
    tensors, conv, x = path(weighted=True), MRSGCNConv(4, 4, start="independent"), torch.randn(4, 4)
    before = conv(x, *tensors)
    with torch.no_grad():
        tensors[changed][..., 0] = tensors[changed][..., 2]
    after = conv(x, *tensors)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, fresh(conv, x, *tensors))


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_change_through_numpy_is_noticed(recent, changed):
    tensors, conv, x = path(weighted=True), MRSGCNConv(4, 4, start="independent"), torch.randn(4, 4)
    before, version = conv(x, *tensors), tensors[changed]._version
    array = tensors[changed].numpy()
    array[..., 0] = array[..., 2]
    assert tensors[changed]._version == version
    after = conv(x, *tensors)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, fresh(conv, x, *tensors))


def test_other_sizes_and_numbers_of_relations_are_other_graphs(recent):
    edges, types, _ = path()
    for nodes, relations in ((4, 3), (5, 3), (4, 4)):
        conv = MRSGCNConv(4, 4, num_relations=relations)
        assert conv(torch.randn(nodes, 4), edges, types).shape == (nodes, 4)
    assert len(recent) == 3


@pytest.mark.parametrize("dropped", [0, 1])
def test_graph_is_dropped_with_its_tensors(recent, dropped):
    tensors = [path()[0], path()[1]]
    MRSGCNConv(4, 4)(torch.randn(4, 4), *tensors)
    assert len(recent) == 1
    del tensors[dropped]
    gc.collect()
    assert len(recent) == 0


def test_no_more_than_eight_graphs_are_kept(recent):
    conv, x, many = MRSGCNConv(4, 4), torch.randn(4, 4), [path() for _ in range(20)]
    for edges, types, _ in many:
        conv(x, edges, types)
    assert len(recent) == 8


def test_graph_of_inference_mode_does_not_reach_training(recent):
    edges, types, _ = path()
    conv, x = MRSGCNConv(4, 4), torch.randn(4, 4)
    with torch.inference_mode():
        expected = conv(x, edges, types)
    out = conv(x, edges, types)
    out.sum().backward()
    torch.testing.assert_close(out, expected.clone())


def test_weights_with_a_gradient_are_not_kept(recent):
    edges, types, weight = path(weighted=True)
    conv, x, weight = MRSGCNConv(4, 4), torch.randn(4, 4), weight.requires_grad_()
    for _ in range(2):
        conv(x, edges, types, weight).sum().backward()
    assert len(recent) == 0
    assert weight.grad is not None


def test_transforms_keep_nothing(recent):
    edges, types, _ = path()
    conv = MRSGCNConv(4, 4)
    torch.vmap(lambda x: conv(x, edges, types))(torch.randn(2, 4, 4))
    assert len(recent) == 0


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.uint8])
def test_narrow_indices_are_found_again(recent, sorts, dtype):
    edges, types, _ = path()
    edges, conv, x = edges.to(dtype), MRSGCNConv(4, 4), torch.randn(4, 4)
    torch.testing.assert_close(conv(x, edges, types), conv(x, edges, types))
    assert len(sorts) == 2


@pytest.mark.gpu
def test_captured_layer_prepares_what_its_buffers_hold(recent):
    tensors = [each.cuda() for each in path(weighted=True)]
    conv, x = MRSGCNConv(4, 4, start="independent").cuda(), torch.randn(4, 4, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        for _ in range(3):
            conv(x, *tensors)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        out = conv(x, *tensors)
    tensors[0].copy_(tensors[0].flip(1))
    tensors[1].copy_(tensors[1].roll(1))
    graph.replay()
    with torch.no_grad():
        torch.testing.assert_close(out, fresh(conv, x, *tensors))


@pytest.mark.gpu
def test_each_stream_prepares_its_own_graph(recent):
    edges, types, _ = (each if each is None else each.cuda() for each in path())
    conv, x = MRSGCNConv(4, 4).cuda(), torch.randn(4, 4, device="cuda")
    expected = conv(x, edges, types)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.testing.assert_close(conv(x, edges, types), expected)
    assert len(recent) == 2
    del edges
    gc.collect()
    assert len(recent) == 0

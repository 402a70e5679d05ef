"""Orderings and splits on a GPU give what they give on the CPU, and stay there."""

import pytest
import torch

from graphprism.splitting import ORDERINGS, Graph, by_attribute, by_direction, by_order, by_soft_order, orderings

pytestmark = pytest.mark.gpu

SPLITS = {
    **{name: by_order(name) for name in ORDERINGS},
    "refined": by_order("degree", "ppr"),
    "product": by_order("degree") * by_direction() * by_attribute("edge_attr"),
    "soft": by_soft_order("ppr") * by_direction(),
}


def random_batch():
    generator = torch.Generator().manual_seed(0)
    start = torch.arange(20).repeat_interleave(200) * 50  # 20 graphs of 50 nodes and 200 edges
    edge_index = start + torch.randint(50, (2, 4000), generator=generator)
    x = torch.randint(5, (1000, 4), generator=generator) / 10
    edge_attr = torch.randint(4, (4000,), generator=generator)
    return Graph(edge_index, 1000, x=x, edge_attr=edge_attr, batch=torch.arange(20).repeat_interleave(50))


def on_gpu(graph):
    tensors = {name: getattr(graph, name).cuda() for name in ("edge_index", "x", "edge_attr", "batch")}
    return Graph(num_nodes=graph.num_nodes, **tensors)


@pytest.mark.parametrize("name", SPLITS)
def test_split_is_that_of_the_cpu(name):
    graph = random_batch()
    result = SPLITS[name](on_gpu(graph))
    assert result.is_cuda
    torch.testing.assert_close(result.cpu(), SPLITS[name](graph))


@pytest.mark.parametrize("name", ORDERINGS)
def test_ordering_is_that_of_the_cpu(name):
    graph = random_batch()
    torch.testing.assert_close(ORDERINGS[name](on_gpu(graph)).cpu(), ORDERINGS[name](graph))


def test_order_on_another_device():
    graph = random_batch()
    with pytest.raises(ValueError, match="`order` and `edge_index` must be on the same device, got cpu and cuda:0"):
        by_order(orderings.degree(graph))(on_gpu(graph))

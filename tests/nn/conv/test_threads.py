"""Threads that share a layer get what each would get alone, and leave the layer as it was."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from graphprism.nn import GNN, MRSConv, MRSGINConv
from graphprism.splitting import Graph, by_order


class Difference(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(6, 5)

    def forward(self, x_i, x_j):
        return self.lin(x_j - x_i)


LAYERS = {
    "mrs": lambda: MRSConv(Difference, num_relations=3),
    "gin": lambda: MRSGINConv(torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 5))),
    "network": lambda: GNN("mrs-gin", 8, 5, 3, in_channels=6),
}


@pytest.fixture(autouse=True)
def _often():
    """Threads take turns a thousand times as often as by default."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("name", LAYERS)
def test_threads_share_a_layer(name):
    torch.manual_seed(0)
    layer = LAYERS[name]().eval()
    calls = []
    for count in (20, 40, 80, 160):
        edges = torch.randint(count, (2, 4 * count))
        calls.append((torch.randn(count, 6), edges, by_order("degree")(Graph(edges, num_nodes=count))))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        wanted = [layer(*call) for call in calls]

    def run(number):
        with torch.no_grad():
            return [torch.allclose(layer(*calls[number]), wanted[number], atol=1e-5) for _ in range(60)]

    with ThreadPoolExecutor(4) as pool:
        assert all(all(found) for found in pool.map(run, range(4)))
    assert all(run(0))  # afterwards, too

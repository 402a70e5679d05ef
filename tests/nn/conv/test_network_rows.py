"""Networks inside layers, for many runs at once."""

import pytest
import torch
from torch.func import functional_call
from torch_geometric.nn import MLP

from graphprism.nn.conv.operands import network_rows, relu_maps


def draw(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


@pytest.mark.parametrize(
    ("options", "is_usual"),
    [
        ({}, True),
        ({"bias": [False, True, True]}, True),
        ({"dropout": 0.5}, False),
        ({"act": "tanh"}, False),
        ({"plain_last": False}, False),
        ({"norm": "layer_norm"}, False),
    ],
    ids=str,
)
def test_networks_of_runs_are_those_alone(options, is_usual):
    network = MLP([4, 5, 6, 3], **{"norm": None, **options}).double()
    assert (relu_maps(network) is not None) == is_usual
    x = draw(2, 7, 4).requires_grad_()
    stacked = {name: torch.stack([p.detach(), -p.detach()]) for name, p in network.named_parameters()}
    leaves = {name: each.requires_grad_() for name, each in stacked.items()}

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network.eval()

        def forward(self, x):
            return network_rows(self.network, x)

    layer = Layer()

    def one(parameters, x):
        return functional_call(layer, {f"network.{name}": each for name, each in parameters.items()}, (x,))

    together = torch.vmap(one)(leaves, x)
    alone = torch.stack([functional_call(network, {n: p[k] for n, p in leaves.items()}, (x[k],)) for k in range(2)])
    torch.testing.assert_close(together, alone)
    found, expected = (torch.autograd.grad(each.square().sum(), (x, *leaves.values())) for each in (together, alone))
    torch.testing.assert_close(found, expected)


def test_a_watched_network_is_called_as_a_whole():
    network, seen = MLP([4, 5, 3], norm=None), []
    network.lins[1].register_forward_hook(lambda *_: seen.append(1))
    assert relu_maps(network) is None
    torch.vmap(lambda x: network_rows(network, x))(torch.randn(2, 7, 4))
    assert seen == [1]

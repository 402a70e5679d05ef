"""Without a GPU: a layer that is called with tensors runs no operation for which a GPU would have to be waited for."""

import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphprism.nn import GNN, DirConv, MRSGATConv, MRSGatedGCNConv, MRSGCNConv, MRSGINConv, MRSSAGEConv
from graphprism.ops import RelationalAdj, attention, linear_csr, relational_adj

LAYERS = {
    "gcn": lambda width: MRSGCNConv(width, width),
    "sage": lambda width: MRSSAGEConv(width, width),
    "gat": lambda width: MRSGATConv(width, width // 2, heads=2),
    "gated-gcn": lambda width: MRSGatedGCNConv(width, width),
    "gin": lambda width: MRSGINConv(lambda: torch.nn.Linear(width, width)),
    "dir-gcn": lambda width: DirConv(lambda: MRSGCNConv(width, width)),
    "dir-sage": lambda width: DirConv(lambda: MRSSAGEConv(width, width)),
    "gnn": lambda width: GNN("mrs-gcn", width, 4, 3, in_channels=width),
}
# What takes a number, or a size that depends on numbers, from the device to the host.
WAITING = ("_local_scalar_dense", "nonzero", "unique", "repeat_interleave", "masked_select", "equal", "bincount")


class NoSync(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        assert not name.startswith(WAITING), f"{func} would wait for the device"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("width", [16, 256])
@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
def test_layer_waits_for_nothing(name, width, soft, monkeypatch):
    torch.manual_seed(0)
    layer = LAYERS[name](width)
    x, e = torch.randn(300, width), torch.randint(300, (2, 900))
    t = torch.rand(900, 3) if soft else torch.randint(3, (900,))
    expected = layer(x, RelationalAdj(e, t, num_relations=3, num_nodes=300))
    # on a GPU graphs for one pass are marked so, and values are compared there
    monkeypatch.setattr(RelationalAdj, "one_pass", property(lambda adj: True, lambda adj, value: None), raising=False)
    monkeypatch.setattr(relational_adj, "guard_ranges", lambda ranges: None)
    softmax = sys.modules["graphprism.ops.edge_softmax"]  # the package has a function of that name
    for module in (softmax, attention):
        monkeypatch.setattr(module, "check_not_negative", lambda weight: None)
    with NoSync():
        out = layer(x, e, t)
        out.sum().backward()
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)


def test_no_sync_finds_a_sync():
    with pytest.raises(AssertionError, match="would wait for the device"), NoSync():
        int(torch.ones(1))


def test_graphs_made_of_a_graph_for_one_pass_are_for_one_pass():
    adj = RelationalAdj(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    adj.one_pass = True
    for other in (adj.normalized("sym"), adj.transpose(), adj.with_weight(torch.ones(2)), adj.to("cpu")):
        assert other.one_pass


def test_dir_conv_adds_to_views(monkeypatch):
    layer = DirConv(lambda: MRSGCNConv(8, 8))
    graph = torch.randn(5, 8), torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([0, 1, 2])
    expected = layer(*graph)

    def view(x, *rest):
        whole = torch.cat([inner(x, *rest), x.new_zeros(1, 8)])
        return whole[:-1]

    inner = linear_csr.all_pairs_forward
    monkeypatch.setattr(linear_csr.FORWARD, "choose", lambda name, device: view)
    out = layer(*graph)
    out.sum().backward()
    torch.testing.assert_close(out, expected)

"""The encoder of pairs (eigenvector, eigenvalue), and tables of types that start with Glorot's distribution."""

import math

import pytest
import torch
from torch_geometric.data import Data

from graphprism.nn import GNN
from graphprism.nn.models.deep_set import DeepSetPE
from graphprism.testing import molecule
from graphprism.transforms import LaplacianSpectrum

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def by_hand(encoder, pairs, signs):
    """One pair after another."""
    w1, b1, w2, b2 = (each.detach() for each in encoder.parameters())
    out = torch.zeros(pairs.size(0), b2.numel(), dtype=pairs.dtype)
    for i, row in enumerate(pairs):
        for (entry, value), sign in zip(row, signs, strict=True):
            if value >= 0:
                hidden = (w1[:, 0] * entry * sign + w1[:, 1] * value + b1).clamp(min=0)
                out[i] += (w2 @ hidden + b2).clamp(min=0)
    return out


def test_deep_set_by_hand():
    pairs = torch.randn(4, 3, 2, dtype=torch.double)
    pairs[..., 1].abs_()
    pairs[2, 2] = torch.tensor([0.0, -1.0])
    encoder = DeepSetPE(5).double().eval()
    torch.testing.assert_close(encoder(pairs), by_hand(encoder, pairs, [1, 1, 1]))


def test_deep_set_draws_one_sign_for_each_eigenvector_in_training():
    pairs, encoder = torch.rand(4, 2, 2, dtype=torch.double), DeepSetPE(5).double()
    expected = [by_hand(encoder, pairs, (a, b)) for a in (1, -1) for b in (1, -1)]
    seen = [0] * 4
    for seed in range(64):
        found = encoder(pairs, torch.Generator().manual_seed(seed))
        same = [torch.allclose(found, each) for each in expected]
        assert sum(same) == 1
        seen[same.index(True)] += 1
    assert min(seen) >= 6  # 16 of each are expected


def test_gnn_encodes_pairs_into_the_last_channels():
    model = GNN("gcn", 12, 1, 2, num_node_types=28, pe_channels=4, pe_encoder="deepset", readout="sum").eval()
    assert sum(each.numel() for each in model.pe_encoder.parameters()) == (2 * 8 + 8) + (8 * 4 + 4)
    states = []
    model.convs[0].register_forward_pre_hook(lambda _, args: states.append(args[0]))
    pairs = torch.rand(3, 7, 2)
    model(torch.tensor([1, 2, 3]), EDGES, pe=pairs)
    assert torch.equal(states[0][:, 8:], model.pe_encoder(pairs))


def test_gnn_is_random_in_training_only():
    torch.manual_seed(0)  # some of the networks that can be drawn have no active channel of the features
    graph = molecule(0)
    pe = LaplacianSpectrum(4)(Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)).pe
    model = GNN("gcn", 12, 1, 2, num_node_types=28, pe_channels=4, pe_encoder="deepset", readout="sum")
    for training in (True, False):
        model.train(training)
        outputs = {float(model(graph.x.view(-1), graph.edge_index, pe=pe).detach()) for _ in range(8)}
        assert (len(outputs) > 1) == training


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"pe_encoder": "deepset"},
            '`pe_encoder` must be None, or "deepset" or "walk" with `pe_channels` of at least 1, got',
        ),
        ({"pe_encoder": "mlp", "pe_channels": 2}, "`pe_encoder` must be None, or"),
        ({"type_start": "zeros"}, '`type_start` must be "normal" or "glorot", got \'zeros\''),
    ],
)
def test_gnn_rejects_unknown_encoders(options, message):
    with pytest.raises(ValueError, match=message):
        GNN("gcn", 12, 1, 2, num_node_types=28, **options)


@pytest.mark.parametrize("pe", [None, torch.zeros(3, 4), torch.zeros(3, 4, 3)])
def test_gnn_rejects_positions_that_are_no_pairs(pe):
    model = GNN("gcn", 12, 1, 2, num_node_types=28, pe_channels=4, pe_encoder="deepset")
    with pytest.raises(ValueError, match=r"`pe` must have shape \[N, M, 2\], got"):
        model(torch.tensor([1, 2, 3]), EDGES, pe=pe)


def test_tables_of_types_start_with_glorots_distribution():
    torch.manual_seed(0)
    model = GNN("gcn", 40, 1, 1, num_node_types=(119, 5), type_start="glorot")
    for again in range(2):
        for table, rows in zip(model.encoder.weight.detach().split((119, 5)), (119, 5), strict=True):
            bound = math.sqrt(6 / (rows + 40))
            assert 0.95 * bound < table.abs().max() <= bound
            assert table.std() == pytest.approx(bound / math.sqrt(3), rel=0.1)
        if not again:
            model.encoder.reset_parameters()

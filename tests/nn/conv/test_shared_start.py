"""Relations with a shared start, tied to a common weight."""

import copy
import io

import pytest
import torch
from torch_geometric.nn import GCNConv

from graphprism.nn import GNN, MRSGCNConv, RelationalWeight
from graphprism.nn.conv.relational_weight import Together, contrasts
from graphprism.testing import assert_starts_as_plain
from tests.nn.conv.cases import GRAPHS, IN, OUT, layers, make_example
from tests.pairwise import all_pairs

EXAMPLE = make_example(GRAPHS["random"])


@all_pairs(name=[*layers()], deviation=["full", "diagonal"], graph=["random", "multi-edges", "no-edges"])
def test_law_of_the_shared_start(name, deviation, graph):
    def make(num_relations, decay):
        return layers(start="shared", decay=decay, deviation=deviation)[name](num_relations)

    assert_starts_as_plain(make, make_example(GRAPHS[graph]))


def test_the_law_fails_for_relations_that_start_apart():
    with pytest.raises(AssertionError, match="a shared start must be the plain layer"):
        assert_starts_as_plain(
            lambda num_relations, decay: MRSGCNConv(IN, OUT, num_relations=num_relations, start="independent"), EXAMPLE
        )


@pytest.mark.parametrize("relations", [2, 3, 9])
def test_contrasts_are_orthonormal_and_sum_to_zero(relations):
    columns = contrasts(relations)
    torch.testing.assert_close(columns.t() @ columns, torch.eye(relations - 1, dtype=torch.double))
    torch.testing.assert_close(columns.sum(dim=0), torch.zeros(relations - 1, dtype=torch.double))


@pytest.mark.parametrize("relations", [2, 9, 70])
def test_many_relations_need_no_matrix(relations, monkeypatch):
    deviation, common = torch.randn(relations - 1, 4, 2).double(), torch.randn(4, 2).double()
    expected = common + torch.einsum("rk,kio->rio", contrasts(relations) / 2, deviation)
    for largest in (0, 1000):
        monkeypatch.setattr("graphprism.nn.conv.relational_weight._MATRIX", largest)
        together = Together(relations, 3.0).double()
        torch.testing.assert_close(together(common, deviation), expected)
        for ours, theirs in zip(together.apart(expected), (common, deviation), strict=True):
            torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("start", ["shared", "independent"])
def test_as_many_parameters_as_free_matrices(start):
    layer = MRSGCNConv(IN, OUT, num_relations=4, bias=False, start=start)
    assert sum(parameter.numel() for parameter in layer.parameters()) == 4 * IN * OUT


def moved(optimizer, decay, **options):
    """How far one step moves the common matrix and the matrices of the relations from it."""
    torch.manual_seed(0)
    layer = MRSGCNConv(IN, OUT, bias=False, decay=decay).double()
    before = layer.lin().detach().clone()
    step = optimizer(layer.parameters(), **options)
    (EXAMPLE.run(layer) * torch.arange(OUT)).square().sum().backward()
    step.step()
    change = layer.lin().detach() - before
    return change.mean(dim=0), change - change.mean(dim=0)


def test_deviations_move_less():
    for optimizer, power in ((torch.optim.SGD, 1), (torch.optim.Adam, 0.5)):
        common, apart = moved(optimizer, 3.0, lr=0.01)
        same, less = moved(optimizer, 15.0, lr=0.01)
        torch.testing.assert_close(common, same, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(less, apart / (16 / 4) ** power, rtol=1e-6, atol=1e-9)


def train(layer, optimizer, steps, parts=1, scaler=None, clip=None, autocast=None):
    """Steps on a loss, each in ``parts`` backward passes."""
    target = torch.sin(torch.arange(12 * OUT, dtype=EXAMPLE.x.dtype)).view(12, OUT)
    loss = torch.zeros(())
    for _ in range(steps):
        optimizer.zero_grad()
        for rows in torch.arange(12).chunk(parts):
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast is not None):
                loss = (EXAMPLE.run(layer).double() - target)[rows].square().sum()
            (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is not None:
            scaler.unscale_(optimizer)
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(layer.parameters(), clip)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
    return layer.lin().detach()


def new_layer():
    torch.manual_seed(0)
    return MRSGCNConv(IN, OUT, decay=3.0).double()


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_accumulated_scaled_and_clipped_gradients_mean_the_same(optimizer):
    def run(**options):
        layer = new_layer()
        return train(layer, optimizer(layer.parameters(), lr=0.01, weight_decay=0.1), 5, **options)

    expected = run(clip=1.0)
    torch.testing.assert_close(run(clip=1.0, parts=3), expected)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    torch.testing.assert_close(run(clip=1.0, scaler=scaler), expected)
    assert (expected - expected.mean(dim=0)).abs().max() > 1e-4


def test_autocast_rounds_as_the_plain_layer_does():
    layer, plain = new_layer().float(), GCNConv(IN, OUT, add_self_loops=False)
    plain.lin.weight.data = layer.lin.common.detach().t().clone()
    x = EXAMPLE.x.float()
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = layer(x, EXAMPLE.edge_index, EXAMPLE.edge_type), plain(x, EXAMPLE.edge_index)
    torch.testing.assert_close(ours.float(), theirs.float(), rtol=0.02, atol=0.02)


def test_lbfgs_goes_down():
    layer = new_layer()
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=20, line_search_fn="strong_wolfe")
    target = torch.sin(torch.arange(12 * OUT, dtype=torch.double)).view(12, OUT)
    losses = []

    def closure():
        optimizer.zero_grad()
        losses.append((EXAMPLE.run(layer) - target).square().sum())
        losses[-1].backward()
        return losses[-1]

    for _ in range(3):
        optimizer.step(closure)
    least = torch.linalg.norm(target) ** 2
    assert losses[-1] < losses[0]
    assert losses[-1] < least
    apart = layer.lin().detach()
    assert (apart - apart.mean(dim=0)).abs().max() > 1e-3  # relations part where that helps


@pytest.mark.parametrize("start", ["shared", "independent"])
@pytest.mark.parametrize("decay", [0.0, 3.0, 1000.0])
def test_state_of_version_0_1_loads(start, decay):
    weight = torch.randn(3, IN, OUT)
    layer = MRSGCNConv(IN, OUT, start=start, decay=decay)
    layer.load_state_dict({"lin.weight": weight.clone(), "bias": torch.zeros(OUT)})
    torch.testing.assert_close(layer.lin(), weight)
    lazy = MRSGCNConv(-1, OUT, start=start, decay=decay)
    lazy.load_state_dict({"lin.weight": weight.clone(), "bias": torch.zeros(OUT)})
    torch.testing.assert_close(lazy.lin(), weight)
    assert lazy.lin.in_channels == IN


@pytest.mark.parametrize("start", ["shared", "independent"])
@pytest.mark.parametrize("sizes", [(IN, OUT), (IN, IN), (-1, OUT)])
def test_state_of_pyg_gcn_loads(start, sizes):
    plain = GCNConv(IN, sizes[1], add_self_loops=False).double()
    torch.nn.init.normal_(plain.bias)
    layer = MRSGCNConv(*sizes, start=start).double()
    layer.load_state_dict(plain.state_dict())
    torch.testing.assert_close(EXAMPLE.run(layer), plain(EXAMPLE.x, EXAMPLE.edge_index))


def test_states_go_from_one_start_to_the_other_and_back():
    held, free, again = (RelationalWeight(IN, OUT, 3, start=s).double() for s in ("shared", "independent", "shared"))
    torch.nn.init.normal_(held.deviation)
    free.load_state_dict(held.state_dict())
    torch.testing.assert_close(free(), held())
    again.load_state_dict(free.state_dict())
    torch.testing.assert_close(again(), held())


def test_a_state_of_other_sizes_is_refused():
    with pytest.raises(RuntimeError, match="size mismatch"):
        MRSGCNConv(IN, OUT, num_relations=4).load_state_dict(MRSGCNConv(IN, OUT, num_relations=3).state_dict())


@pytest.mark.parametrize("name", layers())
def test_copies_and_files_keep_the_layer(name):
    layer = layers(start="shared", decay=2.0)[name](3).double()
    for parameter_name, parameter in layer.named_parameters():
        if "deviation" in parameter_name:
            torch.nn.init.normal_(parameter)
    expected = EXAMPLE.run(layer)
    torch.testing.assert_close(EXAMPLE.run(copy.deepcopy(layer)), expected)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    torch.testing.assert_close(EXAMPLE.run(torch.load(file, weights_only=False)), expected)


def test_a_copy_of_gin_listens_to_its_own_network():
    layer = layers(start="shared")["gin"](3).double()
    expected = EXAMPLE.run(layer)
    other = copy.deepcopy(layer)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
    torch.testing.assert_close(EXAMPLE.run(other), expected)


def test_a_network_that_changes_its_input_first_is_refused():
    class Late(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(IN, OUT)

        def forward(self, x):
            return self.lin(2 * x)

    from graphprism.nn import MRSGINConv

    with pytest.raises(ValueError, match="`nn` must begin with a linear map"):
        MRSGINConv(Late)(EXAMPLE.x.float(), EXAMPLE.edge_index, EXAMPLE.edge_type)


def test_a_whole_network_starts_as_its_plain_partner():
    for name in ("gcn", "sage", "gat", "gin", "gated-gcn", "dir-gcn", "dir-sage"):
        outputs = []
        for conv in (name, f"mrs-{name}"):
            torch.manual_seed(0)
            model = GNN(conv, 8, 2, 4, in_channels=IN).double().eval()
            outputs.append(model(EXAMPLE.x, EXAMPLE.edge_index, EXAMPLE.edge_type))
        torch.testing.assert_close(*outputs)

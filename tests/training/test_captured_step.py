"""`CapturedStep` without a capture: padding changes nothing, and what it would change is refused."""

import copy
import weakref
from dataclasses import dataclass

import pytest
import torch
from torch_geometric.data import Batch, Data

import graphprism as gp
from graphprism.training import CapturedStep
from graphprism.training.captured_step import _forget_on_load
from graphprism.training.padded_batch import PaddedBatch
from tests.training.step_cases import LAYERS, Network, absolute_errors, batches, plain_losses

EXACT = {"rtol": 1e-12, "atol": 1e-12}
# Adam divides gradients by their size: one that is zero up to rounding, of a bias before a norm, would be of size one.
ADAM = {"lr": 0.01, "eps": 1e-3}


def make_step(model, rate=0.01, **options):
    optimizer = torch.optim.Adam(model.parameters(), **{**ADAM, "lr": rate})
    return CapturedStep(model, optimizer, absolute_errors, **{"num_relations": 3, **options})


def assert_step_is_the_loop(model, sets, clip=None, **options):
    twin = copy.deepcopy(model)
    step = make_step(model, clip=clip, **options)
    found = torch.stack([step(batch) for batch in sets])
    expected = plain_losses(twin, torch.optim.Adam(twin.parameters(), **ADAM), sets, clip)
    torch.testing.assert_close(found, expected, **EXACT)
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), **EXACT)
    assert found.unique().numel() == len(sets)


@pytest.mark.parametrize("layer", LAYERS)
def test_padding_does_not_change_the_step_of_a_layer(layer):
    assert_step_is_the_loop(Network(layer).double(), batches())


@pytest.mark.parametrize("layer", ["gcn", "gated"])
@pytest.mark.parametrize("on_nodes", [False, True])
def test_padding_does_not_change_batch_norm(layer, on_nodes):
    model = Network(layer, norm="batch", on_nodes=on_nodes).double()
    assert_step_is_the_loop(model, batches())
    assert int(model.norms[0].module.num_batches_tracked) == 6
    assert "forward" not in vars(model.norms[0].module)


@pytest.mark.parametrize("room", [1.0, 1.25, 5.0])
def test_padding_of_any_size(room):
    assert_step_is_the_loop(Network("gcn", norm="graph").double(), batches(), clip=0.01, room=room)


def test_whole_network_of_the_package():
    sets = batches()
    torch.manual_seed(0)
    model = gp.nn.GNN("mrs-gcn", 8, 1, num_layers=2, in_channels=6, readout="mean", norm="batch", jk="max").double()
    twin = copy.deepcopy(model)

    def loss(model, data):
        return (model(data.x, data.adj, batch=data.batch, batch_size=data.num_graphs).squeeze(1) - data.y).square()

    step = CapturedStep(model, torch.optim.Adam(model.parameters(), **ADAM), loss, num_relations=3)
    optimizer = torch.optim.Adam(twin.parameters(), **ADAM)
    for batch in sets:
        optimizer.zero_grad()
        out = twin(batch.x, batch.edge_index, batch.edge_type, batch=batch.batch).squeeze(1)
        expected = (out - batch.y).square().mean()
        expected.backward()
        optimizer.step()
        torch.testing.assert_close(step(batch), expected.detach(), **EXACT)
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), **EXACT)


@pytest.mark.parametrize("norm", ["pair", "layer of all nodes"])
def test_norm_of_all_rows_is_refused(norm):
    model = Network(norm=norm).double()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="must not depend on padding: a norm or readout over all rows"):
        make_step(model)(batches()[0])
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_mean_over_all_rows_is_refused():
    model = Network().double()
    step = CapturedStep(
        model, torch.optim.SGD(model.parameters()), lambda *args: absolute_errors(*args).mean(), num_relations=3
    )
    with pytest.raises(ValueError, match="a scalar loss must be masked"):
        step(batches()[0])


def test_mean_over_real_rows_is_taken():
    model, batch = Network().double(), batches()[0]
    twin = copy.deepcopy(model)

    def loss(model, data):
        return torch.where(data.graph_mask, absolute_errors(model, data), 0).sum() / data.graph_mask.sum()

    step = CapturedStep(model, torch.optim.SGD(model.parameters()), loss, num_relations=3)
    torch.testing.assert_close(step(batch), make_step(twin)(batch), **EXACT)


def test_check_of_padding_leaves_model_and_random_state():
    model, batch = Network(norm="batch", dropout=0.5).double(), batches()[0]
    step = make_step(model, rate=0.0)
    torch.manual_seed(3)
    first = step(batch)
    assert int(model.norms[0].module.num_batches_tracked) == 1
    torch.manual_seed(3)
    torch.testing.assert_close(step(batch), first, **EXACT)
    assert step(batch) != first


def test_larger_batch_makes_larger_buffers():
    sets = [*batches((2, 2)), *batches((9, 2, 9), seed=1), *batches((1, 12), seed=2)]
    assert_step_is_the_loop(Network().double(), sets, room=1.0)


def test_buffers_never_shrink():
    dense, large = batches((4, 12))
    few = torch.randperm(large.num_edges)[:5]
    large.edge_index, large.edge_type = large.edge_index[:, few], large.edge_type[few]
    first = PaddedBatch(dense, 1.0, torch.device("cpu"), 3)
    assert not first.fits(large)
    second = PaddedBatch(large, 1.0, torch.device("cpu"), 3, first)
    assert second.fits(large)
    assert second.fits(dense)
    assert len({second.num_nodes, second.num_edges, second.num_graphs}) == 3


def test_padding_is_graphs_of_its_own():
    batch = batches((3,))[0]
    padded = PaddedBatch(batch, 2.0, torch.device("cpu"), 3)
    padded.fill(batch)
    data = padded.graph()
    real = batch.num_nodes
    assert data.node_mask.sum() == real
    assert data.edge_mask.sum() == batch.num_edges
    assert data.graph_mask.tolist() == [True] * 3 + [False]
    torch.testing.assert_close(data.x[:real], batch.x, rtol=0, atol=0)
    assert data.edge_index[:, batch.num_edges :].min() >= real
    assert data.batch[real:].unique().tolist() == [3]
    assert data.y[:3].tolist() == batch.y.tolist()


def test_padding_graphs_lie_in_order():
    like, small = batches((4, 2))
    padded = PaddedBatch(like, 1.0, torch.device("cpu"), 3, sizes=(100, 3, 9))
    for batch in (like, small):
        padded.fill(batch)
        data = padded.graph()
        assert data.num_graphs == 10
        assert data.num_nodes >= 110
        torch.testing.assert_close(data.batch.sort()[0], data.batch, rtol=0, atol=0)
        assert data.ptr.diff().tolist() == data.batch.bincount(minlength=10).tolist()
        assert data.ptr.diff().min() > 0
        assert data.ptr[: batch.num_graphs + 1].tolist() == batch.ptr.tolist()


def test_buffers_of_known_sizes_do_not_depend_on_the_first_batch():
    sizes = max(b.num_nodes for b in batches()), max(b.num_edges for b in batches()), 5
    found = []
    for sets in (batches(), batches()[::-1]):
        step = make_step(Network().double(), room=1.0, sizes=sizes)
        padded = {id(step._padded) for batch in sets if step(batch) is not None}
        assert len(padded) == 1
        found.append((step._padded.num_nodes, step._padded.num_edges, step._padded.num_graphs))
    assert found[0] == found[1]


def test_optimizer_does_not_keep_a_step():
    step = make_step(Network().double())
    optimizer, found = step.optimizer, weakref.ref(step)
    _forget_on_load(step)
    step._warm_ups = 2
    optimizer.load_state_dict(optimizer.state_dict())
    assert step._warm_ups == 0
    del step
    assert found() is None
    optimizer.load_state_dict(optimizer.state_dict())


def test_one_graph_for_all_steps():
    data = Data.from_dict(batches((1,))[0].to_dict())
    del data.batch, data.ptr
    model = Network(norm="layer of all nodes", on_nodes=True).double()  # without padding any norm is right
    twin = copy.deepcopy(model)

    def loss(model, data):
        return (model(data.x, data.adj, None, data.num_graphs) - data.x[:, 0]).abs()

    step = CapturedStep(model, torch.optim.Adam(model.parameters(), lr=0.1), loss, data, num_relations=3)
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.1)
    adj = gp.RelationalAdj(data.edge_index, data.edge_type, num_relations=3, num_nodes=data.num_nodes)
    for _ in range(4):
        optimizer.zero_grad()
        expected = (twin(data.x, adj, None, 1) - data.x[:, 0]).abs().mean()
        expected.backward()
        optimizer.step()
        torch.testing.assert_close(step(), expected.detach(), **EXACT)
    assert "adj" not in data


def test_scheduler_counts():
    model, sets = Network().double(), batches()
    twin = copy.deepcopy(model)
    optimizers = [torch.optim.Adam(each.parameters(), lr=0.1) for each in (model, twin)]
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(each, 0.5) for each in optimizers]
    step = CapturedStep(model, optimizers[0], absolute_errors, num_relations=3)
    found = []
    for batch in sets:
        found.append(step(batch))
        schedulers[0].step()
    expected = plain_losses(twin, optimizers[1], sets, scheduler=schedulers[1])
    torch.testing.assert_close(torch.stack(found), expected, **EXACT)


def test_bf16_on_a_cpu():
    model, sets = Network(), batches(dtype=torch.float)
    twin = copy.deepcopy(model)
    step = make_step(model, autocast=torch.bfloat16)
    found = torch.stack([step(batch) for batch in sets])
    expected = plain_losses(twin, torch.optim.Adam(twin.parameters(), **ADAM), sets, autocast=True)
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)


def test_relations_come_from_the_split():
    graphs = [gp.SplitEdges("degree", overwrite=True)(graph) for graph in batches((4,))[0].to_data_list()]
    model = Network().double()
    CapturedStep(model, torch.optim.SGD(model.parameters()), absolute_errors)(Batch.from_data_list(graphs))
    with pytest.raises(ValueError, match="`num_relations` must be given where SplitEdges did not write"):
        CapturedStep(model, torch.optim.SGD(model.parameters()), absolute_errors)(batches()[0])


def test_plain_graph_has_one_relation():
    batch = batches()[0]
    del batch.edge_type
    seen = []

    def loss(model, data):
        seen.append(data.adj.num_relations)
        return model(data.x).squeeze(1).square()

    model = torch.nn.Linear(6, 1).double()
    CapturedStep(model, torch.optim.SGD(model.parameters()), loss)(batch)
    assert set(seen) == {1}


@dataclass
class Bad:
    """A wrong argument or batch and what is said about it."""

    match: str
    options: dict
    error: type = ValueError


@pytest.mark.parametrize(
    "bad",
    [
        Bad("`clip` must be None or above 0, got 0", {"clip": 0}),
        Bad("`room` must be at least 1, got 0.5", {"room": 0.5}),
        Bad("`sizes` must be the numbers of nodes, edges and graphs, got", {"sizes": (1, 2)}),
        Bad("`sizes` must be a whole number", {"sizes": (1, 2, 3.0)}, TypeError),
        Bad("`autocast` must be None or torch.bfloat16", {"autocast": torch.float16}),
        Bad("`capture` must be None or False for a model on cpu, got True", {"capture": True}),
        Bad("`num_relations` must be at least 1, got 0", {"num_relations": 0}),
        Bad("`data` must be a Data of PyG, got str", {"data": "graph"}, TypeError),
    ],
)
def test_bad_arguments(bad):
    with pytest.raises(bad.error, match=bad.match):
        make_step(Network(), **bad.options)


@pytest.mark.parametrize(("first", "match"), [("model", "a torch.nn.Module"), ("optimizer", "an optimiser of torch")])
def test_bad_model_or_optimizer(first, match):
    model = Network()
    arguments = {"model": model, "optimizer": torch.optim.SGD(model.parameters()), "loss": absolute_errors, first: 3}
    with pytest.raises(TypeError, match=f"`{first}` must be {match}, got int"):
        CapturedStep(**arguments)
    with pytest.raises(TypeError, match="`loss` must be a function of a model and a graph, got 3"):
        CapturedStep(model, torch.optim.SGD(model.parameters()), 3)


def test_bad_batches():
    sets = batches()
    step = make_step(Network().double())
    with pytest.raises(TypeError, match="`batch` must be given: the steps share no graph, got none"):
        step()
    with pytest.raises(TypeError, match="`batch` must be a Data or Batch of PyG, got int"):
        step(3)
    with pytest.raises(ValueError, match="must have more nodes than graphs, to tell tensors of both apart, got 1"):
        step(Data(x=torch.zeros(1, 6), edge_index=torch.zeros(2, 0, dtype=torch.long)))
    with pytest.raises(ValueError, match="`batch` must have an `edge_index`, got None"):
        step(Data(x=torch.zeros(3, 6)))
    step(sets[0])
    sets[1].y = sets[1].y.float()
    with pytest.raises(ValueError, match=r"`batch.y` must be torch.float64 of shape \[5\], as in the first batch, got"):
        step(sets[1])
    del sets[2].y
    with pytest.raises(ValueError, match=r"`batch.y` must be torch.float64 .* got None"):
        step(sets[2])


def test_bad_losses():
    model = Network().double()
    for loss, match in (
        (lambda *_: 3, "must be a tensor, got int"),
        (lambda m, data: data.x, "must return one number"),
    ):
        with pytest.raises((TypeError, ValueError), match=match):
            CapturedStep(model, torch.optim.SGD(model.parameters()), loss, num_relations=3)(batches()[0])
    step = CapturedStep(model, torch.optim.SGD(model.parameters()), absolute_errors, batches((1,))[0], num_relations=3)
    with pytest.raises(TypeError, match="`batch` must be left out: the steps share the graph `data`, got DataBatch"):
        step(batches()[0])

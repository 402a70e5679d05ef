"""`CapturedStep` on a GPU: the captured step is the step of a plain loop."""

import copy

import pytest
import torch

import graphprism as gp
from graphprism.training import CapturedStep
from tests.training.step_cases import LAYERS, Network, absolute_errors, batches, plain_losses

pytestmark = pytest.mark.gpu

# sums by atomic additions have no fixed order on a GPU
CLOSE = {"rtol": 1e-9, "atol": 1e-10}
SIZES = (5, 5, 3, 5, 1, 5, 4, 5, 2, 5)


def on_gpu(sizes=SIZES, **options):
    return [batch.cuda() for batch in batches(sizes, **options)]


def on_device(rate):
    """As `CapturedStep` keeps it: a float of Python has more digits."""
    return torch.tensor(rate, device="cuda")


def adam(model, lr=0.01, **options):
    return torch.optim.Adam(model.parameters(), lr=on_device(lr), **{"eps": 1e-3, "capturable": True, **options})


def make_step(model, optimizer=None, **options):
    optimizer = adam(model) if optimizer is None else optimizer
    return CapturedStep(model, optimizer, absolute_errors, **{"num_relations": 3, **options})


def assert_captured_is_the_loop(model, sets, clip=None, make=adam, **options):
    model = model.double().cuda()
    twin = copy.deepcopy(model)
    step = make_step(model, make(model), clip=clip, **options)
    found = torch.stack([step(batch) for batch in sets])
    assert step._graph is not None
    torch.testing.assert_close(found, plain_losses(twin, make(twin), sets, clip), **CLOSE)
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), **CLOSE)
    assert found.unique().numel() == len(sets)


@pytest.mark.parametrize("layer", LAYERS)
def test_captured_step_of_a_layer_is_the_step(layer):
    assert_captured_is_the_loop(Network(layer), on_gpu())


@pytest.mark.parametrize("on_nodes", [False, True])
@pytest.mark.parametrize("norm", ["batch", "graph"])
def test_captured_step_with_norms(norm, on_nodes):
    assert_captured_is_the_loop(Network("gcn", norm=norm, on_nodes=on_nodes), on_gpu())


@pytest.mark.parametrize("fused", [False, True])
def test_captured_step_clips(fused):
    assert_captured_is_the_loop(Network(), on_gpu(), clip=0.01, make=lambda model: adam(model, fused=fused))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_captured_step_of_sgd(momentum):
    def make(model):
        return torch.optim.SGD(
            model.parameters(), lr=on_device(0.1), momentum=momentum, dampening=momentum / 2, fused=True
        )

    assert_captured_is_the_loop(Network(), on_gpu(), make=make)


def test_batches_on_the_host_are_copied():
    model, sets = Network().double().cuda(), batches(SIZES)
    twin = copy.deepcopy(model)
    step, other = make_step(model), make_step(twin)
    for batch in sets:
        torch.testing.assert_close(step(batch), other(batch.cuda()), **CLOSE)


def test_larger_batch_is_captured_again():
    sets = [*on_gpu((2,) * 5), *on_gpu((20, 2, 20, 2, 20), seed=1), *on_gpu((1, 40, 1, 1, 1), seed=2)]
    assert_captured_is_the_loop(Network(), sets, room=1.0)


def test_whole_network_of_the_package():
    torch.manual_seed(0)
    options = {"num_layers": 3, "in_channels": 6, "readout": "mean", "norm": "batch", "residual": True}
    model = gp.nn.GNN("mrs-gcn", 16, 1, **options).double().cuda()
    twin = copy.deepcopy(model)

    def loss(model, data):
        return (model(data.x, data.adj, batch=data.batch, batch_size=data.num_graphs).squeeze(1) - data.y).square()

    step, optimizer = CapturedStep(model, adam(model), loss, num_relations=3), adam(twin)
    for batch in on_gpu():
        optimizer.zero_grad()
        out = twin(batch.x, batch.edge_index, batch.edge_type, batch=batch.batch).squeeze(1)
        expected = (out - batch.y).square().mean()
        expected.backward()
        optimizer.step()
        torch.testing.assert_close(step(batch), expected.detach(), **CLOSE)
    assert step._graph is not None
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), **CLOSE)


@pytest.mark.parametrize("is_made_before", [False, True])
def test_scheduler_counts(is_made_before):
    model, sets = Network().double().cuda(), on_gpu()
    twin, found = copy.deepcopy(model), []
    optimizers = [adam(model, lr=0.1), adam(twin, lr=0.1)]
    before = torch.optim.lr_scheduler.ExponentialLR(optimizers[0], 0.7) if is_made_before else None
    step = make_step(model, optimizers[0])
    scheduler = before or torch.optim.lr_scheduler.ExponentialLR(optimizers[0], 0.7)
    for batch in sets:
        found.append(step(batch))
        scheduler.step()
    graph = step._graph
    assert step(sets[0]).isfinite()
    assert step._graph is graph is not None  # another rate is no reason to capture again
    exact = plain_losses(
        twin, optimizers[1], sets, scheduler=torch.optim.lr_scheduler.ExponentialLR(optimizers[1], 0.7)
    )
    torch.testing.assert_close(torch.stack(found), exact, **CLOSE)


def test_rates_and_options_that_are_assigned():
    model, sets = Network().double().cuda(), on_gpu()
    twin, found, expected = copy.deepcopy(model), [], []
    optimizer, other = adam(model), adam(twin)
    step = make_step(model, optimizer)
    for number, batch in enumerate(sets):
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + number)
        other.param_groups[0]["lr"] = on_device(0.1 / (1 + number))
        for each in (optimizer, other):
            each.param_groups[0]["weight_decay"] = 0.0 if number < 6 else 1.0
        for each in (model, twin):
            each.head.requires_grad_(number < 8)
        found.append(step(batch))
        expected.append(plain_losses(twin, other, [batch])[0])
    torch.testing.assert_close(torch.stack(found), torch.stack(expected), **CLOSE)


def test_optimizer_that_goes_on_from_a_state():
    model, sets = Network().double().cuda(), on_gpu()
    twin = copy.deepcopy(model)
    optimizer, other = adam(model), adam(twin)
    step = make_step(model, optimizer)
    for batch in sets:
        step(batch)
    kept = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    first = torch.stack([step(batch) for batch in sets])
    model.load_state_dict(kept[0])
    optimizer.load_state_dict(kept[1])
    torch.testing.assert_close(torch.stack([step(batch) for batch in sets]), first, **CLOSE)
    torch.testing.assert_close(plain_losses(twin, other, [*sets, *sets])[len(sets) :], first, **CLOSE)


def test_dropout_is_drawn_anew_by_every_replay():
    batch = on_gpu((5,))[0]
    model = Network(dropout=0.5).double().cuda()
    step = make_step(model, adam(model, lr=0.0))
    assert len({float(step(batch)) for _ in range(10)}) > 5


def test_bf16():
    sets = on_gpu(dtype=torch.float)
    model = Network().cuda()
    twin = copy.deepcopy(model)
    step = make_step(model, autocast=torch.bfloat16)
    found = torch.stack([step(batch) for batch in sets])
    assert step._graph is not None
    torch.testing.assert_close(found, plain_losses(twin, adam(twin), sets, autocast=True), rtol=0.05, atol=0.05)
    moved = torch.stack([(a - b).norm() for a, b in zip(model.parameters(), twin.parameters(), strict=True)])
    assert float(moved.detach().max()) < 0.05


@pytest.mark.parametrize("layer", LAYERS)
def test_one_graph_for_all_steps(layer):
    batch = on_gpu((20,))[0]
    model = Network(layer, norm="layer of all nodes", on_nodes=True).double().cuda()
    twin = copy.deepcopy(model)
    step = make_step(model, data=batch)
    found = torch.stack([step() for _ in range(8)])
    assert step._graph is not None
    torch.testing.assert_close(found, plain_losses(twin, adam(twin), [batch] * 8), **CLOSE)


def test_loss_that_waits_for_the_device_is_refused():
    model = Network().double().cuda()

    def loss(model, data):
        found = absolute_errors(model, data)
        return found * (2.0 if found.sum().item() > 0 else 1.0)

    step = CapturedStep(model, adam(model), loss, num_relations=3)
    sets = on_gpu()
    for batch in sets[:2]:
        step(batch)
    with pytest.raises(RuntimeError, match="must not cause a host-device sync: give readouts the number of graphs"):
        step(sets[2])
    assert torch.cuda.get_sync_debug_mode() == 0
    other = Network().double().cuda()  # gradients of the first were made on another stream
    plain = CapturedStep(other, adam(other), loss, num_relations=3, capture=False)
    assert all(plain(batch).isfinite() for batch in on_gpu())


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda p: torch.optim.Adam(p), "capturable=True for a capture, got a Adam without it"),
        (lambda p: torch.optim.SGD(p), "fused=True for a capture, got a SGD without it"),
    ],
)
def test_optimizer_that_cannot_be_captured_is_refused(make, match):
    model = Network().cuda()
    with pytest.raises(ValueError, match=match):
        make_step(model, make(model.parameters()))
    make_step(model, make(model.parameters()), capture=False)


def test_captured_step_is_several_times_as_fast():
    sets = on_gpu((32,) * 20, dtype=torch.float)
    torch.manual_seed(0)
    options = {"num_layers": 8, "in_channels": 6, "readout": "sum"}
    model = gp.nn.GNN("mrs-gcn", 64, 1, **options).cuda()

    def loss(model, data):
        return (model(data.x, data.adj, batch=data.batch, batch_size=data.num_graphs).squeeze(1) - data.y).abs()

    def seconds(step):
        for batch in sets:
            step(batch)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for batch in sets:
            step(batch)
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / len(sets)

    captured, eager = (
        seconds(CapturedStep(model, adam(model), loss, num_relations=3, capture=c)) for c in (True, False)
    )
    print(f"captured {captured:.3f} ms, eager {eager:.3f} ms a step")
    assert captured < eager / 3

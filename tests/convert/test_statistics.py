"""Batch norms inside of messages: each copy has running statistics of its own, and a call updates them once."""

import copy

import pytest
import torch
from torch_geometric.nn import MLP, EdgeConv, MessagePassing
from torch_geometric.utils import softmax

from graphprism import to_mrs

torch.manual_seed(0)
N, F, OUT = 20, 4, 3
EDGES = torch.randint(N, (2, 70))
X = torch.randn(N, F, dtype=torch.double)


class Normed(MessagePassing):
    """A batch norm before messages, one in them behind a linear map, and one after them."""

    def __init__(self, attends: bool = False, passes: int = 1) -> None:
        super().__init__(aggr="sum")
        self.before, self.within, self.behind = (torch.nn.BatchNorm1d(size) for size in (F, F, F))
        self.lin, self.att = torch.nn.Linear(F, F), torch.nn.Linear(F, 1)
        self.attends, self.passes = attends, passes

    def forward(self, x, edge_index):
        h = self.before(x)
        for _ in range(self.passes):
            h = self.behind(self.propagate(edge_index, x=h))
        return h

    def message(self, x_j, index, ptr, size_i):
        rows = self.within(self.lin(x_j)).tanh()
        return rows * softmax(self.att(x_j), index, ptr, size_i) if self.attends else rows


LAYERS = {
    "edge": lambda: EdgeConv(MLP([2 * F, 6, OUT])),
    "own": Normed,
    "attention": lambda: Normed(attends=True),
    "two passes": lambda: Normed(passes=2),
}
each = pytest.mark.parametrize("layer", LAYERS)


def both(layer, **options):
    torch.manual_seed(0)
    plain = LAYERS[layer]().double()
    return plain, to_mrs(plain, "degree", example=(X, EDGES), **options)


@pytest.mark.parametrize("layer", ["edge", "own", "attention"])
def test_a_pass_in_training_leaves_the_function_of_the_plain_layer(layer):
    plain, model = both(layer)
    for mode in (True, True, False):
        plain.train(mode)
        model.train(mode)
        torch.testing.assert_close(model(X, EDGES), plain(X, EDGES))
    check_statistics(model.model, plain, 1e-9)


def check_statistics(converted, plain, rtol):
    assert converted.statistics
    for number, name in enumerate(converted.statistics):
        if "behind" not in name and "num" not in name:  # the copies end with their messages
            for own in converted.get_buffer(f"statistics_{number}"):
                torch.testing.assert_close(own, plain.get_buffer(name), rtol=rtol, atol=rtol)


def test_two_passes_of_messages_update_them_twice():
    plain, model = both("two passes")
    for layer in (plain, model.model.conv):
        layer.within.momentum = 1e-4  # small: updates add up, here and there
    plain.train()(X, EDGES)
    model.train()(X, EDGES)
    check_statistics(model.model, plain, 1e-7)
    assert (plain.within.running_mean.abs() > 1e-6).all()


def test_compiled_code_updates_them_once():
    plain, model = both("own")
    types = torch.zeros(EDGES.size(1), dtype=torch.long)
    compiled = torch.compile(model, backend="aot_eager")
    for mode in (True, False):
        plain.train(mode)
        model.train(mode)
        torch.testing.assert_close(compiled(X, EDGES, edge_type=types), plain(X, EDGES))


def test_statistics_are_those_of_the_rows_of_each_copy():
    _, model = both("own")
    converted = model.train().model
    converted.conv.within.momentum = 1.0  # the last call
    for deviation in converted.deviations:
        torch.nn.init.normal_(deviation)
    model(X, EDGES)
    own = converted.conv.lin
    weight, bias = (
        converted.together(common, converted.deviations[converted.names.index(f"lin.{name}")], dim=0)
        for name, common in (("weight", own.weight), ("bias", own.bias))
    )
    scale, shift = (
        converted.together(common, converted.deviations[converted.names.index(f"before.{name}")], dim=0)
        for name, common in (("weight", converted.conv.before.weight), ("bias", converted.conv.before.bias))
    )
    mean = converted.get_buffer(f"statistics_{converted.statistics.index('within.running_mean')}")
    for r in range(3):
        rows = torch.nn.functional.batch_norm(X, None, None, scale[r], shift[r], training=True)[EDGES[0]]
        torch.testing.assert_close(mean[r], (rows @ weight[r].t() + bias[r]).mean(dim=0))
    assert not torch.allclose(mean[0], mean[1])


@each
def test_state_without_them_has_those_of_the_layer(layer):
    _, model = both(layer)
    model.train()(X, EDGES)
    state = {key: value for key, value in model.state_dict().items() if ".statistics_" not in key}
    other = copy.deepcopy(model)
    other.load_state_dict(state)
    for number, name in enumerate(other.model.statistics):
        own = other.model.get_buffer(f"statistics_{number}")
        assert torch.equal(own, other.model.conv.get_buffer(name).expand_as(own))
    other.load_state_dict(model.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(other.buffers(), model.buffers(), strict=True))


def test_reset_parameters_resets_them():
    _, model = both("edge")
    model.train()(X, EDGES)
    model.model.reset_parameters()
    names = model.model.statistics
    assert all(not model.model.get_buffer(f"statistics_{n}").any() for n, name in enumerate(names) if "mean" in name)


@each
def test_evaluation_leaves_them_as_they_are(layer):
    _, model = both(layer)
    model.train()(X, EDGES)
    before = [(id(buffer), buffer._version) for buffer in model.eval().buffers()]
    model(X, EDGES)
    assert [(id(buffer), buffer._version) for buffer in model.buffers()] == before

"""A stack of plain GIN layers for many runs against one map after another."""

import pytest
import torch

from graphprism.ops.batched.network_stack import network_stack, reference
from tests.ops.cases import GRAPHS, normal
from tests.ops.tables import both_of

RUNS, WIDTH = 3, 4


def leaves_of(nodes, layers, maps):
    weights = [normal(RUNS, WIDTH, WIDTH, seed=10 + number) for number in range(layers * maps)]
    biases = [normal(RUNS, WIDTH, seed=50 + number) for number in range(layers * maps)]
    return [normal(RUNS, nodes, WIDTH), *weights, *biases]


@pytest.mark.parametrize(("layers", "maps"), [(1, 1), (2, 3), (3, 2)])
@pytest.mark.parametrize("name", GRAPHS)
def test_runs_are_those_alone(name, layers, maps):
    _, table = both_of(name, "sym", num_relations=1)
    leaves, eps = leaves_of(table.size[0], layers, maps), [normal(RUNS, seed=90 + k).detach() for k in range(layers)]

    def run(function, x, eps, *parameters):
        count = len(parameters) // 2
        return function(x, table, eps, parameters[:count], parameters[count:])

    ours = torch.vmap(lambda *each: run(network_stack, *each))(leaves[0], eps, *leaves[1:])
    alone = [run(reference, leaves[0][k], [e[k] for e in eps], *(p[k] for p in leaves[1:])) for k in range(RUNS)]
    theirs = [torch.stack(each) for each in zip(*alone, strict=True)]
    torch.testing.assert_close(list(ours), theirs)
    # of the last state alone, and of all of them
    for used in ([-1], range(layers)):
        found, expected = (
            torch.autograd.grad(sum(out[k].exp().sum() for k in used), leaves, retain_graph=True)
            for out in (ours, theirs)
        )
        torch.testing.assert_close(found, expected)


def test_more_relations_are_refused():
    _, table = both_of("random")
    with pytest.raises(ValueError, match="`adj` must have one relation, got 3"):
        network_stack(normal(30, 4), table, [], [], [])

"""Your own layer: write one message function, and let the laws of message passing check it.

A layer of relations must not depend on the numbering of nodes or the order of edges, must treat a batch as its parts,
and must be its plain partner where all relations have equal weights. Two layers are checked: a right one, and one with
a bug that training would never show.
"""

# %%
# `MRSConv` turns a message function into a layer with one of them per relation: here messages are differences of both
# ends, and the largest one counts.
from collections.abc import Callable

import torch

import graphprism as gp
from graphprism.testing import (
    Example,
    assert_batch_equals_parts,
    assert_edge_order_invariant,
    assert_every_parameter_has_gradient,
    assert_permutation_equivariant,
    molecules,
)


class Difference(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 16)

    def forward(self, x_i, x_j):
        return self.lin(x_j - x_i)


# %%
# The same with a bug: it subtracts a mean over the whole batch, so that graphs in one batch see each other, and it has
# a bias that the mean takes away again.
class Centred(Difference):
    def forward(self, x_i, x_j):
        out = super().forward(x_i, x_j)
        return out - out.mean(dim=0)


def layer(message: Callable[[], torch.nn.Module]) -> gp.nn.MRSConv:
    return gp.nn.MRSConv(message, aggr="max", num_relations=3, start="independent").double()


# %%
# Examples are graphs with features and relations; float64, so that rounding does not look like a broken law.
torch.manual_seed(0)
examples = []
for graph in molecules(3):
    types = gp.splitting.by_order("degree", "ppr")(graph)
    examples.append(Example(torch.randn(graph.num_nodes, 8, dtype=torch.float64), graph.edge_index, types))

LAWS = {
    "numbering of nodes": lambda conv: assert_permutation_equivariant(conv, examples[0]),
    "order of edges": lambda conv: assert_edge_order_invariant(conv, examples[0]),
    "batch equals parts": lambda conv: assert_batch_equals_parts(conv, examples),
    "every parameter learns": lambda conv: assert_every_parameter_has_gradient(conv, examples[0]),
}

# %%
# A broken law raises, with a sentence that names it.
print(f"{'law':24}{'Difference':12}Centred")
for law, check in LAWS.items():
    found = []
    for message in (Difference, Centred):
        try:
            check(layer(message))
            found.append("holds")
        except AssertionError as error:
            found.append(f"BROKEN: {str(error).splitlines()[0]}")
    print(f"{law:24}{found[0]:12}{found[1]}")

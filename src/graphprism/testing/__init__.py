"""Edge-case graphs and laws of message passing, for our tests and for your own layers."""

from graphprism.testing.laws import (
    Example,
    assert_batch_equals_parts,
    assert_deterministic,
    assert_edge_order_invariant,
    assert_equals_plain,
    assert_every_parameter_has_gradient,
    assert_gradients_correct,
    assert_implementations_agree,
    assert_permutation_equivariant,
    assert_starts_as_plain,
)
from graphprism.testing.molecules import molecule, molecules
from graphprism.testing.zoo import TOLERANCES, graph_zoo, random_graph, tolerance

__all__ = [
    "TOLERANCES",
    "Example",
    "assert_batch_equals_parts",
    "assert_deterministic",
    "assert_edge_order_invariant",
    "assert_equals_plain",
    "assert_every_parameter_has_gradient",
    "assert_gradients_correct",
    "assert_implementations_agree",
    "assert_permutation_equivariant",
    "assert_starts_as_plain",
    "graph_zoo",
    "molecule",
    "molecules",
    "random_graph",
    "tolerance",
]

import torch

from graphprism.ops import type_rows
from tests.ops.cases import normal

TYPES = torch.tensor([[3, 0, 3, 3, 1], [2, 2, 0, 1, 2]])


def test_one_table_is_an_embedding():
    weight = normal(4, 3)
    for types in (TYPES[0], TYPES, TYPES[:, :0]):
        assert type_rows(types, weight).equal(torch.nn.functional.embedding(types, weight))


def test_many_runs_have_tables_of_their_own():
    weight = normal(2, 4, 3)
    ours = torch.vmap(type_rows)(TYPES, weight)
    theirs = torch.stack([torch.nn.functional.embedding(*each) for each in zip(TYPES, weight, strict=True)])
    assert ours.equal(theirs)
    grad = normal(2, 5, 3, seed=1).detach()
    found, expected = (torch.autograd.grad(out, weight, grad)[0] for out in (ours, theirs))
    torch.testing.assert_close(found, expected)
    assert found[0, 2].count_nonzero() == 0  # a type that run 0 does not have


def test_several_columns_of_types_and_small_integers():
    weight, types = normal(2, 4, 3), TYPES.view(2, 5, 1).expand(2, 5, 2).to(torch.uint8)
    ours = torch.vmap(type_rows)(types, weight)
    assert ours.shape == (2, 5, 2, 3)
    assert ours.equal(torch.stack([each[kinds] for each, kinds in zip(weight, types.long(), strict=True)]))


def test_types_that_all_runs_share():
    weight = normal(2, 4, 3)
    ours = torch.vmap(type_rows, in_dims=(None, 0))(TYPES[0], weight)
    assert ours.equal(weight[:, TYPES[0]])
    (found,) = torch.autograd.grad(ours.square().sum(), weight)
    (expected,) = torch.autograd.grad(weight[:, TYPES[0]].square().sum(), weight)
    torch.testing.assert_close(found, expected)

import os

import pytest
import torch

from graphprism.ops.batched.type_rows import READ_ROWS, read_rows, sum_types, type_rows
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


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.mark.parametrize("impl", ["reference", pytest.param("triton", marks=[] if INTERPRETED else pytest.mark.gpu)])
@pytest.mark.parametrize("number", [torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize(("runs", "rows", "num_types", "channels"), [(2, 5, 4, 3), (3, 150, 28, 144), (1, 64, 119, 20)])
def test_rows_and_their_sums(runs, rows, num_types, channels, number, impl):
    if impl not in READ_ROWS:
        pytest.skip("the kernels of Triton cannot run on this machine")
    device = "cpu" if impl == "reference" or INTERPRETED else "cuda"
    generator = torch.Generator().manual_seed(0)
    # as in lockstep: columns of tensors that hold more
    types = torch.randint(num_types, (runs, 2 * rows), generator=generator).to(device, number)[:, ::2]
    weight = torch.randn(runs, 2, num_types, channels, generator=generator).to(device)[:, 1]
    grad = torch.randn(runs, rows, channels, generator=generator).to(device)
    found = read_rows(types, weight, impl=impl)
    sums = sum_types(types, grad, num_types, impl=impl)
    for run in range(runs):
        assert found[run].equal(weight[run, types[run].long()])
        for kind in range(num_types):
            expected = grad[run, types[run] == kind].double().sum(0)
            torch.testing.assert_close(sums[run, kind].double(), expected, rtol=1e-5, atol=1e-5)


def test_an_unknown_form_is_an_error():
    with pytest.raises(ValueError, match=r"`impl` must be one of .*, got 'fast'"):
        read_rows(TYPES, normal(2, 4, 3), impl="fast")

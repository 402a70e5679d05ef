"""Every convolution of PyG is converted to the same function, or refused; CONVERSION.md says which."""

import pytest
import torch
from torch_geometric.nn import conv

from graphprism.convert import to_mrs
from tests.convert.cases import CASES, REASONS, TABLE, outcome, table
from tests.pairwise import all_pairs

TRIED = [name for name in CASES if name not in REASONS]


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).detach().abs().max() / expected.detach().abs().max().clamp(min=1e-30))


def tensors(out: object) -> list[torch.Tensor]:
    if isinstance(out, torch.Tensor):
        return [out]
    return [tensor for each in (out.values() if isinstance(out, dict) else out) for tensor in tensors(each)]


def inputs(args: tuple, dtype: torch.dtype) -> tuple[tuple, list[torch.Tensor]]:
    leaves = []

    def moved(value: object) -> object:
        if isinstance(value, dict):
            return {key: moved(each) for key, each in value.items()}
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        leaves.append(value.to(dtype, copy=True).requires_grad_())
        return leaves[-1]

    return tuple(moved(value) for value in args), leaves


def out_and_gradients(model: torch.nn.Module, args: tuple, leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    out = tensors(model(*args))
    total = sum((each * torch.linspace(-1, 1, each.numel(), dtype=each.dtype).view_as(each)).sum() for each in out)
    grads = torch.autograd.grad(total, leaves, allow_unused=True)
    return [*out, *(grad for grad in grads if grad is not None)]


def test_every_convolution_of_pyg_is_a_case():
    assert sorted(CASES) == sorted(set(conv.__all__) - {"MessagePassing"})


def test_conversion_table_is_up_to_date():
    assert TABLE.read_text("utf-8") == table(), "run `python tests/convert/cases.py`"


@all_pairs(name=TRIED, split=["degree", "soft"], dtype=[torch.float64, torch.float32])
def test_converted_convolution_is_the_same_function(name, dtype, split):
    if outcome(name)[0] == "refused":
        with pytest.raises(ValueError, match="must have"):
            to_mrs(CASES[name][0]().double(), example=CASES[name][1])
        return
    make, args = CASES[name]
    torch.manual_seed(0)
    plain = make().to(dtype).eval()
    args, leaves = inputs(args, dtype)
    if split == "soft":
        split = soft
    converted = to_mrs(plain, split, num_relations=3, example=args)
    parameters = sum(parameter.numel() for parameter in plain.parameters())
    assert sum(parameter.numel() for parameter in converted.parameters()) > parameters
    expected, found = out_and_gradients(plain, args, leaves), out_and_gradients(converted, args, leaves)
    assert len(expected) == len(found)
    limit = 1e-5 if dtype == torch.float32 else 1e-12
    assert max(map(relative_error, found, expected)) < limit


def soft(graph) -> torch.Tensor:
    """Scores that sum to one: equal copies are the plain layer."""
    high = graph.edge_index[0] > graph.edge_index[1]
    return torch.stack([0.5 * high, 0.5 - 0.5 * high.double(), torch.full(high.shape, 0.5)], dim=1).double()


def test_at_least_fifty_convolutions_work():
    assert sum(outcome(name)[0] != "refused" for name in CASES) >= 50

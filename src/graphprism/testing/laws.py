"""Laws that every message-passing layer obeys, as assertions for our layers and for yours.

A *layer* is any callable ``layer(x, edge_index, edge_type, edge_weight)`` that returns one row per node. Wrap a layer
with fewer arguments: ``lambda x, edge_index, edge_type, edge_weight: conv(x, edge_index)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from graphprism.testing.zoo import tolerance

Layer = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


@dataclass(frozen=True, eq=False)
class Example:
    """An input of a layer: ``x`` (N, F), ``edge_index`` (2, E), ``edge_type`` (E,) or (E, R), ``edge_weight`` (E,)."""

    x: Tensor
    edge_index: Tensor
    edge_type: Tensor | None = None
    edge_weight: Tensor | None = None

    def run(self, layer: Layer) -> Tensor:
        """The output of ``layer`` on this input."""
        return layer(self.x, self.edge_index, self.edge_type, self.edge_weight)


def assert_permutation_equivariant(layer: Layer, example: Example, seed: int = 0) -> None:
    """Renumbering the nodes renumbers the rows of the output and changes nothing else."""
    new_number = torch.randperm(example.x.size(0), generator=torch.Generator().manual_seed(seed))
    old_number = new_number.argsort()
    renumbered = replace(example, x=example.x[old_number], edge_index=new_number[example.edge_index])
    _assert_close(
        renumbered.run(layer)[new_number], example.run(layer), "the output must follow the numbering of nodes"
    )


def assert_edge_order_invariant(layer: Layer, example: Example, seed: int = 0) -> None:
    """The order in which edges are listed does not matter."""
    order = torch.randperm(example.edge_index.size(1), generator=torch.Generator().manual_seed(seed))
    types, weight = example.edge_type, example.edge_weight
    shuffled = replace(
        example,
        edge_index=example.edge_index[:, order],
        edge_type=None if types is None else types[order],
        edge_weight=None if weight is None else weight[order],
    )
    _assert_close(shuffled.run(layer), example.run(layer), "the output must not depend on the order of edges")


def assert_batch_equals_parts(layer: Layer, examples: Sequence[Example]) -> None:
    """A block-diagonal batch of graphs gives the same output as each graph alone."""
    shift, shifted = 0, []
    for example in examples:
        shifted.append(example.edge_index + shift)
        shift += example.x.size(0)
    batch = Example(
        torch.cat([example.x for example in examples]),
        torch.cat(shifted, dim=1),
        _cat([example.edge_type for example in examples]),
        _cat([example.edge_weight for example in examples]),
    )
    parts = torch.cat([example.run(layer) for example in examples])
    _assert_close(batch.run(layer), parts, "a batch of graphs must give the outputs of its graphs")


def assert_equals_plain(layer: Layer, plain: Callable[[Tensor, Tensor], Tensor], example: Example) -> None:
    """A layer with equal weights in all relations is its plain partner ``plain(x, edge_index)``, gradient included."""
    x = example.x.detach().clone().requires_grad_()
    ours = replace(example, x=x).run(layer)
    theirs = plain(x, example.edge_index)
    _assert_close(ours, theirs, "equal weights in all relations must give the plain layer")
    if ours.requires_grad and theirs.requires_grad:
        grads = [torch.autograd.grad(out.square().sum(), x)[0] for out in (ours, theirs)]
        _assert_close(grads[0], grads[1], "equal weights in all relations must give the plain layer's gradient")


def assert_starts_as_plain(make: Callable[..., torch.nn.Module], example: Example, num_relations: int = 3) -> None:
    """A shared start equals the plain layer bit for bit, and with infinite decay also stays equal in training.

    ``make(num_relations=, decay=)`` makes a layer with ``start="shared"``; with one relation it is the plain layer.
    """
    outputs = []
    for relations, decay in ((1, 1.0), (num_relations, 1.0), (num_relations, float("inf"))):
        torch.manual_seed(0)
        layer = make(num_relations=relations, decay=decay).to(example.x.dtype)
        types = None if relations == 1 else example.edge_type
        run = replace(example, edge_type=types)
        outputs.append([run.run(layer)])
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.01, weight_decay=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            run.run(layer).square().sum().backward()
            optimizer.step()
        outputs[-1].append(run.run(layer))
    plain, held, infinite = outputs
    _assert_close(held[0], plain[0], "a shared start must be the plain layer")
    _assert_close(infinite[0], plain[0], "a shared start must be the plain layer")
    _assert_close(infinite[1], plain[1], "an infinite decay must keep the plain layer")


def assert_every_parameter_has_gradient(module: torch.nn.Module, example: Example) -> None:
    """Every parameter gets a gradient that is finite and not all zero."""
    module.zero_grad()
    out = example.run(module)
    (out * torch.linspace(0.5, 1.5, out.numel()).view_as(out).to(out)).sum().backward()
    for name, parameter in module.named_parameters():
        if parameter.grad is None or not bool(parameter.grad.isfinite().all()) or not bool(parameter.grad.any()):
            found = "none" if parameter.grad is None else "only zeros, or NaN or infinity"
            raise AssertionError(f"parameter `{name}` must get a gradient, got {found}")


def assert_gradients_correct(layer: Layer, example: Example) -> None:
    """Gradients for ``x``, ``edge_weight`` and soft ``edge_type`` pass ``gradcheck`` (needs float64)."""
    soft = example.edge_type is not None and example.edge_type.is_floating_point()
    inputs = {"x": example.x, "edge_weight": example.edge_weight, "edge_type": example.edge_type if soft else None}
    names = [name for name, tensor in inputs.items() if tensor is not None]

    def run(*tensors: Tensor) -> Tensor:
        return replace(example, **dict(zip(names, tensors, strict=True))).run(layer)

    leaves = tuple(inputs[name].detach().clone().requires_grad_() for name in names)  # type: ignore[union-attr]
    torch.autograd.gradcheck(run, leaves)


def assert_implementations_agree(
    implementations: Mapping[str, Callable[..., Tensor]], *inputs: Any, reference: str = "reference"
) -> None:
    """Every implementation matches the reference: output, and gradients of all inputs that require one."""
    wanted = [value for value in inputs if isinstance(value, Tensor) and value.requires_grad]
    expected = _output_and_gradients(implementations[reference], inputs, wanted)
    for name, implementation in implementations.items():
        found = _output_and_gradients(implementation, inputs, wanted)
        for ours, theirs in zip(found, expected, strict=True):
            _assert_close(ours, theirs, f"`{name}` must agree with `{reference}`")


def assert_deterministic(layer: Layer, example: Example) -> None:
    """The same input gives the same bits, forward and backward."""
    x = example.x.detach().clone().requires_grad_()
    runs = [_output_and_gradients(replace(example, x=x).run, (layer,), [x]) for _ in range(2)]
    for first, second in zip(*runs, strict=True):
        if not torch.equal(first, second):
            raise AssertionError("the same input must give the same bits twice, got different ones")


def _output_and_gradients(function: Callable[..., Tensor], inputs: Sequence[Any], wanted: list[Tensor]) -> list[Tensor]:
    out = function(*inputs)
    if not wanted or not out.requires_grad:
        return [out.detach()]
    gradients = torch.autograd.grad(out.square().sum(), wanted, allow_unused=True, materialize_grads=True)
    return [out.detach(), *gradients]


def _cat(tensors: list[Tensor | None]) -> Tensor | None:
    present = [tensor for tensor in tensors if tensor is not None]
    return torch.cat(present) if present else None


def _assert_close(ours: Tensor, theirs: Tensor, law: str) -> None:
    close = tolerance(theirs.dtype)
    torch.testing.assert_close(
        ours, theirs, rtol=close["rtol"], atol=close["atol"], msg=lambda found: f"{law}\n{found}"
    )

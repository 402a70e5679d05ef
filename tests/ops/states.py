"""Inputs of `relu_normalize`, and what it computes out of PyTorch's own functions."""

import copy
from functools import reduce

import torch

# What may stand before and after ReLU and the lengths.
PARTS = [
    (),
    ("second",),
    ("bias",),
    ("kept",),
    ("largest",),
    ("second", "bias"),
    ("second", "bias", "largest"),
    ("second", "bias", "kept", "largest"),
]


class States:
    """Random rows, one of which ReLU takes to zero; ``names`` are the other inputs that are there."""

    def __init__(self, shape, names, dtype=torch.double, device="cpu"):
        generator = torch.Generator().manual_seed(0)

        def draw(*size):
            return torch.randn(*size, generator=generator, dtype=torch.double).to(dtype).to(device)

        every = {"x": draw(*shape), "second": draw(*shape), "bias": draw(shape[-1])}
        every["kept"] = (torch.rand(shape, generator=generator) < 0.7).to(device)
        every["largest"] = draw(*shape).abs() / shape[-1] ** 0.5
        for rows in (each for each in (every["x"], every["second"]) if each.numel() > 0):
            rows[0] = -10
        self.inputs = {name: every[name] for name in ("x", *names)}
        self.inputs = {n: t.requires_grad_() if t.is_floating_point() else t for n, t in self.inputs.items()}

    def changed(self, function):
        """The same with every input that is not a boolean replaced."""
        other = copy.copy(self)
        other.inputs = {n: function(n, t.detach()) if t.requires_grad else t for n, t in self.inputs.items()}
        return other

    def as_double(self):
        return self.changed(lambda _, tensor: tensor.double().requires_grad_())

    def gradients(self, function, used="both", **more):
        """Of all inputs, for a loss of the rows, of the largest states, or of both."""
        rows, largest = function(**self.inputs, **more)
        # twice as much of one, so that they cannot be mixed up; constants, so that rounding does not add up
        losses = {"rows": (rows, 1), "largest": (largest, 2)}
        loss = sum(
            (scale * out * torch.linspace(-1, 1, out.numel(), device=out.device).reshape(out.shape)).sum()
            for name, (out, scale) in losses.items()
            if used in (name, "both")
        )
        wanted = [tensor for tensor in self.inputs.values() if tensor.requires_grad]
        return torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)


def written_out(x, second=None, bias=None, kept=None, largest=None):
    total = reduce(torch.add, (each for each in (x, second, bias) if each is not None))
    rows = torch.nn.functional.normalize((total if kept is None else total * kept / 0.7).relu(), dim=-1)
    return rows, rows if largest is None else torch.where(rows > largest, rows, largest)

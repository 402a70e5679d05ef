"""The optimiser of a run, its state, and the permutations of its data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from graphprism._checks import check_whole
from graphprism.training.engine import RunState
from graphprism.training.run import Run

_CLASSES: dict[str, type[torch.optim.Optimizer]] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}
# Whether weight decay is decoupled from the gradient, for lockstep, which implements these optimisers itself.
IS_DECOUPLED = {"adamw": True, "adam": False}


def make_optimizer(
    run: Run, parameters: Iterable[torch.nn.Parameter] | list[dict[str, Any]], capturable: bool = False
) -> torch.optim.Optimizer:
    """AdamW or Adam with one fused kernel per step, on CPUs and GPUs.

    Args:
        run: Which optimiser, with its learning rate and weight decay.
        parameters: The parameters to train, or `parameter_groups`.
        capturable: Whether a CUDA graph may capture its step.
    """
    make: Any = _CLASSES[run.optimizer]
    optimizer: torch.optim.Optimizer = make(
        parameters, lr=run.lr, weight_decay=run.weight_decay, fused=True, capturable=capturable
    )
    set_learning_rate(optimizer, run.lr)
    return optimizer


def parameter_groups(run: Run, network: torch.nn.Module) -> list[dict[str, Any]]:
    """The parameters of a network, in groups where it has some with a weight decay or learning rate of their own."""
    find: Any = getattr(network, "parameter_groups", None)
    groups: list[dict[str, Any]] = [{"params": [*network.parameters()]}] if find is None else find(run.weight_decay)
    return groups


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of every group of parameters, times the factor of the group."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("lr_factor", 1.0)


def moments(
    network: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[dict[str, Tensor], dict[str, Tensor], int]:
    """Copies of both moments by the name of the parameter, on the CPU, and the number of steps taken."""
    states = optimizer.state_dict()["state"]
    names = names_of(network, optimizer)
    first, second = (
        {names[number]: parts[key].detach().to("cpu", copy=True) for number, parts in states.items()}
        for key in ("exp_avg", "exp_avg_sq")
    )
    return first, second, max((int(parts["step"]) for parts in states.values()), default=0)


def names_of(network: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Names of the parameters in the order of the optimiser, group by group."""
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    return [names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]


def load_moments(network: torch.nn.Module, optimizer: torch.optim.Optimizer, state: RunState) -> None:
    """Restores what `moments` returned; the settings of the optimiser do not change."""
    names = names_of(network, optimizer)
    step = torch.tensor(float(state["steps"]))
    states = {
        number: {"step": step.clone(), "exp_avg": state["first"][name], "exp_avg_sq": state["second"][name]}
        for number, name in enumerate(names)
        if name in state["first"]
    }
    optimizer.load_state_dict({**optimizer.state_dict(), "state": states})


def epoch_order(seed: int, epoch: int, n: int) -> Tensor:
    """A permutation of 0..n-1 that depends only on ``seed`` and ``epoch``, on the CPU.

    No random state is read or changed, so that a resumed run, and another engine, sees the same permutation.

    >>> epoch_order(0, 0, 5).tolist() == epoch_order(0, 0, 5).tolist()
    True
    """
    for name, value in (("seed", seed), ("epoch", epoch), ("n", n)):
        check_whole(name, value)
    generator = torch.Generator().manual_seed(mixed_seed("order", seed, epoch))
    return torch.randperm(n, generator=generator)


def mixed_seed(*words: str | int) -> int:
    """Hashes words and numbers to a seed of 63 bits: similar arguments give unrelated seeds.

    >>> mixed_seed("order", 0, 1) == mixed_seed("order", 1, 0)
    False
    """
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:8], "little") >> 1

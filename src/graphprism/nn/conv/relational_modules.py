"""One function per relation, from any module."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch_geometric.nn.inits import reset

from graphprism._checks import check_positive
from graphprism.nn.conv.operands import made_by
from graphprism.nn.conv.relational_weight import Together, check_start, deviation_size


class RelationalModules(torch.nn.Module):
    """R copies of a module with different parameters, shared or independent as in `RelationalParameter`.

    Args:
        name: name of the argument, for error messages.
        factory: makes one module; called once for a shared start, else once for every relation.
        num_relations: R.
        start: ``"shared"`` or ``"independent"``.
        decay: how strongly a shared start ties the relations to the common parameters, 0 for not at all.
        deviation: ``"full"``, or ``"diagonal"`` for one factor for each row of a matrix.

    Attributes:
        each: the modules, one for each relation; a single one with a shared start and decay.
        deviations: (R - 1, ...) for each parameter of the single one, (R - 1, F') for a matrix with F' factors.
    """

    def __init__(
        self,
        name: str,
        factory: Callable[[], torch.nn.Module],
        num_relations: int,
        start: str,
        decay: float,
        deviation: str = "full",
    ) -> None:
        super().__init__()
        check_positive("num_relations", num_relations)
        check_start(start, decay, deviation)
        must = "a function that makes a module, one for every relation"
        if isinstance(factory, torch.nn.Module):
            raise TypeError(f"`{name}` must be {must}, got a module")
        self.num_relations, self.start = num_relations, start
        self.is_held = start == "shared" and num_relations > 1
        self.together = Together(num_relations, decay) if self.is_held else None
        number = 1 if self.is_held else num_relations
        self.each = torch.nn.ModuleList(made_by(name, factory, must) for _ in range(number))
        held = list(self.each[0].named_parameters()) if self.is_held else []
        if any(is_lazy(parameter) for _, parameter in held):
            raise ValueError(f'`{name}` must know its sizes with start="shared", got a module that waits for an input')
        self.names = [name for name, _ in held]
        self.deviations = torch.nn.ParameterList(
            p.new_zeros(deviation_size(tuple(p.shape), num_relations, deviation, dim=0)) for _, p in held
        )
        self._register_load_state_dict_pre_hook(self._rename)  # type: ignore[no-untyped-call]

    def reset_parameters(self) -> None:
        """Draws new weights in every module that has ``reset_parameters``; deviations become zero."""
        for network in self.each:
            reset(network)
        for deviation in self.deviations:
            torch.nn.init.zeros_(deviation)

    def functions(self) -> Sequence[Callable[..., Any]]:
        """The function of each relation."""
        if self.together is None:
            return list(self.each)
        module = self.each[0]
        with nullcontext() if torch.compiler.is_compiling() else _ALONE:
            common = dict(module.named_parameters())
        pairs = zip(self.names, self.deviations, strict=True)
        stacks = {name: self.together(common[name], deviation, dim=0) for name, deviation in pairs}
        return [
            partial(_call, module, {name: stack[r] for name, stack in stacks.items()})
            for r in range(self.num_relations)
        ]

    def _rename(self, state: dict[str, Any], prefix: str, *_: Any) -> None:
        """Version 0.1 had the modules of all relations in a plain list; deviations may be those of another decay."""
        for key in [key for key in state if key.startswith(prefix)]:
            number, _dot, rest = key.removeprefix(prefix).partition(".")
            if number.isdigit():
                state[f"{prefix}each.{number}.{rest}"] = state.pop(key)
        keys = [f"{prefix}deviations.{number}" for number in range(len(self.deviations))]
        if self.together is not None:
            self.together.adopt(state, f"{prefix}together.", keys)


# Held while a module has the parameters of a relation: two threads would put back each other's. One for all, as modules
# with locks cannot be pickled.
_ALONE = threading.RLock()


def _call(module: torch.nn.Module, parameters: dict[str, Tensor], *inputs: Any) -> Any:
    with nullcontext() if torch.compiler.is_compiling() else _ALONE:
        return torch.func.functional_call(module, parameters, inputs)

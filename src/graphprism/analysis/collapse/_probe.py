"""Looks at the output of every convolution while a model runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from graphprism.analysis.collapse._measure import Measures, measure


@dataclass
class Call:
    """One call of one convolution; ``output`` is kept for its gradient only."""

    name: str
    module: Module
    measures: Measures
    output: Tensor


@dataclass
class Probe:
    """Collects the calls of the hooked modules. ``edge_index`` and ``batch`` are those of the ``num_nodes`` nodes."""

    num_nodes: int | None
    edge_index: Tensor | None
    batch: Tensor | None
    calls: list[Call] = field(default_factory=list)

    @contextmanager
    def watching(self, modules: Mapping[str, Module]) -> Iterator[None]:
        """Hooks the modules for as long as the block runs."""
        handles = [module.register_forward_hook(partial(self._look, name)) for name, module in modules.items()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _look(self, name: str, module: Module, _args: object, output: Any) -> Any:
        first = output[0] if isinstance(output, (tuple, list)) and output else output
        if not isinstance(first, Tensor) or first.dim() == 0 or not first.is_floating_point():
            return output
        states = self._by_node(first.detach())
        fits = states.size(0) == self.num_nodes
        measures = measure(states, self.edge_index if fits else None, self.batch if fits else None)
        if not torch.is_grad_enabled():
            self.calls.append(Call(name, module, measures, first))
            return output
        kept = first if first.requires_grad else first.detach().requires_grad_()
        self.calls.append(Call(name, module, measures, kept))
        # The model goes on with a copy: an activation in place would make `kept` the tensor after it.
        copy = kept.clone()
        return (copy, *output[1:]) if isinstance(output, (tuple, list)) else copy

    def _by_node(self, states: Tensor) -> Tensor:
        """One row per node: (N,) and (N, heads, F) states, and (T, N, F) states of a static graph."""
        if states.dim() > 2 and states.size(0) != self.num_nodes and states.size(-2) == self.num_nodes:
            states = states.movedim(-2, 0)
        return states.reshape(states.size(0), -1) if states.numel() else states.new_empty(states.size(0), 0)

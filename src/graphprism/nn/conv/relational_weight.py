"""One weight matrix per relation, as a parameter that may wait for its input size."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import Parameter, UninitializedParameter, is_lazy

from graphprism._checks import check_choice, check_positive
from graphprism.nn.conv.operands import check_in_channels
from graphprism.ops import relational_transform


class RelationalWeight(torch.nn.Module):
    r"""Holds :math:`\mathbf{W}_1, \dots, \mathbf{W}_R`; calling it with an input gives them, ready to multiply.

    Args:
        in_channels: size of an input row; ``-1`` takes it from the first input.
        out_channels: size of an output row.
        num_relations: R.
        init: ``"glorot"`` or ``"kaiming_uniform"``, for each relation as for a layer of its own.
        share_init: all relations start from the same matrix, so that the layer starts as the plain one.

    Shapes: ``x`` (..., F_in) -> (R, F_in, F_out)
    """

    def __init__(
        self, in_channels: int, out_channels: int, num_relations: int, init: str = "glorot", share_init: bool = False
    ) -> None:
        super().__init__()
        check_positive("num_relations", num_relations)
        check_positive("out_channels", out_channels)
        check_in_channels(in_channels)
        check_choice("init", init, ("glorot", "kaiming_uniform"))
        self.in_channels, self.out_channels, self.num_relations = in_channels, out_channels, num_relations
        self.init, self.share_init = init, share_init
        if in_channels == -1:
            self.weight: Tensor = UninitializedParameter()
        else:
            self.weight = Parameter(torch.empty(num_relations, in_channels, out_channels))
        self._register_load_state_dict_pre_hook(self._materialize_before_load)  # type: ignore[no-untyped-call]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        if is_lazy(self.weight):
            return
        fan_in, fan_out = self.in_channels, self.out_channels
        bound = math.sqrt(6 / (fan_in + fan_out)) if self.init == "glorot" else math.sqrt(1 / fan_in)
        torch.nn.init.uniform_(self.weight, -bound, bound)
        if self.share_init:
            with torch.no_grad():
                self.weight.copy_(self.weight[:1].expand_as(self.weight).clone())

    def forward(self, x: Tensor) -> Tensor:
        """The matrices, after learning their size from ``x`` if need be."""
        if isinstance(self.weight, UninitializedParameter):
            self._materialize(x.size(-1), x.device, x.dtype)
        return self.weight

    def transform(self, x: Tensor) -> Tensor:
        """What every node would send in every relation: (N, F_in) -> (N, R, F_out)."""
        return relational_transform(x, self(x))

    def _materialize(self, in_channels: int, device: torch.device, dtype: torch.dtype) -> None:
        self.in_channels = in_channels
        if isinstance(self.weight, UninitializedParameter):
            self.weight.materialize((self.num_relations, in_channels, self.out_channels), device, dtype)
        self.reset_parameters()

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars or is_lazy(self.weight))

    def _materialize_before_load(self, state: dict[str, Any], prefix: str, *_: Any) -> None:
        saved = state.get(f"{prefix}weight")
        if isinstance(self.weight, UninitializedParameter) and saved is not None and not is_lazy(saved):
            self._materialize(saved.size(1), saved.device, saved.dtype)

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}"

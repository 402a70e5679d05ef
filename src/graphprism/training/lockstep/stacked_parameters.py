"""The parameters of many networks of one shape, side by side in one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism.nn import GNN

# Numbers from one parameter to the next are a multiple of this, so that all begin where matrix units like it.
_ALIGNMENT = 64


@dataclass(frozen=True)
class _Place:
    """Where a parameter stands: its columns, the shape of what is stored there, and which axes are swapped in it."""

    begin: int
    end: int
    shape: tuple[int, ...]
    swapped: tuple[int, int]
    low: bool


class StackedParameters:
    """K networks of one shape as one (K, P) tensor, with room for channels that fill up the width.

    A template of a larger width holds the shapes. The channels it has beyond the networks' own start at zero and stay
    there: their weights, and so their gradients, are zero. Matrix units want widths that are multiples of 16.

    A weight of one matrix per relation (R, F, F') is stored as (F, R, F'), or with ``summed_last`` as (R, F', F):
    either way the matrices are one product side by side.

    Args:
        networks: The networks with their first weights.
        template: A network of the padded width, whatever its weights.
        pe: positional channels, which are the last ones of the first state.
        device: Where the tensor will be.
        low: the type that the template computes in, head excluded; None for the type of the weights.
        summed_last: whether the channels that a product sums over stand side by side.

    Attributes:
        flat: (K, P) all weights.
        low: the same in the type to compute in, where that is another; `refresh` brings it up to date.
        begins: where each parameter begins in a row of ``flat``.
    """

    def __init__(
        self,
        networks: Sequence[GNN],
        template: GNN,
        pe: int,
        device: torch.device,
        low: torch.dtype | None = None,
        summed_last: bool = False,
    ) -> None:
        self._own = {name: tensor.shape for name, tensor in networks[0].state_dict().items()}
        self._widths = networks[0].hidden_channels, template.hidden_channels
        self._pe = pe
        self._places: dict[str, _Place] = {}
        begin = 0
        for name, parameter in template.named_parameters():
            low_here, swapped = low is not None and not name.startswith("head."), (0, 0)
            # deviations from a common matrix are summed before any product, as they are stored
            if parameter.dim() == 3 and parameter.size(0) > 1 and not name.endswith("deviation"):
                swapped = (1, 2) if summed_last else (0, 1)
            shape = tuple(parameter.transpose(*swapped).shape)
            self._places[name] = _Place(begin, begin + parameter.numel(), shape, swapped, low_here)
            begin += -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT
        dtype = next(networks[0].parameters()).dtype
        self.flat = torch.zeros(len(networks), begin, dtype=dtype, device=device)
        self.low = None if low is None else self.flat.to(low)
        self.begins = tuple(place.begin for place in self._places.values())
        self.buffers: dict[str, Tensor] = {
            name: buffer.expand(len(networks), *buffer.shape).clone().to(device)
            for name, buffer in template.named_buffers()
        }
        for number, network in enumerate(networks):
            self.load(number, network.state_dict())

    def load(
        self,
        number: int,
        state: dict[str, Tensor],
        flat: Tensor | None = None,
        buffers: dict[str, Tensor] | None = None,
    ) -> None:
        """Takes over weights and buffers of one network of the own width; into other tensors of the layout if given."""
        stored = self._stored(self.flat if flat is None else flat, self.buffers if buffers is None else buffers, number)
        for name, target in stored.items():
            if name in state:
                target.zero_()
                target[self._indices(name, target)] = state[name].to(target)
        self.refresh()

    def load_rows(self, number: int, values: dict[str, Tensor], flat: Tensor) -> None:
        """Puts a tensor for each parameter, such as moments of the optimiser, into one of the layout of ``flat``."""
        self.load(number, values, flat, {})

    def extract_rows(self, number: int, flat: Tensor) -> dict[str, Tensor]:
        """What `load_rows` puts there."""
        stored = self._stored(flat, {}, number)
        return {name: each[self._indices(name, each)].cpu().clone() for name, each in stored.items()}

    def extract(
        self, number: int, flat: Tensor | None = None, buffers: dict[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """The state of one network at its own width, on the CPU; of other tensors of the same layout if given."""
        stored = self._stored(self.flat if flat is None else flat, self.buffers if buffers is None else buffers, number)
        return {name: stored[name][self._indices(name, stored[name])].cpu().clone() for name in self._own}

    def refresh(self) -> None:
        """Brings ``low`` up to date after ``flat`` was written by others than `load` and the optimiser."""
        if self.low is not None:
            self.low.copy_(self.flat)

    def leaves(self) -> dict[str, Tensor]:
        """Every parameter of all networks (K, ...) as a leaf that takes a gradient, in the type to compute in."""
        low = self.flat if self.low is None else self.low
        return {
            name: _logical((low if place.low else self.flat)[:, place.begin : place.end], place)
            .detach()
            .requires_grad_()
            for name, place in self._places.items()
        }

    def pieces(self, gradients: dict[str, Tensor | None]) -> list[Tensor]:
        """Gradients of `leaves` as rows (K, P') in the order of ``flat``, copied only where they are not stored so."""
        return [self._piece(place, gradients[name]) for name, place in self._places.items()]

    def _piece(self, place: _Place, gradient: Tensor | None) -> Tensor:
        if gradient is None:
            return self.flat.new_zeros(self.flat.size(0), place.end - place.begin)
        return _swap(gradient, place).reshape(self.flat.size(0), -1)

    def _stored(self, flat: Tensor, buffers: dict[str, Tensor], number: int) -> dict[str, Tensor]:
        found = {
            name: _logical(flat[number : number + 1, place.begin : place.end], place)[0]
            for name, place in self._places.items()
        }
        return {**found, **{name: buffer[number] for name, buffer in buffers.items()}}

    def _indices(self, name: str, target: Tensor) -> tuple[Tensor, ...]:
        own = self._own[name]
        places = [self._channels(size, room) for size, room in zip(own, target.shape, strict=True)]
        return tuple(
            place.view([-1 if axis == number else 1 for axis in range(len(places))]).to(target.device)
            for number, place in enumerate(places)
        )

    def _channels(self, size: int, room: int) -> Tensor:
        """Where ``size`` channels go in ``room``: blocks of a width keep positional channels last."""
        width, padded = self._widths
        if size == room or (size, room) == (width - self._pe, padded - self._pe):
            return torch.arange(size)
        blocks = size // width
        if (size, room) != (blocks * width, blocks * padded):
            raise RuntimeError(f"a size of {size} cannot be put into {room} with widths {width} and {padded}")
        first = torch.cat([torch.arange(width - self._pe), torch.arange(padded - self._pe, padded)])
        return (torch.arange(blocks)[:, None] * padded + first).flatten()


def _logical(stored: Tensor, place: _Place) -> Tensor:
    return _swap(stored.view(stored.size(0), *place.shape), place)


def _swap(tensor: Tensor, place: _Place) -> Tensor:
    """Between what is stored and what is meant, runs in front."""
    first, second = place.swapped
    return tensor.transpose(first + 1, second + 1)

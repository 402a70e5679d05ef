"""The parameters of many networks of one shape, side by side in one tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism.nn import GNN
from graphprism.ops.batched.step import Coordinates

# Every parameter begins at a multiple of this, which matrix units read fastest.
_ALIGNMENT = 64


@dataclass(frozen=True)
class _Place:
    """Where a parameter stands: its columns, the shape of what is stored there, and which axes are swapped in it.

    Attributes:
        reads_used: whether networks read it from ``used``.
        coordinates: how to compute ``used`` from the stored values, for held relations.
    """

    begin: int
    end: int
    shape: tuple[int, ...]
    swapped: tuple[int, int]
    reads_used: bool
    coordinates: Coordinates | None


class StackedParameters:
    """The parameters of K networks of one shape as one (K, P) tensor, padded to the width of a template.

    The template defines the shapes. Its channels beyond the width of the networks are padding: their weights start at
    zero, and so their gradients are zero. Matrix units need widths that are multiples of 16.

    A weight of one matrix per relation (R, F, F') is stored as (F, R, F'), or with ``summed_last`` as (R, F', F):
    either way one product with the concatenated matrices suffices.

    Held relations (see `RelationalParameter`) are trained as ``common`` and ``deviation``. They are stored in ``flat``
    in place of the R matrices of a template with free relations: the common one first, then the deviations. The
    matrices themselves are in ``used``, which networks read.

    Args:
        networks: The networks with their initial weights.
        template: A network of the padded width; its weights are not used.
        pe: positional channels, which are the last ones of the first state.
        device: Where the tensor will be.
        low: the type that the template computes in, head excluded; None for the type of the weights.
        summed_last: whether the channels that a product sums over are contiguous in memory.
        held: result of `RelationalParameter.release` for each ``weight`` of the template that networks hold.

    Attributes:
        flat: (K, P) all weights as the optimiser trains them.
        used: (K, P) the weights that networks read, in the type to compute in and with free relations; `None` if that
            is ``flat``. `refresh` recomputes it.
        begins: where each parameter begins in a row of ``flat``.
        coordinates: for each parameter, how to compute ``used`` from ``flat``; `None` for a copy.
    """

    def __init__(
        self,
        networks: Sequence[GNN],
        template: GNN,
        pe: int,
        device: torch.device,
        low: torch.dtype | None = None,
        summed_last: bool = False,
        held: Mapping[str, tuple[Tensor, Tensor]] | None = None,
    ) -> None:
        held = held or {}
        state = networks[0].state_dict()
        # decay of held relations, which the template lacks: the same constant in all networks
        self._fixed = {name: state.pop(name) for name in _decays(state, template)}
        self._own = {name: tensor.shape for name, tensor in state.items()}
        self._widths = networks[0].hidden_channels, template.hidden_channels
        self._pe = pe
        self._places: dict[str, _Place] = {}
        begin = 0
        for name, parameter in template.named_parameters():
            is_low, swapped = low is not None and not name.startswith("head."), (0, 0)
            # deviations from a common matrix are summed before any product, in the order they are stored in
            if parameter.dim() == 3 and parameter.size(0) > 1 and not name.endswith("deviation"):
                swapped = (1, 2) if summed_last else (0, 1)
            shape = tuple(parameter.transpose(*swapped).shape)
            coordinates = _coordinates(*held[name], shape, swapped) if name in held else None
            end, reads_used = begin + parameter.numel(), is_low or name in held
            self._places[name] = _Place(begin, end, shape, swapped, reads_used, coordinates)
            begin += -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT
        dtype = next(networks[0].parameters()).dtype
        self.flat = torch.zeros(len(networks), begin, dtype=dtype, device=device)
        self.used = self.flat.to(low or dtype, copy=True) if low or held else None
        self.begins = tuple(place.begin for place in self._places.values())
        self.coordinates = tuple(place.coordinates for place in self._places.values())
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
        """Copies the state of one network into ``flat`` and ``buffers``, or into other tensors of that layout."""
        stored = self._stored(self.flat if flat is None else flat, self.buffers if buffers is None else buffers, number)
        for name, target in stored.items():
            if name in state:
                target.zero_()
                target[self._indices(name, target)] = state[name].to(target)
        self.refresh()

    def load_rows(self, number: int, values: dict[str, Tensor], flat: Tensor) -> None:
        """Copies one tensor per parameter, such as moments of the optimiser, into a tensor of the layout of `flat`."""
        self.load(number, values, flat, {})

    def extract_rows(self, number: int, flat: Tensor) -> dict[str, Tensor]:
        """Reads back what `load_rows` has copied."""
        stored = self._stored(flat, {}, number)
        return {name: each[self._indices(name, each)].cpu().clone() for name, each in stored.items()}

    def extract(
        self, number: int, flat: Tensor | None = None, buffers: dict[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """The state of one network without padding, on the CPU; from other tensors of the same layout if given."""
        stored = self._stored(self.flat if flat is None else flat, self.buffers if buffers is None else buffers, number)
        own = {name: stored[name][self._indices(name, stored[name])].cpu().clone() for name in self._own}
        return own | {name: tensor.cpu().clone() for name, tensor in self._fixed.items()}

    def refresh(self) -> None:
        """Recomputes ``used``; needed after anything but `load` and the optimiser has changed ``flat``."""
        if self.used is None:
            return
        self.used.copy_(self.flat)
        for place in self._places.values():
            if place.coordinates is not None:
                here = slice(place.begin, place.end)
                self.used[:, here] = place.coordinates.used(self.flat[:, here])

    def leaves(self) -> dict[str, Tensor]:
        """Every parameter of all networks (K, ...) as a leaf that takes a gradient, in the type to compute in."""
        used = self.flat if self.used is None else self.used
        return {
            name: _logical((used if place.reads_used else self.flat)[:, place.begin : place.end], place)
            .detach()
            .requires_grad_()
            for name, place in self._places.items()
        }

    def pieces(self, gradients: dict[str, Tensor | None]) -> list[Tensor]:
        """Gradients of `leaves` as rows (K, P') in the order of ``flat``, copied only if their layout differs."""
        return [self._piece(place, gradients[name]) for name, place in self._places.items()]

    def _piece(self, place: _Place, gradient: Tensor | None) -> Tensor:
        if gradient is None:
            return self.flat.new_zeros(self.flat.size(0), place.end - place.begin)
        return _swap(gradient, place).reshape(self.flat.size(0), -1)

    def _stored(self, flat: Tensor, buffers: dict[str, Tensor], number: int) -> dict[str, Tensor]:
        """Views of the parameters and buffers of one network, by its own names."""
        found = {}
        for name, place in self._places.items():
            here = _logical(flat[number : number + 1, place.begin : place.end], place)[0]
            if place.coordinates is None:
                found[name] = here
            else:
                prefix = name.removesuffix("weight")
                found |= {f"{prefix}common": here[0], f"{prefix}deviation": here[1:]}
        return {**found, **{name: buffer[number] for name, buffer in buffers.items()}}

    def _indices(self, name: str, target: Tensor) -> tuple[Tensor, ...]:
        own = self._own[name]
        places = [self._channels(size, room) for size, room in zip(own, target.shape, strict=True)]
        return tuple(
            place.view([-1 if axis == number else 1 for axis in range(len(places))]).to(target.device)
            for number, place in enumerate(places)
        )

    def _channels(self, size: int, room: int) -> Tensor:
        """Positions of ``size`` channels among ``room`` padded ones; each block keeps positional channels last."""
        width, padded = self._widths
        if size == room or (size, room) == (width - self._pe, padded - self._pe):
            return torch.arange(size)
        blocks = size // width
        if (size, room) != (blocks * width, blocks * padded):
            if size > room or size > width:
                raise RuntimeError(f"a size of {size} cannot be put into {room} with widths {width} and {padded}")
            return torch.arange(size)  # hidden rows of a head, which no other part reads
        first = torch.cat([torch.arange(width - self._pe), torch.arange(padded - self._pe, padded)])
        return (torch.arange(blocks)[:, None] * padded + first).flatten()


def _decays(state: Mapping[str, Tensor], template: GNN) -> list[str]:
    kept = dict(template.named_buffers())
    return [name for name in state if name.endswith("together.decay") and name not in kept]


def _coordinates(matrix: Tensor, lengths: Tensor, shape: tuple[int, ...], swapped: tuple[int, int]) -> Coordinates:
    relations = 1 if swapped == (0, 1) else 0
    rows = tuple(tuple(row) for row in matrix.tolist())
    return Coordinates(rows, tuple(lengths.tolist()), inner=math.prod(shape[relations + 1 :]))


def _logical(stored: Tensor, place: _Place) -> Tensor:
    return _swap(stored.view(stored.size(0), *place.shape), place)


def _swap(tensor: Tensor, place: _Place) -> Tensor:
    """Converts between the stored and the logical order of axes, behind that of runs."""
    first, second = place.swapped
    return tensor.transpose(first + 1, second + 1)

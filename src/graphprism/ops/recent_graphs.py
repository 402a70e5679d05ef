"""Graphs that layers were last called with as tensors, so that the layers of a network sort the edges once."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from graphprism.ops.backends import is_captured, is_transformed
from graphprism.ops.relational_adj import RelationalAdj

# Enough for the graphs of one model; a loop over the graphs of a list in memory must not hold all of them prepared.
_CAPACITY = 8


class _Recent(NamedTuple):
    """A prepared graph with what its tensors were: themselves, their versions and, on the CPU, their values."""

    tensors: tuple[weakref.ref[Tensor], ...]
    versions: tuple[int, ...]
    values: tuple[Tensor, ...]
    adj: RelationalAdj

    def is_of(self, tensors: tuple[Tensor, ...]) -> bool:
        """Whether these are the tensors of the graph, unchanged."""
        for ref, version, tensor in zip(self.tensors, self.versions, tensors, strict=True):
            if ref() is not tensor or tensor._version != version:
                return False
        return tensors[0].is_cuda or all(map(torch.equal, tensors, self.values))


class RecentGraphs:
    """The last graphs that were made of tensors, found again by the identity and version of these tensors.

    A graph is dropped when one of its tensors is. A change in place changes a tensor's version, so that the graph is
    prepared anew. What changes values without PyTorch, such as NumPy on shared memory, does not; on the CPU values are
    therefore compared with a copy, which takes a small part of the time of sorting. On a GPU they are not: what a CUDA
    graph, ``tensor.data``, a collective or another library writes into a tensor needs a new tensor.
    """

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self.capacity = capacity
        self._recent: dict[tuple[object, ...], _Recent] = {}

    def __len__(self) -> int:
        return len(self._recent)

    def __iter__(self) -> Iterator[RelationalAdj]:
        return iter([each.adj for each in list(self._recent.values())])

    def graph(
        self,
        edge_index: Tensor,
        edge_type: Tensor | None,
        edge_weight: Tensor | None,
        num_relations: int,
        size: tuple[int, int],
    ) -> RelationalAdj:
        """`RelationalAdj.in_forward`, or what it returned for the same tensors."""
        tensors = tuple(each for each in (edge_index, edge_type, edge_weight) if each is not None)
        if is_transformed() or not _can_be_kept(tensors):
            return RelationalAdj.in_forward(edge_index, edge_type, edge_weight, num_relations, size)
        is_cuda = edge_index.is_cuda
        # another stream may run before the kernels that prepare the graph
        stream = torch._C._cuda_getCurrentRawStream(edge_index.get_device()) if is_cuda else 0
        places = (id(edge_index), id(edge_type), id(edge_weight))
        key = (*places, num_relations, *size, stream, torch.is_inference_mode_enabled())
        found = self._recent.get(key)
        if found is not None and found.is_of(tensors):
            return found.adj
        # aliases or copies: a graph that held the tensors themselves would never be dropped
        values = tuple(each.detach() if is_cuda else each.clone() for each in tensors)
        rest = iter(values[1:])
        types, weight = (None if each is None else next(rest) for each in (edge_type, edge_weight))
        adj = RelationalAdj.in_forward(values[0], types, weight, num_relations, size)
        refs = tuple(weakref.ref(each, lambda _: self._recent.pop(key, None)) for each in tensors)
        self._recent[key] = _Recent(refs, tuple(each._version for each in tensors), values, adj)
        while len(self._recent) > self.capacity:
            self._recent.pop(next(iter(list(self._recent))), None)  # a list: a tensor may be dropped meanwhile
        return adj


def _can_be_kept(tensors: tuple[Tensor, ...]) -> bool:
    """Whether a graph of these tensors may serve another call: it has no gradients, and nothing traces the call."""
    for each in tensors:
        if type(each) is not Tensor or each.requires_grad or each.is_meta or each.is_inference():
            return False
    if torch._C._len_torch_dispatch_stack():
        return False
    # a captured graph must prepare what its buffers hold at each replay
    return not is_captured(tensors[0])


RECENT_GRAPHS = RecentGraphs()

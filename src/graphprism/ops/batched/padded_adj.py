"""The edges of a graph with few neighbours per node, padded to a fixed shape for captured steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from graphprism.ops.batched.padded_products import (
    aggregate,
    linear,
    read_receivers,
    read_senders,
    softmax,
    sum_entries,
)
from graphprism.ops.batched.relu_sum import padded_relu_sum
from graphprism.ops.csr import Csr
from graphprism.ops.relational_adj import RelationalAdj


@dataclass(frozen=True)
class PaddedAdj:
    r"""Every node has D slots for the edges it receives and D for those it sends; empty slots have weight zero.

    Its shape does not depend on the number of edges, so that all batches of molecules can have the same shape: nodes
    without edges are the padding. An *entry* is a slot of a receiving node, number ``node * D + slot``. Both passes of
    every product gather through one of the two tables and write each row once: no atomics, deterministic.

    With `relative` numbers a batch is a gather of rows from the table of a whole data set.

    Attributes:
        numbers: (N, 5 D) integers. By slots: the pair ``sender * R + relation`` that an entry reads, the node that a
            sent edge goes to, the entry that it becomes there, its relation, and the relation of an entry.
        weights: (N, 2 D) weights of entries and of sent edges; zero in empty slots.
        num_relations: R.
        norm: the `edge_norm` behind ``weights``.
        node_mask: (N,) ones, and zeros for rows that are padding; `None` where all rows are nodes.
        active: (N / 64,) bit mask of the outgoing relations of the nodes in each tile of 64 rows; `None` if unknown.
    """

    numbers: Tensor
    weights: Tensor
    num_relations: int
    norm: str = "none"
    node_mask: Tensor | None = None
    active: Tensor | None = None

    @staticmethod
    def build(adj: RelationalAdj, norm: str = "none", dtype: torch.dtype = torch.float32) -> PaddedAdj:
        """The padded layout of a graph, with as many slots as its largest in- or out-degree (at least one)."""
        if adj.is_soft or adj.size[0] != adj.size[1]:
            raise ValueError("`adj` must have one type per edge and as many sources as targets to be padded")
        weighted = adj.normalized(norm, dtype)
        incoming, outgoing = weighted.incoming, weighted.outgoing
        num_slots = max(1, _most(incoming), _most(outgoing))
        row_in, slot_in = incoming.places
        row_out, slot_out = outgoing.places
        order_in, order_out = incoming.order.long(), outgoing.order.long()
        slot_of_edge = torch.empty_like(slot_in).index_copy_(0, order_in, slot_in)
        source, target = weighted.src.long(), weighted.dst.long()
        relation = torch.zeros_like(source) if weighted.relation is None else weighted.relation.long()
        columns = (
            (row_in, slot_in, source[order_in] * adj.num_relations + relation[order_in]),
            (row_out, slot_out, target[order_out]),
            (row_out, slot_out, target[order_out] * num_slots + slot_of_edge[order_out]),
            (row_out, slot_out, relation[order_out]),
            (row_in, slot_in, relation[order_in]),
        )
        # an empty slot points to its own node, which always exists, with weight zero
        node = torch.arange(adj.size[0], device=adj.device)[:, None]
        own = (node * adj.num_relations, node, node * num_slots, 0 * node, 0 * node)
        numbers = [_table(*column, first.expand(-1, num_slots)) for column, first in zip(columns, own, strict=True)]
        value = weighted.edge_weight
        assert value is not None  # `normalized` gives every edge its weight
        zeros = value.new_zeros(adj.size[0], num_slots)
        weights = [
            _table(row_in, slot_in, value[order_in], zeros),
            _table(row_out, slot_out, value[order_out], zeros),
        ]
        return PaddedAdj(torch.cat(numbers, 1).to(torch.int32), torch.cat(weights, 1), adj.num_relations, norm)

    @property
    def num_slots(self) -> int:
        """D."""
        return self.weights.size(-1) // 2

    @property
    def size(self) -> tuple[int, int]:
        """(N, N)."""
        return self.weights.size(-2), self.weights.size(-2)

    @property
    def edge_weight(self) -> None:
        """`None`: layers then ask for the normalisation that they are defined with."""
        return

    @property
    def is_soft(self) -> bool:
        """`False`: `build` takes one type per edge."""
        return False

    @property
    def entry_edge(self) -> None:
        """`None`: entries are the edges."""
        return

    @cached_property
    def slot_mask(self) -> Tensor:
        """(N, D) whether a slot holds an edge."""
        return self.weights[..., : self.num_slots] != 0

    @property
    def entry_mask(self) -> Tensor:
        """(N D,) whether an entry is an edge."""
        return self.slot_mask.flatten()

    @property
    def entry_relation(self) -> Tensor:
        """(N, D) relation of every entry."""
        return self.numbers[..., 4 * self.num_slots :]

    @cached_property
    def sent_mask(self) -> Tensor:
        """(N, D) one where a slot holds an edge that is sent, else zero, in the type of the weights."""
        sent = self.weights[..., self.num_slots :]
        return (sent != 0).to(sent.dtype)

    @property
    def base(self) -> Tensor:
        """(5 D,) increment of each column of ``numbers`` from one node to the next."""
        steps = torch.tensor([self.num_relations, 1, self.num_slots, 0, 0], dtype=torch.int32)
        return steps.repeat_interleave(self.num_slots).to(self.numbers.device)

    def relative(self) -> PaddedAdj:
        """The same with numbers counted from the node that holds them."""
        node = torch.arange(self.size[0], device=self.numbers.device, dtype=torch.int32)
        return replace(self, numbers=self.numbers - node[:, None] * self.base)

    def to(self, device: torch.device | str) -> PaddedAdj:
        """The same on another device."""
        node_mask, active = (None if each is None else each.to(device) for each in (self.node_mask, self.active))
        numbers, weights = self.numbers.to(device), self.weights.to(device)
        return replace(self, numbers=numbers, weights=weights, node_mask=node_mask, active=active)

    def normalized(self, kind: str, dtype: torch.dtype | None = None) -> PaddedAdj:
        """Itself, which was built with one normalisation; raises for another."""
        if kind != self.norm:
            raise ValueError(f"`norm` must be {self.norm!r}, which the tables were built with, got {kind!r}")
        return self

    def merged(self) -> PaddedAdj:
        """The same edges and weights in one relation."""
        if self.num_relations == 1:
            return self
        pair, receiver, entry, sent_relation, relation = self.numbers.split(self.num_slots, dim=-1)
        zeros = (torch.zeros_like(sent_relation), torch.zeros_like(relation))
        numbers = torch.cat([pair // self.num_relations, receiver, entry, *zeros], dim=-1)
        return replace(self, numbers=numbers, num_relations=1, active=None)

    def relational_linear(self, x: Tensor, weight: Tensor, impl: str | None = None) -> Tensor:
        """See `graphprism.ops.relational_linear`."""
        _check_no_impl(impl)
        return linear(x, self, weight)

    def relational_aggregate(self, x: Tensor, impl: str | None = None) -> Tensor:
        """See `graphprism.ops.relational_aggregate`."""
        _check_no_impl(impl)
        return aggregate(x, self)

    def relational_sum(self, h: Tensor, weight: Tensor | None = None, impl: str | None = None) -> Tensor:
        """See `graphprism.ops.relational_sum`."""
        _check_no_impl(impl)
        weight = self.weights[..., : self.num_slots].flatten() if weight is None else weight
        return sum_entries(weight[..., None] * read_senders(h, self), self)

    def entry_sum(self, rows: Tensor, impl: str | None = None) -> Tensor:
        """See `graphprism.ops.entry_sum`."""
        _check_no_impl(impl)
        return sum_entries(rows, self)

    def relu_sum(self, h: Tensor, edge_rows: Tensor | None = None, by_relation: bool = False) -> Tensor:
        """See `graphprism.ops.relu_sum.relu_sum`."""
        return padded_relu_sum(h, self, edge_rows, by_relation)

    def edge_softmax(self, logit: Tensor) -> Tensor:
        """See `graphprism.ops.edge_softmax`."""
        return softmax(logit, self)

    def at_senders(self, h: Tensor) -> Tensor:
        """See `graphprism.ops.at_senders`."""
        return read_senders(h, self)

    def at_receivers(self, h: Tensor) -> Tensor:
        """See `graphprism.ops.at_receivers`."""
        return read_receivers(h, self)


def _check_no_impl(impl: str | None) -> None:
    if impl is not None:
        raise ValueError(f"`impl` must be None with a `PaddedAdj`, which has one backend, got {impl!r}")


def _most(csr: Csr) -> int:
    return int(csr.node_rowptr.diff().max()) if csr.num_rows else 0


def _table(row: Tensor, slot: Tensor, value: Tensor, empty: Tensor) -> Tensor:
    return empty.clone().index_put_((row, slot), value)

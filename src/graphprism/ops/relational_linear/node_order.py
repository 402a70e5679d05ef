"""The nodes of a sorted structure by their number of entries, so that the nodes of a tile end together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphprism.ops.csr import Csr

# A program goes through the entries of a few nodes side by side. Where one of 64 is among them it is not the last to
# end; a hub of thousands would keep a whole GPU waiting.
_LONGEST = 64


def node_order(csr: Csr) -> NodeOrder:
    """The nodes of ``csr`` by their number of entries; built once."""
    if "node_order" not in csr.cache:
        csr.cache["node_order"] = NodeOrder.build(csr)
    order: NodeOrder = csr.cache["node_order"]
    return order


@dataclass(frozen=True)
class NodeOrder:
    """Nodes of few entries in the order in which a kernel takes them, and hubs apart from them.

    Attributes:
        light: (n,) the nodes of at most 64 entries, most entries first, so that the longest way does not begin last.
        hub: (H,) all other nodes.
        hub_csr: the entries of the hubs alone, whose row nodes are counted from the first hub.
    """

    light: Tensor
    hub: Tensor
    hub_csr: Csr

    @staticmethod
    def build(csr: Csr) -> NodeOrder:
        """Sorts the nodes; equal ones keep their order. Waits for the device, so it is done once."""
        count, by_count = torch.sort(csr.node_rowptr.diff(), descending=True, stable=True)
        num_hubs = int((count > _LONGEST).sum())
        hub = by_count[:num_hubs]
        return NodeOrder(by_count[num_hubs:].to(csr.col.dtype), hub, _rows_of(csr, hub))


def _rows_of(csr: Csr, node: Tensor) -> Csr:
    pair = (node[:, None] * csr.num_relations + torch.arange(csr.num_relations, device=node.device)).view(-1)
    begin = csr.rowptr[pair].long()
    count = csr.rowptr[pair + 1] - begin
    rowptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
    moved = torch.repeat_interleave(begin - rowptr[:-1], count)
    entry = moved + torch.arange(moved.numel(), device=node.device)
    rowptr = rowptr.to(csr.rowptr.dtype)
    return Csr(rowptr, csr.col[entry], csr.pair_col[entry], csr.order[entry], csr.num_relations)

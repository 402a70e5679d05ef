"""Which form of `relational_linear` is cheapest."""

from __future__ import annotations

import torch
from torch import Tensor

from graphprism.ops.csr import Csr
from graphprism.ops.relational_adj import RelationalAdj
from graphprism.ops.relational_linear.node_order import node_order

# How many multiply-adds of a matrix product take as long as moving one number through memory. Measured on two CPU cores
# at 64 channels: 0.5 ns a gathered number, 0.02 ns a multiply-add; an H200 has about the same ratio in float32.
_MULTIPLY_ADDS_PER_MOVE = 25


def transform_first(
    adj: RelationalAdj, num_entries: int, in_channels: int, out_channels: int, at_once: bool = False
) -> bool:
    """Whether to multiply by the weights before the sums over neighbours rather than after them.

    Before: every sender makes R rows of ``out_channels``, which are written, then gathered once per entry. After: rows
    of ``in_channels`` are gathered once per entry and multiplied while they are in the cache; on a GPU only where one
    kernel does both (``at_once``).
    """
    num_src, num_dst = adj.size
    product = adj.num_relations * in_channels * out_channels / _MULTIPLY_ADDS_PER_MOVE
    before = num_entries * out_channels + num_src * (product + 2 * adj.num_relations * out_channels)
    after = num_entries * in_channels + num_dst * product
    if adj.edge_index.is_cuda and not at_once:  # no block fits the cache there: the sums are written and read as well
        after += num_dst * 2 * adj.num_relations * in_channels
    return before <= after


# Leaving a pair out spares its products, F multiply-adds a channel in each of three, and costs every pair that stays
# about five moves a channel: it pays from F (1 - a) > 42 a channels on, where the share a of the pairs is active. On a
# GPU a move is slower beside a product. Measured, forward and backward, with and without empty pairs: two cores, 64
# channels, 108 and 153 ms at a = 0.5, 186 and 125 ms at a = 0.72; H200, 256 channels, 2.9 and 5.0 ms, 32 channels, 6.2
# and 4.6 ms at a = 0.5.
_CHANNELS_THAT_PAY_CPU = 42
_CHANNELS_THAT_PAY_GPU = 160


def leave_out_empty_pairs(csr: Csr, in_channels: int, out_channels: int) -> bool:
    """Whether to spare the products of empty pairs at the price of gathering the others."""
    if csr.num_relations == 1:
        return False
    pays = _CHANNELS_THAT_PAY_GPU if csr.rowptr.is_cuda else _CHANNELS_THAT_PAY_CPU
    channels = min(in_channels, out_channels)
    # nearly a quarter of the pairs is active at least: with so few channels there is no need to count them
    return channels * 3 > pays and channels * (1 - csr.active_share) > pays * csr.active_share


# Channels of which a program can hold the sums of some nodes and, going back, the gradients of four matrices. Measured
# on an H200 beside the form by blocks, forward and backward: 2.9M nodes, 14M entries, 32 channels 3.0 and 3.6 ms (half
# of the memory); with 64 channels and hubs (169k nodes, 1.2M entries) 0.93 and 0.57 ms.
_MOST_FUSED_CHANNELS = 32
# Gathered numbers below which launches take longer than what is launched, and the order of the nodes does not pay.
_FEWEST_FUSED_NUMBERS = 1 << 24
# Nodes for one hub: where there are more hubs, gathering takes most of the time and sums may as well be written.
_NODES_PER_HUB = 32
_FUSED_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def fuses(csr: Csr, dense: Tensor, weight: Tensor) -> bool:
    """Whether one kernel is to gather rows of ``dense``, sum and multiply them; waits for the device once."""
    if not dense.is_cuda or dense.dtype not in _FUSED_TYPES or weight.dtype != dense.dtype:
        return False
    if max(weight.shape[1:]) > _MOST_FUSED_CHANNELS or csr.col.numel() * dense.size(1) < _FEWEST_FUSED_NUMBERS:
        return False
    return node_order(csr).hub.numel() * _NODES_PER_HUB <= csr.num_rows

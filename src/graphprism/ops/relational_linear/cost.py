"""Which form of `relational_linear` is cheapest."""

from __future__ import annotations

from graphprism.ops.csr import Csr
from graphprism.ops.relational_adj import RelationalAdj

# How many multiply-adds of a matrix product take as long as moving one number through memory. Measured on two CPU cores
# at 64 channels: 0.5 ns a gathered number, 0.02 ns a multiply-add; an H200 has about the same ratio in float32.
_MULTIPLY_ADDS_PER_MOVE = 25


def transform_first(adj: RelationalAdj, num_entries: int, in_channels: int, out_channels: int) -> bool:
    """Whether to multiply by the weights before the sums over neighbours rather than after them.

    Before: every sender makes R rows of ``out_channels``, which are written, then gathered once per entry. After: rows
    of ``in_channels`` are gathered once per entry and multiplied while they are in the cache.
    """
    num_src, num_dst = adj.size
    product = adj.num_relations * in_channels * out_channels / _MULTIPLY_ADDS_PER_MOVE
    before = num_entries * out_channels + num_src * (product + 2 * adj.num_relations * out_channels)
    after = num_entries * in_channels + num_dst * product
    if adj.edge_index.is_cuda:  # no block fits the cache there: the sums are written and read as well
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

"""Which of the two orders of `relational_linear` is cheaper."""

from __future__ import annotations

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
    return before < after

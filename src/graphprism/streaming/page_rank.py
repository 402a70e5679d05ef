"""PageRank by passes over an edge file: the ordering ``ppr``, with the bits that it has in memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from graphprism.streaming.passes import Passes
from graphprism.streaming.spilled_edges import MOST_SPILLED_NODES, SpilledEdges

# Those of `graphprism.splitting.orderings.ppr`.
STEPS, RESTART = 15, 0.1


def page_rank(passes: Passes, stage: int, entering: Tensor) -> int:
    """The steps of `graphprism.splitting.orderings.ppr`, with the same order of summation, a pass each.

    The ranks are ``rank`` of the arrays of the state.

    Args:
        passes: Passes over the edges.
        stage: Number of the first pass.
        entering: (N,) in-degrees without loops.

    Returns:
        Number of the stage after the last pass.
    """
    state = passes.state
    scale = (entering + 1).double().rsqrt()
    state.arrays.setdefault("rank", torch.ones_like(scale))
    # The first step writes the edges without loops, which the others read: decoding Parquet took half of a step.
    spilled = SpilledEdges(passes.folder, state.spilled)
    kept = spilled if state.num_nodes <= MOST_SPILLED_NODES else None

    def sync() -> None:
        spilled.sync()
        state.spilled = spilled.written

    passes.before_save.append(sync)
    for step in range(STEPS):
        if state.stage > stage + step:
            continue
        sent, total = scale * state.arrays["rank"], state.arrays.setdefault("total", torch.zeros_like(scale))
        name = f"PageRank, step {step + 1} of {STEPS}"
        if step and spilled.written and not spilled.is_whole():
            spilled.written = state.spilled = state.done = 0  # which counted those edges
            total.zero_()
        if step and spilled.written:
            passes.run_on(stage + step, name, spilled.chunks, spilled.written, partial(_add, sent, total))
        else:
            try:
                passes.run(stage + step, name, (), partial(_send, sent, total, None if step else kept))
            finally:
                spilled.close()
            state.spilled = spilled.written
        state.arrays["rank"] = (1 - RESTART) * scale * (total + sent) + RESTART
        del state.arrays["total"]
    return stage + STEPS


def _send(
    sent: Tensor, total: Tensor, spilled: SpilledEdges | None, source: Tensor, target: Tensor, table: Any
) -> None:
    """Adds what the edges of a chunk carry; loops are left out, as `ppr` gives every node exactly one."""
    other = source != target
    if not bool(other.all()):
        source, target = source[other], target[other]
    _add(sent, total, source, target)
    if spilled is not None:
        spilled.add(source, target)


def _add(sent: Tensor, total: Tensor, source: Tensor, target: Tensor) -> None:
    total.index_add_(0, target, sent.index_select(0, source))

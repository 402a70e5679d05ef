"""Milliseconds of the five steps of a layer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RuntimeRow:
    """One row: its ordering (None splits nothing) and the published times of the five steps."""

    row: str
    ordering: str | None
    published: tuple[float | None, float | None, float | None, float | None, float | None]


STEPS = ("Normalise", "Order", "Split", "Transform", "Aggregate")
RUNTIME = (
    RuntimeRow("GCN", None, (0.129, None, None, 0.044, 0.091)),
    RuntimeRow("MRS-GCN (random)", "random", (0.130, 0.019, 0.249, 0.051, 0.097)),
    RuntimeRow("MRS-GCN (features)", "features", (0.131, 0.022, 0.268, 0.054, 0.106)),
    RuntimeRow("MRS-GCN (PPR)", "ppr", (0.128, 1.150, 0.212, 0.055, 0.092)),
    RuntimeRow("MRS-GCN (degree)", "degree", (0.128, 0.042, 0.261, 0.055, 0.104)),
)
RUNTIME_SOURCE = "tab:runtime (appendix), on an H100"

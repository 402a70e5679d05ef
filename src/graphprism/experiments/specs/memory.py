"""Memory of training on ZINC12k."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryRow:
    """One row: the model and its published memory in GB."""

    row: str
    model: str
    gpu: float
    main: float


MEMORY = (MemoryRow("GCN", "gcn", 1.918, 1.218), MemoryRow("MRS-GCN", "mrs-gcn", 1.914, 1.265))
MEMORY_SOURCE = "tab:memory (appendix), mean of five runs on an H100"

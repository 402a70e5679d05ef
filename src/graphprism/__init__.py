"""Split the edges of a graph into relations and keep deep graph networks from collapsing to one signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from graphprism.analysis import (
        Certificate,
        CollapseMonitor,
        CollapseReport,
        SplitComparison,
        certify,
        collapse,
        compare_splits,
        inspect_graph,
        rank_one_distance,
        read_graph,
    )

__all__ = [
    "Certificate",
    "CollapseMonitor",
    "CollapseReport",
    "SplitComparison",
    "__version__",
    "certify",
    "collapse",
    "compare_splits",
    "inspect_graph",
    "rank_one_distance",
    "read_graph",
]


def __getattr__(name: str) -> Any:
    """Loads the analysis at its first use: ``import graphprism`` alone does not wait for torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from graphprism import analysis

    value = globals()[name] = getattr(analysis, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

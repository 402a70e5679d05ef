"""Split the edges of a graph into relations and keep deep graph networks from collapsing to one signal."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from graphprism import (
        analysis,
        convert,
        datasets,
        experiments,
        loader,
        nn,
        ops,
        splitting,
        streaming,
        testing,
        training,
        transforms,
    )
    from graphprism.adviser import Advice, advise
    from graphprism.analysis import (
        Certificate,
        CollapseMonitor,
        CollapseReport,
        SplitComparison,
        certify,
        collapse,
        compare_splits,
        explain,
        inspect_graph,
        rank_one_distance,
    )
    from graphprism.convert import to_mrs
    from graphprism.io import read_graph
    from graphprism.ops import RelationalAdj
    from graphprism.splitting import check_split
    from graphprism.streaming import open_split, split_file
    from graphprism.training import load
    from graphprism.transforms import LaplacianPE, RelationalNorm, SplitEdges

_PACKAGES = (
    "analysis",
    "convert",
    "datasets",
    "experiments",
    "loader",
    "nn",
    "ops",
    "splitting",
    "streaming",
    "testing",
    "training",
    "transforms",
)
# Names by the package that has them.
_NAMES = {
    **dict.fromkeys(("SplitEdges", "RelationalNorm", "LaplacianPE"), "transforms"),
    "RelationalAdj": "ops",
    "check_split": "splitting",
    **dict.fromkeys(
        (
            "Certificate",
            "CollapseMonitor",
            "CollapseReport",
            "SplitComparison",
            "certify",
            "collapse",
            "compare_splits",
            "explain",
            "inspect_graph",
            "rank_one_distance",
        ),
        "analysis",
    ),
    "load": "training",
    **dict.fromkeys(("Advice", "advise"), "adviser"),
    "read_graph": "io",
    "to_mrs": "convert",
    **dict.fromkeys(("open_split", "split_file"), "streaming"),
}

__all__ = [
    "Advice",
    "Certificate",
    "CollapseMonitor",
    "CollapseReport",
    "LaplacianPE",
    "RelationalAdj",
    "RelationalNorm",
    "SplitComparison",
    "SplitEdges",
    "__version__",
    "advise",
    "analysis",
    "certify",
    "check_split",
    "collapse",
    "compare_splits",
    "convert",
    "datasets",
    "experiments",
    "explain",
    "inspect_graph",
    "load",
    "loader",
    "nn",
    "open_split",
    "ops",
    "rank_one_distance",
    "read_graph",
    "split_file",
    "splitting",
    "streaming",
    "testing",
    "to_mrs",
    "training",
    "transforms",
]


def __getattr__(name: str) -> Any:
    """Imports packages lazily, at first use, so that ``import graphprism`` does not import torch."""
    if name in _PACKAGES:
        return import_module(f"graphprism.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"graphprism.{_NAMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})

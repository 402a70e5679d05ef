"""Readers of the raw files that authors publish; nothing in a file is executed."""

from graphprism.datasets.raw.arxiv_year import arxiv_year, year_splits
from graphprism.datasets.raw.heterophilous import heterophilous
from graphprism.datasets.raw.raw_file import quantile_labels, random_splits, raw_file, read_splits, safe_object_array
from graphprism.datasets.raw.snap_patents import snap_patents

__all__ = [
    "arxiv_year",
    "heterophilous",
    "quantile_labels",
    "random_splits",
    "raw_file",
    "read_splits",
    "safe_object_array",
    "snap_patents",
    "year_splits",
]

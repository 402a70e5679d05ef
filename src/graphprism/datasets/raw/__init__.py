"""Data sets from the files in which their authors publish them, opened without executing anything in them."""

from graphprism.datasets.raw.arxiv_year import arxiv_year
from graphprism.datasets.raw.heterophilous import heterophilous
from graphprism.datasets.raw.quantile_labels import quantile_labels
from graphprism.datasets.raw.random_splits import random_splits
from graphprism.datasets.raw.raw_file import raw_file
from graphprism.datasets.raw.read_splits import read_splits
from graphprism.datasets.raw.safe_object_array import safe_object_array
from graphprism.datasets.raw.snap_patents import snap_patents
from graphprism.datasets.raw.year_splits import year_splits

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

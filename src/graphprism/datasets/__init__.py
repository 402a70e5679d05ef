"""Data sets by name, with official folds, task and metric, in a packed format that is safe and fast to read."""

from graphprism.datasets.describe import describe
from graphprism.datasets.from_data import from_data
from graphprism.datasets.from_files import from_files
from graphprism.datasets.import_options import ImportOptions
from graphprism.datasets.leak_audit import LeakAudit, leak_audit
from graphprism.datasets.load import from_pyg, from_raw, load
from graphprism.datasets.molecules import molecules
from graphprism.datasets.packed_dataset import PackedDataset, row_normalise
from graphprism.datasets.packed_file import DatasetFileError, read, save
from graphprism.known import DATA_VARIABLE, DATASETS, KnownDataset, data_folder

__all__ = [
    "DATASETS",
    "DATA_VARIABLE",
    "DatasetFileError",
    "ImportOptions",
    "KnownDataset",
    "LeakAudit",
    "PackedDataset",
    "data_folder",
    "describe",
    "from_data",
    "from_files",
    "from_pyg",
    "from_raw",
    "leak_audit",
    "load",
    "molecules",
    "read",
    "row_normalise",
    "save",
]

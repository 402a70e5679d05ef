"""Data sets by name, with their official splits, task and metric, in a packed form that is read safely and at once."""

from graphprism.datasets.dataset_file_error import DatasetFileError
from graphprism.datasets.from_pyg import from_pyg
from graphprism.datasets.from_raw import from_raw
from graphprism.datasets.known import DATASETS, KnownDataset
from graphprism.datasets.load import DATA_VARIABLE, data_folder, load, named_folder, packed_path
from graphprism.datasets.molecule_target import molecule_target
from graphprism.datasets.molecules import molecules
from graphprism.datasets.packed_dataset import PackedDataset
from graphprism.datasets.packed_file import read, save
from graphprism.datasets.row_normalise import row_normalise

__all__ = [
    "DATASETS",
    "DATA_VARIABLE",
    "DatasetFileError",
    "KnownDataset",
    "PackedDataset",
    "data_folder",
    "from_pyg",
    "from_raw",
    "load",
    "molecule_target",
    "molecules",
    "named_folder",
    "packed_path",
    "read",
    "row_normalise",
    "save",
]

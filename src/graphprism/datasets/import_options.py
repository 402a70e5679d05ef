"""Options of an import, and their refusal where nothing reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphprism.datasets.folds import SHARES


@dataclass(frozen=True)
class ImportOptions:
    """Options of `from_files`; those that are None or empty are guessed from the names of files and columns.

    Attributes:
        target: Columns of the target, of the nodes or of the graphs.
        task: ``"regression"``, ``"binary"``, ``"multiclass"``, ``"multilabel"`` or ``"link"``.
        metric: A name of `graphprism.training.METRICS`.
        positive: The value of a binary target that F1 and AP count; by default the second one in alphabetical order.
        files: Files of ``nodes``, ``edges`` and ``graphs`` in the folder.
        columns: Columns by role: ``id``, ``graph``, ``source``, ``destination``, ``weight``, ``graph_id`` and ``fold``.
        drop: Columns to ignore; of an ``.npz`` file arrays, such as ``edge_weight``.
        categories: Numeric columns to treat as categories.
        numbers: Columns to treat as numbers although their names say that they are types of nodes or edges, or weights.
        directed: Whether edges are directed. By default as the file declares; tables of edges are undirected.
        scale_target: Whether to standardise a numeric target for training.
        shares: Shares of training, validation and test for drawn folds.
        folds: Number of folds of nodes to draw.
        seed: Seed of the folds.
    """

    target: tuple[str, ...] = ()
    task: str | None = None
    metric: str | None = None
    positive: str | None = None
    files: Mapping[str, str] | None = None
    columns: Mapping[str, str | None] | None = None
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    directed: bool | None = None
    scale_target: bool = False
    shares: tuple[float, ...] = SHARES
    folds: int = 1
    seed: int = 0

    def column(self, part: str) -> str | None:
        """The column that the user named for a role."""
        return (self.columns or {}).get(part)


def refuse(options: ImportOptions, names: Sequence[str], reason: str) -> None:
    """Raises for options that are given and would be ignored."""
    for name in names:
        value, default = getattr(options, name), getattr(ImportOptions(), name)
        given = (
            {part: each for part, each in value.items() if each is not None} if isinstance(value, Mapping) else value
        )
        if given != default and (given or default):
            raise ValueError(f"`{name}` must be left out with {reason}, got {given!r}")

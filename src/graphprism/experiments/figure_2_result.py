"""The numbers of Figure 2."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphprism.experiments.specs import Figure2Spec

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

# Share of the seeds below and above the spread that is shown.
LOW, HIGH = 0.1, 0.9


@dataclass(frozen=True, eq=False)
class Figure2Result:
    """Rank-one distances of all runs, with the settings that made them.

    Attributes:
        spec: The settings.
        distances: For each model (S, L) in float64: seeds by iterations. NaN where the state was all zeros, which is
            counted as zero collapse and is no distance.
        graph_numbers: Number of each seed's graph in its source.
        versions: What it was computed with.
    """

    spec: Figure2Spec
    distances: dict[str, Tensor]
    graph_numbers: tuple[int, ...]
    versions: dict[str, str]

    def mean(self, model: str) -> Tensor:
        """Mean over the seeds that have not collapsed to zero, (L,); NaN where all have."""
        return self.distances[model].nanmean(dim=0)

    def quantile(self, model: str, share: float) -> Tensor:
        """Distance that ``share`` of those seeds lie below, (L,)."""
        return self.distances[model].nanquantile(share, dim=0)

    def zero_collapse(self, model: str) -> Tensor:
        """Number of seeds whose state is all zeros, (L,)."""
        return self.distances[model].isnan().sum(dim=0)

    def to_json(self) -> str:
        """All numbers as JSON text, with their summary; `from_json` reads it back."""
        fields = {
            "spec": asdict(self.spec),
            "versions": self.versions,
            "seeds": list(range(self.spec.seeds)),
            "graph_numbers": list(self.graph_numbers),
            "summary": {model: self._summary(model) for model in self.distances},
            "distances": {model: _nulls(values.tolist()) for model, values in self.distances.items()},
        }
        return json.dumps(fields, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Figure2Result:
        """The result that `to_json` wrote."""
        fields = json.loads(text)
        spec = Figure2Spec(**{**fields["spec"], "models": tuple(fields["spec"]["models"])})
        distances = {model: _nans(rows) for model, rows in fields["distances"].items()}
        return cls(spec, distances, tuple(fields["graph_numbers"]), fields["versions"])

    def __rich__(self) -> Group:
        """The means at depths 1, 2, 4, ... and the last one, with the runs that are left out of them."""
        from rich.console import Group

        spec = self.spec
        title = f"Mean rank-one distance by depth: {spec.seeds} seeds, {spec.graphs}, split by {spec.split}"
        zeros = {model: int(self.zero_collapse(model)[-1]) for model in self.distances}
        left_out = [f"{model.upper()} {count} of {spec.seeds}" for model, count in zeros.items() if count]
        note = [f"zero collapse, left out of the mean: {', '.join(left_out)}"] if left_out else []
        return Group(title, self._table(), *note)

    def _table(self) -> Table:
        from rich.table import Table

        shown = depths(self.spec.layers)
        table = Table(box=None, padding=(0, 2, 0, 0))  # ten models fit into 80 columns
        table.add_column("layers", no_wrap=True)
        for depth in shown:
            table.add_column(str(depth), justify="right", no_wrap=True)
        for model in self.distances:
            means = self.mean(model).tolist()
            table.add_row(model.upper(), *(_cell(means[depth - 1]) for depth in shown))
        return table

    def _summary(self, model: str) -> dict[str, Any]:
        return {
            "mean": _nulls(self.mean(model).tolist()),
            "median": _nulls(self.quantile(model, 0.5).tolist()),
            "quantile_10": _nulls(self.quantile(model, LOW).tolist()),
            "quantile_90": _nulls(self.quantile(model, HIGH).tolist()),
            "zero_collapse": self.zero_collapse(model).tolist(),
        }


def depths(layers: int) -> list[int]:
    """1, 2, 4, ... and the last one.

    >>> depths(20)
    [1, 2, 4, 8, 16, 20]
    """
    return sorted({2**power for power in range(layers.bit_length())} | {layers})


def _cell(value: float) -> str:
    return "all zero" if math.isnan(value) else f"{value:.2g}"


def _nulls(values: Any) -> Any:
    """NaN as None, which JSON has a word for."""
    if isinstance(values, list):
        return [_nulls(value) for value in values]
    return None if math.isnan(values) else values


def _nans(rows: list[list[float | None]]) -> Tensor:
    filled = [[math.nan if value is None else value for value in row] for row in rows]
    return torch.tensor(filled, dtype=torch.float64)

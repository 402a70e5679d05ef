"""The file that a `CollapseMonitor` writes."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from graphprism.analysis.collapse.collapse_report import CollapseReport
from graphprism.analysis.collapse.layer_collapse import LayerCollapse

_METRICS = [field.name for field in fields(LayerCollapse) if field.name != "shape"]
_HEADER = ["step", "loss", "nodes", "channels", *_METRICS]


class CollapseCSV:
    """Appends one line per layer and step to a file, all lines of a step in one write.

    An interrupted run leaves at most a torn last line. A run that goes on at ``first_step`` removes it, and all lines
    of that step and later ones. A run that starts at step 0 does not touch a file with lines of another.
    """

    def __init__(self, path: str | os.PathLike[str], first_step: int) -> None:
        self.path = Path(path)
        kept = self._lines_before(first_step) if self.path.exists() else []
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        draft.write_text(_text([_HEADER]) + "".join(kept), encoding="utf-8")
        os.replace(draft, self.path)

    def append(self, step: int, report: CollapseReport) -> None:
        """Writes the rows of one report."""
        lines = [[step, report.loss, *row.shape, *(getattr(row, name) for name in _METRICS)] for row in report.rows]
        with self.path.open("ab", buffering=0) as file:
            file.write(_text(lines).encode())

    def _lines_before(self, first_step: int) -> list[str]:
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        header, *rest = [line for line in lines if line.endswith("\n")] or [""]
        if header != _text([_HEADER]) and lines:
            raise ValueError(f"`csv` must be a file of a CollapseMonitor, got {self.path} with other columns")
        if rest and first_step == 0:
            raise FileExistsError(f"`csv` must be new for a run from step 0, got {self.path}: pass first_step to go on")
        return [line for line in rest if int(line.split(",", 1)[0]) < first_step]


def _text(lines: Iterable[Iterable[object]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()

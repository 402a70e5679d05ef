"""Logs every epoch to CSV files or TensorBoard."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path
from typing import Any

from graphprism._checks import check_choice
from graphprism._extras import needs_extra
from graphprism.training import EpochReport

LOGS = ("csv", "tensorboard")
_COLUMNS = ("epoch", "lr", "train_loss", "train", "val", "test", "seconds")


class EpochLog:
    """Callback that writes the `EpochReport` of each epoch to ``folder``, in a file by the key of its run.

    A resumed run continues its file; epochs that are repeated replace their lines.

    Args:
        kind: ``"csv"``, a file ``KEY.csv`` per run; ``"tensorboard"``, a folder ``KEY`` of event files per run.
        folder: Folder of the logs.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        check_choice("log", kind, LOGS)
        self.kind, self.folder = kind, folder
        self._writers: dict[str, Any] = {}
        if kind == "tensorboard":
            with needs_extra("a log for TensorBoard"):
                self._tensorboard = importlib.import_module("torch.utils.tensorboard")

    def __call__(self, report: EpochReport) -> None:
        """Writes an epoch."""
        key = report.run.key
        if key not in self._writers:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._writers[key] = self._open(key, report)
        values = {name: getattr(report, name) for name in _COLUMNS}
        if self.kind == "csv":
            with (self.folder / f"{key}.csv").open("a", newline="", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerow(values.values())
        else:
            for name in _COLUMNS[1:]:
                self._writers[key].add_scalar(name, values[name], report.epoch)
            self._writers[key].flush()

    def close(self) -> None:
        """Closes the TensorBoard writers."""
        for writer in self._writers.values():
            if writer is not None:
                writer.close()

    def _open(self, key: str, report: EpochReport) -> Any:
        if self.kind == "tensorboard":
            writer = self._tensorboard.SummaryWriter(str(self.folder / key), purge_step=report.epoch)
            writer.add_text("run", report.run.title)
            return writer
        path = self.folder / f"{key}.csv"
        lines = path.read_text("utf-8").splitlines()[1:] if path.is_file() else []
        before = [
            line for line in lines if line.partition(",")[0].isdigit() and int(line.partition(",")[0]) < report.epoch
        ]
        path.write_text("\n".join([",".join(_COLUMNS), *before]) + "\n", "utf-8")
        return None

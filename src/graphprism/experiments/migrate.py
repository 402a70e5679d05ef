"""Migrates ledgers of version 0.1: ``python -m graphprism.experiments.migrate LEDGER...``.

Version 0.1 had two kinds of runs. Those on graphs keep their keys. Those on nodes had other fields and other keys:
their lines get the fields and the key of `graphprism.training.Run`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphprism._files import write_whole
from graphprism.ledger import is_node_run_0_1
from graphprism.training.run import ORIGIN, run_key

# Defaults of runs on nodes in version 0.1, whose keys omitted fields with default values.
NODE_DEFAULTS_0_1: dict[str, Any] = {
    "dataset": "chameleon",
    "model": "mrs-dir-gcn",
    "split": "degree",
    "layers": 6,
    "width": 128,
    "alpha": 1.0,
    "jk": "max",
    "normalize": True,
    "dropout": 0.2,
    "input_dropout": False,
    "share_init": True,
    "undirected": False,
    "self_loops": False,
    "row_normalise": True,
    "optimizer": "adam",
    "lr": 0.005,
    "weight_decay": 0.0,
    "epochs": 10_000,
    "patience": 400,
    "fold": 0,
    "seed": 0,
    "precision": "float32",
}
# Fixed settings of all runs on nodes in version 0.1, which had no fields for them.
NODE_PROTOCOL_0_1: dict[str, Any] = {"batch_size": None, "schedule": "constant", "warmup": 0, "clip": 0.0}


def key_0_1(run: Mapping[str, Any]) -> str:
    """The key that version 0.1 gave a run on nodes."""
    told = {name: value for name, value in run.items() if value != NODE_DEFAULTS_0_1.get(name, ...)}
    return hashlib.sha256(json.dumps({"node": told}, sort_keys=True).encode()).hexdigest()[:16]


def migrate_line(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a result of version 0.1; newer results are unchanged.

    Raises:
        ValueError: The stored key does not belong to the stored run.
    """
    run = values.get("run", {})
    if not is_node_run_0_1(run):
        return dict(values)
    if values["key"] != key_0_1(run):
        raise ValueError(f"the key of a run must be {key_0_1(run)} by the rule of version 0.1, got {values['key']}")
    # fields added during version 0.1 had their default before
    new = {**ORIGIN, **NODE_DEFAULTS_0_1, **run, **NODE_PROTOCOL_0_1}
    return {**values, "key": run_key(new), "run": new}


def migrate(path: Path) -> int:
    """Migrates a ledger in place, atomically; returns the number of changed lines.

    No run may write to it meanwhile: what it appends after this has read the file would be lost.
    """
    lines = path.read_text("utf-8").splitlines()
    before = [json.loads(line) for line in lines]
    after = [migrate_line(each) for each in before]
    changed = [old != new for old, new in zip(before, after, strict=True)]
    text = [
        json.dumps(new, separators=(",", ":"), allow_nan=False) if is_new else line
        for line, new, is_new in zip(lines, after, changed, strict=True)
    ]
    if any(changed):
        write_whole(path, "".join(f"{line}\n" for line in text).encode())
    return sum(changed)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{name}: {migrate(Path(name))} lines migrated")

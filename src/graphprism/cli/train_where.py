"""The devices and the engine of ``graphprism train``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from graphprism.cli.suggest import suggest

ACCELERATORS = ("auto", "cpu", "cuda", "mps")
ENGINES = ("auto", "eager", "lockstep")
# Set above 0 in all processes but the first, by torchrun, by SLURM and by Lightning.
_RANKS = ("RANK", "SLURM_PROCID", "NODE_RANK", "LOCAL_RANK")


@dataclass(frozen=True)
class Where:
    """What runs go to.

    Attributes:
        accelerator: One of `ACCELERATORS`.
        devices: Devices of a machine that share a run.
        nodes: Machines that share a run.
        engine: ``"eager"`` wherever runs at once are not possible, else what was asked for.
    """

    accelerator: str
    devices: int
    nodes: int
    engine: str

    @property
    def processes(self) -> int:
        """How many share a run."""
        return self.devices * self.nodes

    @property
    def is_first(self) -> bool:
        """Whether this is the process that prints and writes."""
        return self.processes == 1 or all(int(os.environ.get(name) or 0) == 0 for name in _RANKS)


def train_where(options: Mapping[str, Any]) -> Where:
    """Reads ``accelerator``, ``devices``, ``nodes`` and ``engine``.

    Raises:
        ValueError: This machine does not have it, or the choices exclude each other.
    """
    accelerator, engine, devices, nodes = (options[name] for name in ("accelerator", "engine", "devices", "nodes"))
    for name, value, allowed in (("accelerator", accelerator, ACCELERATORS), ("engine", engine, ENGINES)):
        if value not in allowed:
            raise ValueError(f"`{name}` must be one of {', '.join(allowed)}, got {value!r}{suggest(value, allowed)}")
    _check_devices(accelerator, devices)
    alone = devices * nodes == 1
    if engine == "lockstep" and (accelerator in ("cpu", "mps") or not alone):
        raise ValueError("`engine` must be auto or eager without one CUDA device for all runs, got 'lockstep'")
    on_gpu = accelerator in ("auto", "cuda") and torch.cuda.is_available()
    return Where(accelerator, devices, nodes, engine if (on_gpu and alone) or engine == "lockstep" else "eager")


def _check_devices(accelerator: str, devices: int) -> None:
    there = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if devices > there.get(accelerator, devices):
        problem = (
            f"torch finds {there[accelerator]} of that kind, and {devices} {'is' if devices == 1 else 'are'} asked for"
        )
        raise ValueError(f"`accelerator` must be auto or cpu on this machine, got {accelerator!r}: {problem}")

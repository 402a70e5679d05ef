"""What a run was computed on."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import torch


def hardware(device: torch.device, count: int, runs_at_once: int = 1) -> dict[str, Any]:
    """Kind, name and number of the devices of a run, for `graphprism.results.RunResult`.

    >>> hardware(torch.device("cpu"), 2)["count"]
    2
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    return {"device": device.type, "name": name, "count": count, "runs_at_once": runs_at_once}


def processor() -> str:
    """Name of the processor, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()

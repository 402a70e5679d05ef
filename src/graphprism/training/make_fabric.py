"""The devices of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from graphprism.training.run import Run

if TYPE_CHECKING:
    from lightning.fabric import Fabric

# Fabric's own double precision rounds outputs to float32: a network of doubles does better without it.
_PRECISIONS: dict[str, Any] = {"float32": "32-true", "bf16": "bf16-mixed", "float64": "32-true"}


def make_fabric(run: Run, accelerator: str, devices: int, nodes: int) -> Fabric:
    """Lightning's Fabric on these devices, launched: from here on every process runs the same code.

    One process per device. Started by torchrun, the processes are those that it has made; else Fabric starts the script
    once more for every further device.
    """
    from lightning.fabric import Fabric
    from lightning.fabric.strategies.ddp import DDPStrategy

    accelerator = _resolve(accelerator, devices, nodes)
    strategy: Any = "auto"
    if devices * nodes > 1:
        # the last layer of a gated network makes edge features that nobody reads
        strategy = DDPStrategy(find_unused_parameters="gated" in run.model)
    fabric = Fabric(
        accelerator=accelerator,
        strategy=strategy,
        devices=devices,
        num_nodes=nodes,
        precision=_PRECISIONS[run.precision],
    )
    fabric.launch()
    return fabric


def _resolve(accelerator: str, devices: int, nodes: int) -> str:
    """``"cpu"`` or ``"cuda"``, checked to be there."""
    for name, value in (("devices", devices), ("nodes", nodes)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1, got {value}")
    if accelerator not in ("auto", "cpu", "gpu", "cuda"):
        raise ValueError(f"`accelerator` must be 'auto', 'cpu' or 'gpu', got {accelerator!r}")
    found = torch.cuda.device_count()
    if accelerator == "cpu" or (accelerator == "auto" and not found):
        return "cpu"
    if devices > found:
        raise ValueError(f"`devices` must be at most {found}, the CUDA devices of this machine, got {devices}")
    return "cuda"

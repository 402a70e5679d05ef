"""What a result was computed with."""

from __future__ import annotations

import platform

import numpy
import torch
import torch_geometric

from graphprism import __version__


def versions() -> dict[str, str]:
    """Versions of all that has a say in the numbers."""
    return {
        "graphprism": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "torch_geometric": str(torch_geometric.__version__),
        "numpy": numpy.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
    }

"""What a result was computed with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import numpy
import torch
import torch_geometric

from graphprism import __version__


def versions() -> dict[str, str]:
    """Versions of all that has a say in the numbers; what is not installed is left out.

    >>> versions()["torch"] == torch.__version__
    True
    """
    found = {
        "graphprism": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "torch_geometric": str(torch_geometric.__version__),
        "numpy": numpy.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
    }
    # asked for by name: to import them takes seconds, and figures without training do not need them
    for name in ("lightning", "torchmetrics"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found

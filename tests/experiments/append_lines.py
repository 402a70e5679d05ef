"""A process that writes results: ``python append_lines.py SOURCE LEDGER NAME COUNT [without-locks]``."""

import sys
from pathlib import Path
from types import ModuleType


def skip_inits(source: str) -> None:
    """Packages without what their `__init__` imports, which would load torch: a process then starts at once."""
    for package in ("graphprism", "graphprism.experiments"):
        sys.modules[package] = ModuleType(package)
        sys.modules[package].__path__ = [str(Path(source, *package.split(".")[1:]))]


def write(path: str, name: str, count: int) -> None:
    from graphprism.ledger import Ledger
    from graphprism.results import RunResult

    # Long lines: a write of less than a page would look whole by luck.
    history = {"train_loss": [0.125] * 5_000}
    for number in range(count):
        key = f"{name}-{number}"
        Ledger(path).append(RunResult(key, {}, "finished", "mae", False, history, 1, 1, 1, 1.0, 1.0, "eager"))
        print(number, flush=True)


if __name__ == "__main__":
    skip_inits(sys.argv[1])
    if "without-locks" in sys.argv:  # a system without them
        sys.modules["fcntl"] = None
    write(sys.argv[2], sys.argv[3], int(sys.argv[4]))

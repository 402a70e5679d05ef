"""A process for grids that are killed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def grid_in_process() -> Iterator[Callable[[dict[str, Any]], int]]:
    """Trains a grid in a real process, which may be killed; gives its exit code (see forked_grid.py)."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(Path(__file__).with_name("forked_grid.py"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, cwd=ROOT, **pipes) as host:
        assert host.stdout.readline(), "the process could not be started"

        def run(job: dict[str, Any]) -> int:
            host.stdin.write(json.dumps(job) + "\n")
            host.stdin.flush()
            return int(host.stdout.readline())

        yield run
        host.stdin.close()

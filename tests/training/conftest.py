"""Processes for the tests of training."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def train_in_process() -> Iterator[Callable[..., list[int]]]:
    """Trains in one or several real processes, which may be killed; gives their exit codes (see forked.py)."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(ROOT / "tests" / "training" / "forked.py")]
    host = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )
    assert host.stdin is not None
    assert host.stdout is not None
    assert host.stdout.readline(), "the process could not be started"

    def run(job: dict[str, Any]) -> list[int]:
        host.stdin.write(json.dumps(job) + "\n")
        host.stdin.flush()
        codes: list[int] = json.loads(host.stdout.readline())
        return codes

    yield run
    host.stdin.close()
    host.stdout.close()
    host.wait(timeout=30)

"""Processes of their own that find the package and the tests where this one did."""

import os
import subprocess
import sys
from pathlib import Path

import graphprism

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(Path(graphprism.__file__).parents[1]), str(ROOT)]),
    "OMP_NUM_THREADS": "1",
}


def start(*words, **options):
    """A python process with these arguments and pipes for what it says."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **{"env": ENVIRONMENT, **pipes, **options})


def run(*words, **options):
    """The finished process of these arguments, with ``returncode``, ``stdout`` and ``stderr``."""
    process = start(*words, **options)
    process.stdout_text, process.stderr_text = process.communicate(timeout=120)
    return process

"""Nothing assumes Linux: modules that only POSIX has are hidden, and locks of Windows take the place of `fcntl`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphprism.experiments.tables import memory

ROOT = Path(__file__).parents[1]

# The part of `msvcrt` that is used, with real locks between processes: `os.lockf` needs no `fcntl`.
MSVCRT = """
import os

LK_NBLCK = 2


def locking(descriptor, mode, count):
    assert mode == LK_NBLCK
    os.lockf(descriptor, os.F_TLOCK, count)
"""
# Hidden when other packages are loaded, which find out by the same modules which system they run on.
HIDE = """
import os, sys
import lightning.fabric, torch_geometric, torchmetrics, typer

sys.path.append(os.environ["MODULES"])
sys.modules["fcntl"] = sys.modules["resource"] = None
"""
IMPORT_ALL = """
import importlib, pkgutil
import graphprism

for found in pkgutil.walk_packages(graphprism.__path__, "graphprism."):
    if not found.name.startswith("graphprism.ops.kernels.") and not found.name.endswith("__main__"):
        importlib.import_module(found.name)
"""
TRAIN = """
from pathlib import Path
from graphprism import _files
from graphprism.datasets import molecules
from graphprism.experiments import Ledger
from graphprism.training import Run, train

assert _files._fcntl is None and _files._msvcrt is not None
run = Run(model="gcn", layers=1, width=4, epochs=1)
Ledger(Path("ledger.jsonl")).append(train(run, molecules(30), folder="checkpoints", accelerator="cpu"))
"""
HOLD = """
import os, sys
from pathlib import Path

sys.path.append(os.environ["MODULES"])
sys.modules["fcntl"] = None
from graphprism._files import claim, write_whole

with claim(Path(sys.argv[1])) as mine:
    write_whole(Path(sys.argv[1]).with_name("text"), "all")
    print(mine, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def environment(tmp_path):
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "msvcrt.py").write_text(MSVCRT, "utf-8")
    paths = {"PYTHONPATH": str(ROOT / "src"), "MODULES": str(modules)}
    return {**os.environ, **paths, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}


def test_every_module_can_be_imported_and_a_run_trained_without_posix(warm_python, tmp_path, environment):
    done = warm_python.run(
        "-W", "ignore", "-c", HIDE + IMPORT_ALL + TRAIN, cwd=tmp_path, MODULES=environment["MODULES"]
    )
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "ledger.jsonl").read_text("utf-8").splitlines()) == 1


def test_claim_without_fcntl_is_held_by_one_process(tmp_path, environment):
    def start():
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        return subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "a.lock")], env=environment, **pipes)

    with start() as first:
        assert first.stdout.readline() == "True\n"
        with start() as second:
            assert second.stdout.readline() == "False\n"
            second.communicate()
        first.kill()
    with start() as third:
        assert third.stdout.readline() == "True\n"
        third.communicate()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["modules", "text"]


def test_peak_memory_is_unknown_where_the_system_does_not_tell_it(monkeypatch):
    monkeypatch.setattr(memory, "Path", lambda name: Path("no such folder"))
    monkeypatch.setitem(sys.modules, "resource", None)
    assert memory.peak_bytes() is None
    row, column = memory.MEMORY[0], next(name for name, kind in memory._COLUMNS.items() if kind == "main")
    assert memory._cell(row, column, [{"main": None, "gpu": None}]).note == "not measured on this system"

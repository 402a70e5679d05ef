"""The set-up that every target of the Makefile begins with, with a Python that only pretends to install."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")

# Stands for python3 and, copied by its own `-m venv`, for the Python of the environment.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
    *"-m venv"*) for last; do :; done; mkdir -p "$last/bin" && cp "$0" "$last/bin/python";;
    *"$FAIL_AT"*) exit 1;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "fake-python").write_text(FAKE_PYTHON)
    (tmp_path / "fake-python").chmod(0o755)
    return tmp_path


def make(folder: Path, *arguments: str, fail_at: str = "nothing fails") -> subprocess.CompletedProcess[str]:
    command = ["make", f"PYTHON={folder / 'fake-python'}", *arguments]
    environment = {"PATH": "/usr/bin:/bin", "FAIL_AT": fail_at}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("target", ["test", "demo", "docs"])
def test_make_refuses_an_environment_that_it_did_not_set_up(checkout, target):
    mine = checkout / ".venv" / "lib" / "mine.py"
    mine.parent.mkdir(parents=True)
    mine.touch()
    run = make(checkout, target)
    assert run.returncode != 0
    assert f"make VENV=.venv-make {target}" in run.stdout
    assert mine.exists()


def test_make_clean_keeps_an_environment_that_make_did_not_set_up(checkout):
    (checkout / ".venv" / "lib").mkdir(parents=True)
    assert "stays" in make(checkout, "clean").stdout
    assert (checkout / ".venv" / "lib").exists()


def test_make_repeats_its_own_interrupted_set_up_and_clean_removes_it(checkout):
    assert make(checkout, "types", fail_at="torch hatchling").returncode != 0
    (checkout / ".venv" / "half-written").touch()
    assert make(checkout, "types").returncode == 0
    assert not (checkout / ".venv" / "half-written").exists()
    assert (checkout / ".venv" / ".installed").exists()
    make(checkout, "clean")
    assert not (checkout / ".venv").exists()


def test_make_set_up_names_each_stage(checkout):
    stages = [line for line in make(checkout, "types").stdout.splitlines() if line[1:3] == "/3"]
    assert [stage[0] for stage in stages] == ["1", "2", "3"]

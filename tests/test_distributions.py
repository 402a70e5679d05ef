"""Wheel and sdist, built and installed as a user would get them."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow
# Without the path to this checkout: what is imported has to come from the distribution.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PYTHONWARNINGS": "ignore"}


def run(*command, cwd):
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def sdist(dist, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, **({"filter": "data"} if sys.version_info >= (3, 12) else {}))
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def environment(dist, tmp_path_factory):
    """A fresh environment with the wheel alone; everything else comes from the one that runs the tests."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder, cwd=folder)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", next(dist.glob("*.whl")), cwd=folder)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(python, "-c", code, cwd=folder).strip())
    # A line of a .pth file adds a folder and runs no .pth file in it, such as that of an editable install.
    here = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (packages / "others.pth").write_text("\n".join(here) + "\n", "utf-8")
    return python


def names_in_wheel(path):
    with zipfile.ZipFile(path) as archive:
        return {name for name in archive.namelist() if name.startswith("graphprism/")}


def test_wheel_has_every_file_of_the_package(dist):
    files = (path for path in (ROOT / "src" / "graphprism").rglob("*") if path.is_file() and path.suffix != ".pyc")
    assert names_in_wheel(next(dist.glob("*.whl"))) == {path.relative_to(ROOT / "src").as_posix() for path in files}


def test_sdist_builds_the_same_wheel(dist, sdist, tmp_path):
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=sdist)
    assert names_in_wheel(next(tmp_path.glob("*.whl"))) == names_in_wheel(next(dist.glob("*.whl")))


def test_wheel_can_be_imported_and_its_command_runs(environment, tmp_path):
    where = Path(run(environment, "-c", "import graphprism; print(graphprism.__file__)", cwd=tmp_path).strip())
    assert environment.parents[1] in where.parents
    command = environment.with_name("graphprism")
    assert "reproduce" in run(command, "--help", cwd=tmp_path)
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,2\n", "utf-8")
    assert "degree" in run(command, "inspect", "edges.csv", cwd=tmp_path)
    run(command, "report", "--out", tmp_path, cwd=tmp_path)  # takes its scripts and styles from the wheel


def test_sdist_collects_its_tests_and_a_slice_passes(sdist):
    pytest_of = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert " tests collected" in run(*pytest_of, "--collect-only", cwd=sdist).splitlines()[-1]
    files = ("test_architecture", "test_dependencies", "test_public", "test_readme", "test_version_0_1")
    run(*pytest_of, *(f"tests/{name}.py" for name in files), "tests/transforms", cwd=sdist)

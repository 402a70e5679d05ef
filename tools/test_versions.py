"""Runs some tests with other versions of Python and the dependencies: ``python tools/test_versions.py``.

Each environment is a folder in ``.venvs``. The oldest Python gets the lowest versions that pyproject.toml allows, the
others get those of constraints.txt. A Python that is not installed is skipped with a message. The CUDA builds of torch,
the default of the package index on Linux, take 3 GB to download and 7 GB of disk per environment.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PYTHONS = sorted(re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"])), key=lambda name: int(name[2:]))
# All doctests, and tests that depend on versions: layers and compilation, files of torch, the command line.
SLICE = (
    "src",
    "tests/cli/test_figure.py",
    "tests/cli/test_inspect.py",
    "tests/cli/test_main.py",
    "tests/convert/test_mrs_model.py",
    "tests/convert/test_summed_layer.py",
    "tests/datasets/test_packed_file.py",
    "tests/nn/conv",
    "tests/nn/models/test_compiled.py",
    "tests/ops/test_attention.py",
    "tests/ops/test_biased_linear.py",
    "tests/ops/test_edge_softmax.py",
    "tests/ops/test_feed_forward.py",
    "tests/ops/test_for_all_runs.py",
    "tests/ops/test_node_tiles.py",
    "tests/ops/test_recent_graphs.py",
    "tests/ops/test_relational_adj.py",
    "tests/ops/test_relational_linear.py",
    "tests/ops/test_row_maps.py",
    "tests/ops/test_run_batch_norm.py",
    "tests/splitting/splits",
    "tests/test_files.py",
    "tests/test_public.py",
    "tests/training/test_captured_graphs.py",
    "tests/training/test_checkpoint.py",
    "tests/training/test_train.py",
    "tests/transforms",
)
# Not needed to run tests.
NOT_INSTALLED = {"hatchling", "mypy", "ruff", "graphprism"}


def find_python(version: str) -> str | None:
    """A working interpreter on the path or in pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [shutil.which(f"python{version}"), *sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/python")))]
    for found in filter(None, candidates):
        if not subprocess.run([found, "--version"], capture_output=True, check=False).returncode:
            return found
    return None


def requirements(lowest: bool) -> list[str]:
    """Requirements of the tests, at the lowest allowed versions or at those of constraints.txt."""
    extras = PROJECT["optional-dependencies"]
    texts = [*PROJECT["dependencies"], *extras["demo"], *extras["experiments"], *extras["parquet"], *extras["dev"]]
    pairs = [re.fullmatch(r"([\w-]+)(?:\[\w+\])?(?:>=([\d.]+))?.*", text).groups() for text in texts]
    wanted = {name: version for name, version in pairs if name not in NOT_INSTALLED}
    return [f"{name}=={version}" for name, version in wanted.items()] if lowest else list(wanted)


def set_up(folder: Path, python: str, lowest: bool) -> None:
    """Creates the environment unless one with the same packages exists."""
    wanted = requirements(lowest)
    fixed = [] if lowest else ["--constraint", str(ROOT / "constraints.txt")]
    text = "\n".join(wanted) + ("" if lowest else (ROOT / "constraints.txt").read_text("utf-8"))
    ready = folder / "installed.txt"
    if ready.exists() and ready.read_text("utf-8") == text:
        return
    subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
    subprocess.run(
        [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--quiet", *fixed, *wanted], check=True
    )
    ready.write_text(text, "utf-8")


def run_slice(folder: Path, lowest: bool) -> tuple[int, str]:
    """Exit code and last line of pytest, which has none if it cannot start."""
    # old packages issue deprecation warnings
    warnings = ["-W", "ignore::DeprecationWarning", "-W", "ignore::FutureWarning"] if lowest else []
    command = [folder / "bin" / "python", "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *warnings, *SLICE]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            print(line)
    return done.returncode, lines[-1] if lines else f"pytest ended with {done.returncode} and said nothing"


def versions_in(folder: Path) -> str:
    names = ("torch", "torch_geometric", "numpy", "lightning")
    code = f"from importlib.metadata import version; print(*('%s %s' % (n, version(n)) for n in {names}), sep=', ')"
    return subprocess.run(
        [folder / "bin" / "python", "-c", code], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pythons", nargs="*", default=PYTHONS, metavar="VERSION", help=f"of {', '.join(PYTHONS)}")
    parser.add_argument("--folder", type=Path, default=ROOT / ".venvs", help="folder of the environments")
    options = parser.parse_args()
    failed = False
    for version in options.pythons:
        python, lowest, start = find_python(version), version == PYTHONS[0], time.perf_counter()
        if python is None:
            print(f"Python {version}: not tested, there is none on the path or in pyenv", flush=True)
            continue
        folder = options.folder / f"{version}{'-lowest' if lowest else ''}"
        set_up(folder, python, lowest)
        code, line = run_slice(folder, lowest)
        failed |= code != 0
        print(f"Python {version}, {versions_in(folder)}: {line} ({time.perf_counter() - start:.0f} s)", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Runs the gallery, or writes its index: ``python tools/gallery.py [NAME...]`` and ``python tools/gallery.py --index``.

Every script runs in a process of its own, with one thread and without the data sets of this machine. What they draw is
in ``outputs/gallery``.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
# In the order of the index.
NAMES = (
    "convert_a_pyg_model",
    "see_collapse",
    "molecules",
    "node_classification",
    "directed_graph",
    "link_prediction",
    "heterogeneous_graph",
    "own_csv",
    "sampling_a_large_graph",
    "learned_split",
    "explain_by_relation",
    "distributed",
    "own_ordering",
    "own_layer",
)
HEAD = """# Gallery

Written by `python tools/gallery.py --index`. Each script runs by itself (`python examples/NAME.py`), without a network
and without data of its own, in less than 20 s on one core, and ends in a table or a picture. `make gallery` runs all of
them, `make notebooks` makes a notebook of each in `outputs/notebooks`. [demo.py](demo.py) is what `make demo` runs.

| script | what it shows | ends in |
|---|---|---|
"""


def summary(name: str) -> str:
    """First sentence of a script's docstring."""
    text = ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text("utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


def index() -> str:
    """The text of examples/README.md."""
    return HEAD + "".join(
        f"| [{name}.py]({name}.py) | {summary(name)} | {'picture' if _draws(name) else 'table'} |\n" for name in NAMES
    )


def _draws(name: str) -> bool:
    return "save_figure" in (EXAMPLES / f"{name}.py").read_text("utf-8")


def run(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a script in ``folder``, with the package of this checkout."""
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    environment.pop("GRAPHPRISM_DATA", None)
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--index", action="store_true", help="write examples/README.md instead")
    chosen = parser.parse_args()
    if chosen.index:
        (EXAMPLES / "README.md").write_text(index(), "utf-8")
        return 0
    if unknown := sorted(set(chosen.names) - set(NAMES)):
        parser.error(f"NAME must be one of {', '.join(NAMES)}, got {', '.join(unknown)}")
    failed = 0
    for name in chosen.names or NAMES:
        start = time.perf_counter()
        done = run(name, ROOT)
        print(f"\n=== {name}: {time.perf_counter() - start:.1f} s\n{done.stdout}", end="", flush=True)
        if done.returncode:
            failed += 1
            print(f"{done.stderr}\n{name} ended with status {done.returncode}", file=sys.stderr)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())

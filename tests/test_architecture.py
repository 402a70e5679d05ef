"""Imports point one way: the arrows are listed here, and every import, read with `ast`, has to follow one."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]

# Leaves that every part may use: caches of layers, checks of arguments, optional packages, files that are written
# whole, text for people.
LEAVES = {"_caches", "_checks", "_extras", "_files", "_text"}
# What each part of the package may import of the package, beside itself and the leaves. A part allowed here brings all
# below it.
ARROWS = {
    **{leaf: set() for leaf in LEAVES},
    # The form of packed files, which `io` reads as one graph and `datasets` as a set with targets and folds.
    "packed": set(),
    # Names of data sets and the folder of their files, which commands list without waiting for torch.
    "known": set(),
    "results": set(),
    # Defaults of runs by data set, which the command line shows without loading torch.
    "protocols": set(),
    # The results of runs in a file, which the report reads without torch.
    "ledger": {"results"},
    "splitting": set(),
    # A prepared graph is made of data whose split is checked.
    "ops": {"splitting"},
    "nn": {"nn.conv", "nn.models"},
    "nn.conv": {"ops"},
    "nn.models": {"nn.conv", "ops"},
    "transforms": {"splitting", "ops"},
    # Splits of files: the definitions are those of `splitting`, packed files are one of the formats.
    "streaming": {"packed", "splitting"},
    "io": {"packed", "splitting", "streaming"},
    # Samples graphs that were split before; runs a network layer by layer on parts of a prepared graph.
    "loader": {"nn", "splitting", "ops"},
    "plotting": {"splitting"},
    # Replaces layers of PyG by those of `nn`, and splits what the converted model is called with.
    "convert": {"nn", "splitting", "ops"},
    "analysis": {"packed", "io", "plotting", "splitting", "ops"},
    # Both make molecule-like graphs, with one generator.
    "testing": {"datasets", "splitting", "ops"},
    # Tables and GraphML are read by `io`, and become sets with targets and folds here.
    "datasets": {"packed", "known", "io"},
    # Engines split, prepare and cut a whole data set as tensors, without a transform for each graph.
    # A predictor reads tables as the data set did that it was trained on, and is the best of a ledger.
    "training": {"ledger", "results", "nn", "transforms", "datasets", "io", "loader", "splitting", "ops"},
    # Figures without training run bare layers on split graphs, the built-in molecules among them.
    "experiments": {
        "training",
        "datasets",
        "known",
        "analysis",
        "io",
        "plotting",
        "ledger",
        "results",
        "nn",
        "ops",
        "splitting",
        "testing",
    },
    # Certifies splits, and trains briefly with each of them.
    "adviser": {"training", "analysis", "datasets", "known", "nn", "splitting", "protocols", "results"},
    "report": {"results"},
    # The page takes the policy of the report; its numbers are those of bare layers on split graphs.
    "play": {"report", "analysis", "nn", "splitting"},
    # A listing reads what packed files say of themselves, without torch.
    "cli": {
        "packed",
        "adviser",
        "experiments",
        "report",
        "play",
        "ops",
        "training",
        "nn",
        "analysis",
        "plotting",
        "datasets",
        "known",
        "ledger",
        "results",
        "protocols",
        "streaming",
    },
    "__main__": {"cli"},
}
# Packages that a part may load when it is imported; anything else waits inside the function that needs it.
TENSORS = {"torch", "numpy"}
CORE = TENSORS | {"torch_geometric"}
AT_IMPORT = {
    "_caches": TENSORS,
    "_checks": TENSORS,
    "_extras": set(),
    "_files": set(),
    "_text": set(),
    "results": set(),
    "protocols": set(),
    "known": set(),
    "ledger": set(),
    "packed": {"numpy"},
    "splitting": TENSORS,
    "ops": TENSORS,
    "nn": CORE,
    "nn.conv": CORE,
    "nn.models": CORE,
    "transforms": CORE,
    "streaming": TENSORS,
    "io": CORE,
    "loader": CORE,
    "plotting": CORE,
    "convert": CORE,
    "analysis": CORE,
    "testing": CORE,
    "datasets": CORE,
    "play": CORE,
}
# Kernels lie in one folder, whose files are loaded only where their language can be.
AT_IMPORT_IN_FOLDER = {"ops/kernels": {"triton"}}
# Packages that only the named parts may import at all, inside functions too.
LIGHTNING = {"lightning", "lightning_fabric", "pytorch_lightning"}
WITHOUT_PYG = {*LEAVES, "splitting", "ops", "known", "ledger", "results", "protocols", "report", "streaming"}
WITHOUT_TORCH = {"_extras", "_files", "_text", "known", "ledger", "results", "protocols", "report"}
ONLY_IN = {
    "torch": set(ARROWS) - WITHOUT_TORCH,
    "torch_geometric": set(ARROWS) - WITHOUT_PYG,
    **{name: {"training"} for name in LIGHTNING},
}

# Imports by a call count as well, so the call has to name the package.
DYNAMIC = {"import_module", "__import__"}
# So does the name of a function that is loaded when it is first used: "graphprism.ops.kernels.csr_sum:csr_sum".
LAZY_NAME = re.compile(r"graphprism(\.\w+)+:\w+")
UNREADABLE = "a name that is computed"


class Import(NamedTuple):
    """One imported name, in full (``graphprism.ops.spmm``), and whether it is loaded with the module that asks."""

    target: str
    line: int
    at_import: bool


def imports(tree: ast.AST, package: str, at_import: bool = True) -> Iterator[Import]:
    """Yields every import below ``tree``; relative ones are resolved against ``package``."""
    for node in ast.iter_child_nodes(tree):
        for target in targets(node, package):
            yield Import(target, node.lineno, at_import)
        waits = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or is_type_checking(node)
        yield from imports(node, package, at_import and not waits)


def targets(node: ast.AST, package: str) -> list[str]:
    match node:
        case ast.Import(names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module, names, level):
            parents = package.split(".")[: len(package.split(".")) - level + 1] if level else []
            return [".".join([*parents, *filter(None, [module]), alias.name]) for alias in names]
        case ast.Call(ast.Name(name) | ast.Attribute(attr=name), [target, *_]) if name in DYNAMIC:
            return [target.value if isinstance(target, ast.Constant) else UNREADABLE]
        case ast.Constant(str(name)) if LAZY_NAME.fullmatch(name):
            return [name.partition(":")[0]]
    return []


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def lies_in(target: str, parts: set[str]) -> bool:
    return any(target == part or target.startswith(part + ".") for part in parts)


def part_of(path: Path) -> str | None:
    """The longest name in `ARROWS` that holds a file, given its path below ``src/graphprism``."""
    name = ".".join(path.with_suffix("").parts)
    return max((part for part in ARROWS if lies_in(name, {part})), key=len, default=None)


def broken_rule(part: str, folder: str, found: Import) -> str | None:
    top, _, inside = found.target.partition(".")
    if found.target == UNREADABLE:
        return "write the package into the call, so that its rule can be checked"
    if top != "graphprism":
        at_import = found.at_import and top not in AT_IMPORT_IN_FOLDER.get(folder, set())
        return broken_third_party_rule(part, top, at_import)
    if inside == "__version__" or lies_in(inside, ARROWS[part] | LEAVES | {part}):
        return None
    return f"of graphprism it may import only {sorted(ARROWS[part] | LEAVES | {part})}"


def broken_third_party_rule(part: str, top: str, at_import: bool) -> str | None:
    if part not in ONLY_IN.get(top, {part}):
        return f"{top} may be imported only in {sorted(ONLY_IN[top])}"
    if at_import and part in AT_IMPORT and top not in AT_IMPORT[part] | sys.stdlib_module_names:
        return f"at import it may load only {sorted(AT_IMPORT[part])}; import {top} in the function that needs it"
    return None


def violations(path: Path, source: str) -> list[str]:
    """Checks one file, given its path below ``src/graphprism``."""
    if path == Path("__init__.py"):  # the public door, free to import every part
        return []
    part = part_of(path)
    if part is None:
        return [f"{path}:1: belongs to no part of the package; add its part to ARROWS"]
    package = ".".join(["graphprism", *path.parent.parts])
    found = [
        (one, broken_rule(part, path.parent.as_posix(), one)) for one in imports(ast.parse(source, str(path)), package)
    ]
    return [f"{path}:{one.line}: {part} must not import {one.target}: {rule}" for one, rule in found if rule]


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_every_import_follows_the_arrows():
    package = ROOT / "src" / "graphprism"
    files = python_files("src/graphprism")
    assert files, f"no source under {package}"
    found = [text for path in files for text in violations(path.relative_to(package), path.read_text("utf-8"))]
    assert not found, "\n".join(["", *found])


def test_arrows_make_no_circle():
    left = {part: arrows - {part} for part, arrows in ARROWS.items() if part != "nn"}
    while free := {part for part, arrows in left.items() if not arrows & (set(left) - {part})}:
        left = {part: arrows for part, arrows in left.items() if part not in free}
    assert not left, f"these parts import each other in a circle: {sorted(left)}"


def test_nobody_imports_the_command_line():
    assert [part for part, arrows in ARROWS.items() if "cli" in arrows] == ["__main__"]


def test_no_file_is_called_utils():
    found = [str(path.relative_to(ROOT)) for path in python_files("src", "tests", "benchmarks") if path.stem == "utils"]
    assert not found, f"name these files after what they do: {found}"


@pytest.mark.parametrize(
    ("path", "source", "words"),
    [
        ("splitting/split.py", "import torch\nfrom graphprism.ops import a", "split.py:2: splitting must not import"),
        ("splitting/split.py", "def f():\n    from graphprism import ops", "split.py:2:"),
        ("splitting/split.py", "from ..ops import spmm", "graphprism.ops.spmm"),
        ("splitting/split.py", "def f():\n    import torch_geometric.utils", "torch_geometric may be imported only in"),
        ("splitting/split.py", "class A:\n    import networkx", "at import it may load only ['numpy', 'torch']"),
        ("ops/spmm/__init__.py", "import importlib\nimportlib.import_module('graphprism.nn')", "__init__.py:2:"),
        ("ops/csr.py", "import triton", "import triton in the function that needs it"),
        ("ops/csr.py", "Backends(triton='graphprism.nn.kernels:run')", "ops must not import graphprism.nn.kernels"),
        ("analysis/a.py", "import importlib\nfor name in 'ab':\n    importlib.import_module(name)", "a.py:3: analysis"),
        ("nn/conv/gcn.py", "from graphprism.nn.models import Stack", "nn.conv must not import"),
        ("nn/models/stack.py", "from graphprism.nn import MRSGCNConv", "nn.models must not import"),
        ("nn/conv/gcn.py", "from graphprism.splitting import degree", "graphprism.splitting.degree"),
        ("transforms/split_edges.py", "try:\n    import pandas\nexcept ImportError:\n    pass", "pandas"),
        ("analysis/rank.py", "import graphprism", "analysis must not import graphprism:"),
        ("experiments/run.py", "def f():\n    import lightning", "only in ['training']"),
        ("experiments/run.py", "from graphprism.cli import app", "graphprism.cli.app"),
        ("report/page.py", "def f():\n    import torch", "torch may be imported only in"),
        ("report/page.py", "from graphprism.ops import csr_sum", "report must not import"),
        ("results.py", "import numpy", "results must not import numpy"),
        ("helpers.py", "", "helpers.py:1: belongs to no part"),
    ],
)
def test_planted_violation_is_named(path, source, words):
    (message,) = violations(Path(path), source)
    assert words in message


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("__init__.py", "from graphprism.cli import app"),
        ("_checks.py", "from __future__ import annotations\nimport torch\nfrom collections.abc import Sequence"),
        ("ops/spmm/__init__.py", "from . import reference\nfrom graphprism.ops.a import b\nfrom ... import _checks"),
        ("ops/kernels/csr_sum.py", "import triton\nimport triton.language as tl"),
        ("ops/csr.py", "Backends(triton='graphprism.ops.kernels.csr_sum:csr_sum')"),
        ("nn/__init__.py", "from graphprism.nn.conv import A\nfrom graphprism.nn.models import B"),
        ("nn/models/stack.py", "from torch_geometric.nn import global_add_pool\nfrom graphprism.nn import conv"),
        ("transforms/a.py", "def draw():\n    import matplotlib.pyplot\n\n    return lambda: __import__('rich')"),
        ("testing/zoo.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import networkx"),
        ("training/engine.py", "import lightning\nfrom graphprism.nn import conv\nfrom graphprism import __version__"),
        ("cli/app.py", "import typer\nfrom graphprism.experiments.run import run"),
    ],
)
def test_allowed_import_passes(path, source):
    assert violations(Path(path), source) == []

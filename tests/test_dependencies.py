"""What pyproject.toml declares is what the code imports, and a missing extra is named with the command for it."""

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from graphprism._extras import EXTRAS, needs_extra
from graphprism.cli import main
from graphprism.datasets import molecules, save
from graphprism.training import Run, train

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# Modules of a package that need another one.
BEHIND = {"torch.utils.tensorboard": "tensorboard"}
# Comes with builds of torch for GPUs; `graphprism.ops.kernels` asks whether it is there.
WITH_TORCH = {"triton"}
# What the Makefile calls, and what pytest brings where the standard library lacks it.
TOOLS, WITH_PYTEST = {"hatchling", "mypy", "pytest-xdist", "ruff"}, {"tomli"}
SCRIPTS = [path.stem for folder in ("benchmarks", "tools") for path in (ROOT / folder).glob("*.py")]
LOCAL = {"graphprism", "tests", *SCRIPTS}


NOT_DECLARED = sys.stdlib_module_names | LOCAL


def requirements(texts: list[str]) -> dict[str, Requirement]:
    """Requirements by name, without references to other extras of the package."""
    found = [Requirement(text) for text in texts]
    return {canonicalize_name(each.name): each for each in found if each.name != PROJECT["name"]}


CORE = requirements(PROJECT["dependencies"])
OPTIONAL = {name: requirements(texts) for name, texts in PROJECT["optional-dependencies"].items()}


def imported(tree: ast.AST, calls: bool, guarded: bool = False) -> Iterator[tuple[str, int, bool]]:
    """Distribution, line and whether it stands in a ``with needs_extra(...)``, of every import that can run.

    Only ``calls`` of `import_module` make it look into expressions, which are most of a file.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.expr) and not calls:
            continue
        for module in modules(node):
            top = module.partition(".")[0]
            if top not in NOT_DECLARED:
                yield canonicalize_name(BEHIND.get(module, top)), node.lineno, guarded
        here = isinstance(node, ast.With) and any(is_needs_extra(each.context_expr) for each in node.items)
        yield from imported(node, calls, guarded or here)


def is_needs_extra(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "needs_extra"


def modules(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names):
            return [alias.name for alias in names]
        case ast.ImportFrom(str(module), _, 0):
            return [module]
        case ast.Call(ast.Name("import_module") | ast.Attribute(attr="import_module"), [ast.Constant(str(module))]):
            return [module]
    return []


@functools.cache
def imports_below(*folders: str) -> dict[str, list[tuple[Path, int, bool]]]:
    found: dict[str, list[tuple[Path, int, bool]]] = {}
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text("utf-8")
        for package, line, guarded in imported(ast.parse(text), "import_module" in text):
            found.setdefault(package, []).append((path.relative_to(ROOT), line, guarded))
    return found


def test_core_dependencies_are_what_the_package_imports_without_an_extra():
    assert set(imports_below("src")) - set(EXTRAS) - WITH_TORCH == set(CORE)


@pytest.mark.parametrize("extra", ["demo", "experiments", "full", "parquet", "baselines", "tune"])
def test_extra_has_what_its_functions_import(extra):
    assert set(OPTIONAL[extra]) == {package for package, of in EXTRAS.items() if of == extra}
    assert set(OPTIONAL[extra]) <= set(imports_below("src"))


def test_every_extra_is_known():
    assert set(OPTIONAL) == {*EXTRAS.values(), "dev", "docs"}


def test_docs_have_what_their_pages_are_built_with():
    named = {"furo"}  # conf.py names its theme and the extensions of others as text
    for text in re.findall(r'^    "(\w+)",$', (ROOT / "docs" / "conf.py").read_text("utf-8"), re.MULTILINE):
        if not (ROOT / "docs" / "_ext" / f"{text}.py").exists():
            named.add(canonicalize_name(text))
    # what Sphinx itself stands on, and what other extras have
    with_sphinx, others = {"docutils"}, {*CORE, *OPTIONAL["demo"]}
    own = {canonicalize_name(path.stem) for path in (ROOT / "docs" / "_ext").glob("*.py")}
    assert set(OPTIONAL["docs"]) == (named | set(imports_below("docs"))) - with_sphinx - others - own


def test_dev_has_what_tests_examples_and_benchmarks_import():
    have = {*CORE, *OPTIONAL["demo"], *OPTIONAL["experiments"], *OPTIONAL["parquet"], *OPTIONAL["dev"]}
    want = set(imports_below("tests", "examples", "benchmarks")) - WITH_TORCH - WITH_PYTEST
    assert want <= have
    assert (
        set(OPTIONAL["dev"])
        == want - {*CORE, *OPTIONAL["demo"], *OPTIONAL["experiments"], *OPTIONAL["parquet"]} | TOOLS
    )


def test_optional_imports_are_guarded():
    # `graphprism.cli.main` looks for these two before any other file of the command line is loaded
    by_main = {"typer", "rich"}
    bare = [
        f"{path}:{line}: import {package} inside `with needs_extra(...)`"
        for package, places in imports_below("src").items()
        for path, line, guarded in places
        if package in EXTRAS and not guarded and not (package in by_main and path.parts[2] == "cli")
    ]
    assert not bare, "\n".join(bare)


def test_constraints_pin_every_requirement_to_a_version_that_it_allows():
    lines = [line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()]
    pins: dict[str, list[str]] = {}
    for each in (Requirement(line) for line in lines if line):
        pins.setdefault(canonicalize_name(each.name), []).append(re.sub(r"^==", "", str(each.specifier)))
    for name, requirement in {
        **CORE,
        **OPTIONAL["demo"],
        **OPTIONAL["experiments"],
        **OPTIONAL["parquet"],
        **OPTIONAL["baselines"],
        **OPTIONAL["dev"],
        **OPTIONAL["docs"],
    }.items():
        assert name in pins, f"{name} must be in constraints.txt"
        assert all(requirement.specifier.contains(version) for version in pins[name]), f"{requirement}: {pins[name]}"


def test_needs_extra_passes_other_errors_on():
    with pytest.raises(ModuleNotFoundError, match="no_such_package"), needs_extra("a picture"):
        raise ModuleNotFoundError("no_such_package", name="no_such_package")
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"), needs_extra("a picture"):
        from matplotlib.figure import no_such_name  # noqa: F401


COMMANDS = [
    (
        "lightning",
        ["train", "--dataset", "small.npz", "--model", "gcn", "--epochs", "1", "--layers", "1", "--width", "4"],
        "training",
        "experiments",
    ),
    ("matplotlib", ["figure", "split", "molecule", "--out", "split.png"], "a picture", "demo"),
]


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """As if a package was not installed."""
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize(("package", "arguments", "what", "extra"), COMMANDS, ids=[each[0] for each in COMMANDS])
def test_command_names_the_extra_that_is_missing(package, arguments, what, extra, tmp_path, monkeypatch, capsys):
    hide(monkeypatch, package)
    monkeypatch.chdir(tmp_path)
    save(molecules(30), tmp_path / "small.npz")
    monkeypatch.setattr(sys, "argv", ["graphprism", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.endswith(f'error: {what} needs {package}: pip install "graphprism[{extra}]"\n')
    assert "Traceback" not in said


def test_function_names_the_extra_that_is_missing(monkeypatch):
    hide(monkeypatch, "torchmetrics")
    with pytest.raises(ImportError, match=r'training needs torchmetrics: pip install "graphprism\[experiments\]"'):
        train(Run(model="gcn", layers=1, width=4, epochs=1), molecules(30), accelerator="cpu")

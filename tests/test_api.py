"""API.md lists every public name, with a line each."""

import importlib
import re
from pathlib import Path

import pytest

import graphprism

ROOT = Path(__file__).parents[1]
SECTIONS = re.split(r"^## `(graphprism[\w.]*)`.*$", (ROOT / "API.md").read_text("utf-8"), flags=re.MULTILINE)
LISTED = {
    package: dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", text, re.MULTILINE))
    for package, text in zip(SECTIONS[1::2], SECTIONS[2::2], strict=True)
}
PACKAGES = sorted(
    f"graphprism.{path.parent.name}"
    for path in Path(graphprism.__file__).parent.glob("*/__init__.py")
    if path.parent.name != "cli"
)


def test_every_package_is_listed():
    assert sorted(LISTED) == ["graphprism", *PACKAGES]


@pytest.mark.parametrize("package", ["graphprism", *PACKAGES])
def test_every_public_name_is_listed_with_a_line(package):
    names = importlib.import_module(package).__all__
    assert sorted(LISTED[package]) == sorted(set(names) - {"__version__"})
    assert all(len(line) > 10 for line in LISTED[package].values())


def test_dir_of_the_package_shows_public_names_alone():
    shown = {name for name in dir(graphprism) if not name.startswith("_")}
    assert shown == {name for name in graphprism.__all__ if not name.startswith("_")}

"""Everything the README shows is run or looked up: its Python, its make targets and its links."""

import contextlib
import io
import re
import runpy
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^(?P<mark>```+)(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=mark)[ \t]*$", re.MULTILINE | re.DOTALL)
# A block right below this comment holds what the Python block before it prints.
OUTPUT = re.compile(r"<!-- output -->\s*$")
# A block right below this one is not run; the reason is a duty.
LEFT_OUT = re.compile(r"<!-- not run: [^>]{10,} -->\s*$")


class Block(NamedTuple):
    """A fenced block, the line of the page its first line of text is on, and what the comment above it says."""

    language: str
    body: str
    line: int
    is_output: bool
    is_left_out: bool


def blocks(text: str) -> list[Block]:
    found = []
    for m in FENCE.finditer(text):
        line = text.count("\n", 0, m.start("body")) + 1
        before = text[: m.start()]
        found.append(Block(m["language"], m["body"], line, bool(OUTPUT.search(before)), bool(LEFT_OUT.search(before))))
    return found


def run_python(text: str, page: str = "README.md") -> None:
    """Runs the Python blocks in order in one namespace; what one prints must equal the output shown below it."""
    names, printed = {"__name__": "__main__"}, None
    for block in blocks(text):
        if block.is_output:
            assert printed is not None, f"{page} line {block.line}: output without a Python block before it"
            assert printed.strip() == block.body.strip(), f"{page} line {block.line}: this is not what is printed"
        elif block.language == "python" and not block.is_left_out:
            # The empty lines make a traceback point at the line of the page.
            code = compile("\n" * (block.line - 1) + block.body, page, "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, names)
            printed = out.getvalue()


def unknown_make_targets(text: str, makefile: str) -> set[str]:
    """Looks at ``make x`` in code, not in prose: "they make sense" names no target."""
    code = "\n".join([block.body for block in blocks(text)] + re.findall(r"`([^`\n]+)`", FENCE.sub("", text)))
    known = set(re.findall(r"^([a-z][\w-]*)\s*:(?!=)", makefile, re.MULTILINE))
    asked = re.findall(r"(?:^|[;&|$]|&&)\s*make((?:[ \t]+[\w=.-]+)+)", code, re.MULTILINE)
    return {word for words in asked for word in words.split() if "=" not in word and not word.startswith("-")} - known


def broken_links(text: str, root: Path) -> list[str]:
    targets = re.findall(r"\]\(<?([^)\s>]+)", FENCE.sub("", text)) + re.findall(r'(?:src|href)="([^"]+)"', text)
    local = [target.split("#")[0] for target in targets if not re.match(r"[a-z]+:", target)]
    return [target for target in local if target and not (root / target).exists()]


@pytest.fixture(scope="module")
def readme() -> str:
    path = ROOT / "README.md"
    assert path.is_file(), f"{path} does not exist"
    return path.read_text("utf-8")


def test_python_runs_and_prints_what_is_shown(readme, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert any(block.language == "python" for block in blocks(readme)), "the README shows no Python"
    run_python(readme)


def test_make_targets_exist(readme):
    assert unknown_make_targets(readme, (ROOT / "Makefile").read_text("utf-8")) == set()


@pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="benchmarks is not part of this distribution")
def test_links_point_to_files(readme):
    assert broken_links(readme, ROOT) == []


def test_readme_of_a_package_index_has_no_links_to_files(readme):
    """A package index shows the README alone: a link to a file beside it leads nowhere there."""
    pytest.importorskip("hatchling")
    index_readme = runpy.run_path(str(ROOT / "tools" / "index_readme.py"))["index_readme"]
    targets = re.findall(r"\]\(([^)\s]+)\)", index_readme(readme))
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert index_readme("# A\n\n![p](a.svg)\n\n[b](c.md), [d](https://e)\n") == "# A\n\nb (`c.md`), [d](https://e)\n"


PLANTED = """# Title
They make sense. Run `make test`, or [read](docs/a.md#part) and ![see](<a.png>) [web](https://example.org).

```python
x = 2
print(x + 1)
```

<!-- output -->
```text
3
```

```bash
cd here && make demo
make -j2 PYTHON=python3.12 check
```
"""


def test_planted_readme_passes(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").touch()
    (tmp_path / "a.png").touch()
    run_python(PLANTED)
    assert unknown_make_targets(PLANTED, "test: x\n\techo\ndemo:\ncheck: lint test\n") == set()
    assert broken_links(PLANTED, tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("3\n```", "4\n```", "line 11: this is not what is printed"),
        ("python\n", "text\n", "line 11: output without a Python block"),
        ("x = 2", "x = 1 / 0", "division"),
        ("x = 2", "import warnings\nwarnings.warn('old')", "old"),
    ],
)
def test_planted_wrong_python_fails(old, new, words):
    with pytest.raises((AssertionError, ArithmeticError, UserWarning), match=words):
        run_python(PLANTED.replace(old, new, 1))


def test_traceback_names_the_line_of_the_readme():
    with pytest.raises(ZeroDivisionError) as caught:
        run_python(PLANTED.replace("x + 1", "x / 0"))
    assert (Path(caught.traceback[-1].path).name, caught.traceback[-1].lineno + 1) == ("README.md", 6)


def test_planted_wrong_targets_and_links_are_named(tmp_path):
    assert unknown_make_targets(PLANTED, "demo: x\ntest := x\nx: check\n") == {"test", "check"}
    assert broken_links(PLANTED, tmp_path) == ["docs/a.md", "a.png"]

"""The pages of docs: their Python and their commands run and print what is shown, and the whole builds and opens."""

import doctest
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from tests.report.browser import Browser, find_browser
from tests.test_readme import blocks, run_python

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
TEXTS = {name: (DOCS / name).read_text("utf-8") for name in PAGES}
# Pages that train take their time.
WITH_PYTHON = [
    pytest.param(name, marks=[pytest.mark.slow] if "graphprism.training" in text or "gp.advise(" in text else [])
    for name, text in TEXTS.items()
    if any(each.language == "python" for each in blocks(text))
]
PROGRAM = find_browser()
NEEDED = ("sphinx", "furo", "myst_parser", "sphinx_design", "sphinx_copybutton", "latex2mathml")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
HAS_SOURCES = (ROOT / "benchmarks").is_dir()


def transcripts(text: str) -> list[tuple[str, str, int]]:
    """Commands of the ``console`` blocks that are run, the output shown, and the line."""
    found = []
    for block in blocks(text):
        if block.language == "console" and not block.is_left_out:
            for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                while command.endswith("\\"):
                    more, _, shown = shown.partition("\n")
                    command = command[:-1] + more.lstrip()
                found.append((command, shown, block.line))
    return found


def rounded(text: str) -> str:
    """Two digits after the point: further ones of a trained network are those of a machine."""
    return re.sub(r"(\d\.\d\d)\d+", r"\1", text)


def run_commands(text: str, page: str, folder: Path) -> None:
    """Runs them one after another; ``...`` in what is shown stands for anything, as in doctests."""
    programs = folder / "bin"
    programs.mkdir()
    script = programs / "graphprism"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W ignore -m graphprism "$@"\n', "utf-8")
    script.chmod(0o755)
    here = folder / "here"
    here.mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in ("GRAPHPRISM_DATA", "DISPLAY")} | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "COLUMNS": "100",
    }
    checker = doctest.OutputChecker()
    for command, shown, line in transcripts(text):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=here,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{page} line {line}: {command}\n{done.stdout}"
        if shown.strip():
            options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            is_same = checker.check_output(rounded(shown), rounded(done.stdout), options)
            assert is_same, f"{page} line {line}: {command} prints\n{done.stdout}"


def graphprism_commands(text: str) -> list[list[str]]:
    """Words of every line of a shell block that calls ``graphprism`` alone or behind torchrun, without ``$ ``."""
    found = []
    for block in blocks(text):
        if block.language in ("bash", "console"):
            body = re.sub(r"\\\n\s*", "", re.sub(r"^\$ ", "", block.body, flags=re.MULTILINE))
            for line in body.splitlines():
                called = re.search(r"(?:^|&& |-m )graphprism (.*?)(?: [&|>]|$)", line)
                if called and "$" not in called[1]:
                    found.append(shlex.split(called[1], comments=True))
    return found


def parse(words: list[str]) -> None:
    """Parses a command line as the program would, and runs nothing."""
    import typer

    from graphprism.cli.app import app

    command, context = typer.main.get_command(app), None
    while True:
        if hasattr(command, "commands"):
            if not words or words[0].startswith("-"):
                return
            context = command.make_context(command.name or "", [], parent=context, resilient_parsing=True)
            _, command, words = command.resolve_command(context, words)
            continue
        command.make_context(command.name, list(words), parent=context)
        return


def test_design_page_names_every_package():
    named = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", TEXTS["design.md"], re.MULTILINE))))
    package = ROOT / "src" / "graphprism"
    packages = {path.name for path in package.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert packages <= named, f"docs/design.md says nothing of {packages - named}"
    assert named <= packages, f"docs/design.md names packages that do not exist: {named - packages}"


# Lightning's trainer on its own loop and loaders
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_runs_and_prints_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_python(TEXTS[page], page)


@pytest.mark.slow
@pytest.mark.parametrize("page", [name for name in PAGES if transcripts(TEXTS[name])])
def test_commands_print_what_is_shown(page, tmp_path):
    run_commands(TEXTS[page], page, tmp_path)


@pytest.mark.parametrize("page", [*PAGES, "../README.md"])
def test_commands_can_be_parsed(page):
    for words in graphprism_commands((DOCS / page).read_text("utf-8")):
        parse(words)


def test_names_of_files_and_columns_are_listed():
    from graphprism.datasets import graph_tables

    names = {name for part in (graph_tables._FILES, graph_tables._COLUMNS) for each in part.values() for name in each}
    listed = set(re.findall(r"`(\w+)`", TEXTS["own-data.md"]))
    assert names <= listed, f"docs/own-data.md does not list {names - listed}"


def test_unknown_option_is_found():
    assert graphprism_commands("```bash\ngraphprism train --layers 2 # two\n```\n") == [["train", "--layers", "2"]]
    with pytest.raises(Exception, match="No such option"):
        parse(["train", "--no-such-option"])


def test_wrong_transcript_is_found(tmp_path):
    text = "```console\n$ echo one two\none ...\n$ echo three\nfour\n```\n"
    with pytest.raises(AssertionError, match=r"line 2: echo three prints\s+three"):
        run_commands(text, "page.md", tmp_path)


def test_every_layer_has_a_page_and_a_picture():
    from graphprism import nn

    texts = [(DOCS / "_ext" / name).read_text("utf-8") for name in ("layer_pages.py", "pictures.py")]
    layers = [name for name in nn.__all__ if name.endswith("Conv")]
    assert [name for name in layers if not all(f'    "{name}": ' in text for text in texts)] == []


def test_every_page_is_in_the_contents():
    contents = "\n".join(re.findall(r"```\{toctree\}(.*?)```", "\n".join(TEXTS.values()), re.DOTALL))
    named = set(re.findall(r"^(?:.*<)?([\w/-]+)>?$", contents, re.MULTILINE))
    assert {path.removesuffix(".md") for path in PAGES} - named == {"index"}


@pytest.mark.skipif(not HAS_SOURCES, reason="needs benchmarks, which a sdist lacks")
def test_picture_of_the_readme_is_the_one_that_the_pages_draw(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    for name in ("docutils", "docutils.parsers", "docutils.parsers.rst", "sphinx", "sphinx.application"):
        if MISSING:  # only the directive needs them
            monkeypatch.setitem(sys.modules, name, MagicMock(Directive=object))
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "_ext" / "pictures.py")
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    shown, drawn = (DOCS / "_static" / "hero.svg").read_text("utf-8"), str(pictures.hero())
    # the file has a style of its own: the colours that a page has from its style sheet
    shapes = (text.partition("</title>")[2] for text in (re.sub(r"<style>.*?</style>", "", shown), drawn))
    assert next(shapes).strip() == next(shapes).strip(), "draw docs/_static/hero.svg again, see docs/_ext/pictures.py"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The documentation, with warnings as errors."""
    if MISSING or not HAS_SOURCES:
        what = f'{", ".join(MISSING)}: pip install "graphprism[docs]"' if MISSING else "benchmarks, which a sdist lacks"
        pytest.skip(f"building the documentation needs {what}")
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", DOCS, folder / "html"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(map(str, command), env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    return folder / "html"


@pytest.mark.slow
def test_documentation_builds_without_warnings_and_needs_no_network(built):
    assert (built / "index.html").exists()
    for path in built.rglob("*.html"):
        remote = re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(https?:[^"]+)', path.read_text("utf-8"))
        assert remote == [], path


@pytest.mark.slow
@pytest.mark.skipif(PROGRAM is None, reason="needs chromium or google-chrome, and neither is on the path")
def test_documentation_opens_from_disk_and_search_works(built, tmp_path):
    browser = Browser(PROGRAM, tmp_path)
    try:
        for name in ("index.html", "generated/layers/MRSGCNConv.html", "play.html"):
            for width, scheme in ((1280, "light"), (390, "dark")):
                with browser.page((built / name).as_uri(), width, scheme=scheme) as page:
                    assert page.complaints() == []
                    assert [url for url in page.requests() if not url.startswith(("file:", "data:"))] == []
                    assert page.run("document.documentElement.scrollWidth <= innerWidth"), (name, width)
        with browser.page((built / "generated/layers/MRSGCNConv.html").as_uri()) as page:
            assert page.run("document.querySelectorAll('math').length") > 3
            assert page.run("document.querySelector('svg.picture').getBoundingClientRect().width") > 300
        with browser.page((built / "search.html").as_uri() + "?q=certificate") as page:
            found = "[...document.querySelectorAll('#search-results li a')].map((each) => each.getAttribute('href'))"
            is_there = "document.querySelector('#search-results li a')"
            look = f"const look = () => {is_there} ? done(true) : setTimeout(look, 50); look();"
            page.run(f"new Promise((done) => {{ {look} }})")
            assert any(href.startswith("concepts.html") for href in page.run(found))
    finally:
        browser.close()


@pytest.mark.slow
@pytest.mark.skipif(PROGRAM is None, reason="needs chromium or google-chrome, and neither is on the path")
def test_documentation_can_be_read_on_a_phone(built, tmp_path):
    lines = "(each) => new Set([...each.getClientRects()].map((box) => Math.round(box.top))).size"
    browser = Browser(PROGRAM, tmp_path)
    try:
        for name in ("index", "will-it-help", "speed", "own-data", "convert", "generated/api/graphprism.experiments"):
            with browser.page((built / f"{name}.html").as_uri(), 390) as page:
                assert page.run("document.documentElement.scrollWidth <= innerWidth"), name
                broken = (
                    f"[...document.querySelectorAll('h1 .pre, td code .pre')].filter((each) => ({lines})(each) > 1)"
                )
                assert page.run(f"{broken}.map((each) => each.textContent)") == [], name
        with browser.page((built / "will-it-help.html").as_uri(), 390) as page:
            table = "[...document.querySelectorAll('pre')].find((each) => each.textContent.startsWith('split  '))"
            assert page.run(f"{table}.scrollWidth > {table}.clientWidth")
        with browser.page((built / "index.html").as_uri(), 390) as page:
            shown = "[...document.querySelectorAll('svg.picture text')]"
            sizes = page.run(f"{shown}.map((each) => each.getBoundingClientRect().height)")
            assert min(size for size in sizes if size) > 9
    finally:
        browser.close()

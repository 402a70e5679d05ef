"""`make demo` ends with one page; the whole takes a minute, so a small one runs here."""

import importlib.util
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.document import read

ROOT = Path(__file__).parents[1]


@pytest.fixture
def demo(monkeypatch):
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "COLLAPSE", replace(module.COLLAPSE, seeds=2))
    monkeypatch.setattr(module, "NUM_MOLECULES", 100)
    monkeypatch.setattr(module, "RUNS", [replace(run, epochs=1, layers=2, budget=5_000) for run in module.RUNS[:4]])
    monkeypatch.setattr(module.torch, "set_num_threads", lambda _: None)  # of this process, which others share
    return module


def test_demo_ends_with_one_page_whose_path_it_prints(demo, tmp_path, capsys):
    demo.main(tmp_path / "new")
    page = tmp_path / "new" / "report.html"
    printed = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert str(page) in printed
    assert "MRS-GCN" in printed
    document = read(page.read_text("utf-8"))
    parts = [section.attributes["id"] for section in document.all("section")]
    assert parts == ["comparison", "table-collapse", "figures", "curves", "runs", "places"]
    assert len(document.all("figure")) == 2
    assert len(document.one("section", id="runs").one("tbody").all("tr")) == 4

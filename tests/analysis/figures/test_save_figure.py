import sys
from pathlib import Path

import pytest

from graphprism._files import write_whole
from graphprism.plotting import check_format, new_figure, save_figure


def test_formats(tmp_path):
    figure = new_figure(2, 1)
    figure.subplots().plot([1, 2])
    save_figure(figure, tmp_path / "a.PNG")
    save_figure(figure, tmp_path / "a.svg")
    assert (tmp_path / "a.PNG").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize("name", ["a.gif", "a", "png"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match=r"must end in \.png or \.svg"):
        check_format(Path(name))


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_whole(path, b"old")

    def fail(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "graphprism\[demo\]"'):
        new_figure(1, 1)

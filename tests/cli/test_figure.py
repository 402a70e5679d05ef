import pytest
from typer.testing import CliRunner

from graphprism.cli.app import app


def split(*arguments):
    return CliRunner().invoke(app, ["figure", "split", *map(str, arguments)])


def test_png(tmp_path):
    run = split("molecule:7", "--out", tmp_path / "a.png")
    assert run.exit_code == 0, run.output
    assert str(tmp_path / "a.png") in run.stdout
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_svg_has_all_panels_and_the_same_bytes_twice(tmp_path):
    for name in ("a.svg", "b.svg"):
        assert split("molecule", "--out", tmp_path / name).exit_code == 0
    text = (tmp_path / "a.svg").read_text("utf-8")
    assert all(f"<!-- {name} -->" in text for name in ("graph", "up", "down", "tie"))
    assert text == (tmp_path / "b.svg").read_text("utf-8")


def test_own_file_and_split(tmp_path):
    (tmp_path / "own.txt").write_text("a b\nb c\n")
    run = split(tmp_path / "own.txt", "--labels", "--undirected", "--split", "bfs", "--out", tmp_path / "own.svg")
    assert run.exit_code == 0, run.output
    assert "<!-- own.txt, split by bfs -->" in (tmp_path / "own.svg").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.csv", "--out", "a.gif"], "must end in .png or .svg, got 'a.gif'"),
        (["nowhere.csv"], "nowhere.csv: there is no such file"),
    ],
)
def test_wrong_input_is_one_sentence(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    run = split(*arguments)
    assert run.exit_code == 2
    assert words in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_too_many_nodes(tmp_path):
    (tmp_path / "big.txt").write_text("0 2000\n")
    run = split(tmp_path / "big.txt", "--out", tmp_path / "big.png")
    assert run.exit_code == 2
    assert "must have 1 to 2000 nodes to be drawn, got 2001" in run.stderr


def test_wrong_split_is_pointed_at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = split("molecule", "--split", "core * degre")
    assert run.exit_code == 2
    first, *shown = run.stderr.splitlines()
    assert "at character 8, got 'degre'; did you mean degree? (known: orderings degree, " in first
    assert shown == ["  core * degre", "         ^~~~~"]


def test_product_of_splits_is_drawn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert split("molecule", "--split", "degree * similarity").exit_code == 0

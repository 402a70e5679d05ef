import pytest
import torch_geometric.datasets
from typer.testing import CliRunner

from graphprism.cli.app import app
from graphprism.datasets import DATASETS, load, save
from tests.datasets.own_files import write_people
from tests.datasets.raw.raw_node_files import write_arxiv
from tests.datasets.raw_files import write_zinc
from tests.datasets.small_sets import one_graph, three_graphs


def data(*arguments, **environment):
    return CliRunner().invoke(app, ["data", *map(str, arguments)], env={"COLUMNS": "200", **environment})


def test_list(tmp_path):
    save(one_graph(), tmp_path / "mine.npz")
    save(three_graphs(), tmp_path / "zinc12k.npz")
    run = data("list", "--data", tmp_path)
    assert run.exit_code == 0, run.output
    lines = {line.split()[1]: line for line in run.stdout.splitlines() if line.startswith("│")}
    assert list(lines) == [*DATASETS, "mine"]
    assert "0.0 MB" in lines["zinc12k"]
    assert "on first use" in lines["zinc"]
    assert "not needed" in lines["molecules"]
    assert "from raw files" in lines["arxiv-year"]
    assert lines["cora"].split()[3:8:2] == ["node", "multiclass", "accuracy"]
    assert str(tmp_path / "mine.npz") in lines["mine"]
    assert lines["mine"].split()[3:8:2] == ["node", "multiclass", "accuracy"]


def test_list_tells_an_import_from_the_set_of_its_name(tmp_path):
    write_people(tmp_path / "cora")
    (tmp_path / "broken.npz").write_bytes(b"no archive")
    imported = data("import", tmp_path / "cora", "--target", "sick", "--data", tmp_path)
    assert imported.exit_code == 0, imported.output
    run = data("list", "--data", tmp_path)
    lines = {line.split()[1]: line for line in run.stdout.splitlines() if line.startswith("│")}
    assert lines["cora"].split()[3:8:2] == ["node", "binary", "auroc"]
    assert str(tmp_path / "cora.npz") in lines["cora"]
    assert lines["broken"].split()[2:6] == ["│", "│", "│", "│"]


def test_import_keeps_a_set_that_it_did_not_write(tmp_path):
    write_people(tmp_path / "cora")
    save(one_graph(), tmp_path / "cora.npz")
    before = (tmp_path / "cora.npz").read_bytes()
    command = ("import", tmp_path / "cora", "--target", "sick", "--data", tmp_path)
    refused = data(*command)
    assert refused.exit_code == 2
    assert "is the data set cora of `graphprism data list`: --name NAME gives yours another name" in refused.stderr
    assert (tmp_path / "cora.npz").read_bytes() == before
    first, second = (data(*command, "--name", "people").stdout for _ in range(2))
    assert first.splitlines()[-1].endswith("MB).")
    assert second.splitlines()[-1].endswith("MB), in place of an earlier one.")


def test_list_of_a_folder_that_is_not_there(tmp_path):
    run = data("list", GRAPHPRISM_DATA=str(tmp_path / "none"))
    assert run.exit_code == 0, run.output
    assert "peptides-struct" in run.stdout


def test_pack_by_pyg_once(tmp_path):
    write_zinc(tmp_path)
    first = data("pack", "zinc12k", "--data", tmp_path)
    assert first.exit_code == 0, first.output
    assert "zinc12k.npz is written: 6 graphs" in first.stdout
    assert len(load("zinc12k", tmp_path)) == 6
    assert "was there already" in data("pack", "zinc12k", GRAPHPRISM_DATA=str(tmp_path)).stdout


def test_pack_from_raw_files(tmp_path):
    missing = data("pack", "arxiv-year", "--data", tmp_path)
    assert missing.exit_code == 2
    assert missing.stderr.startswith("error: arxiv-year: ")
    assert missing.stderr.count("\n") == 1
    write_arxiv(tmp_path / "raw" / "arxiv-year")
    run = data("pack", "arxiv-year", "--data", tmp_path)
    assert run.exit_code == 0, run.output
    first, second = run.stdout.splitlines()
    assert first.endswith("arxiv-year.npz is written: 1 graph, 10 nodes, 7 edges.")
    assert second.startswith("note: The splits are not the published ones")


@pytest.mark.parametrize("name", ["zinc12k", "zinc13k"])
def test_pack_says_in_one_sentence_what_is_wrong(tmp_path, monkeypatch, name):
    def fail(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(torch_geometric.datasets.ZINC, "download", fail)
    run = data("pack", name, "--data", tmp_path)
    assert run.exit_code == 2
    assert run.stderr.startswith(f"error: {name}: ")
    assert run.stderr.count("\n") == 1


def test_verify_names_every_file(tmp_path):
    save(one_graph(), tmp_path / "one.npz")
    save(three_graphs(), tmp_path / "three.npz")
    run = data("verify", "--data", tmp_path)
    assert run.exit_code == 0, run.output
    assert run.stdout.splitlines() == [
        f"{tmp_path / 'one.npz'} is whole: 1 graph, 3 nodes, 2 edges, the checksum is right.",
        f"{tmp_path / 'three.npz'} is whole: 3 graphs, 6 nodes, 4 edges, the checksum is right.",
    ]


def test_verify_goes_on_after_a_damaged_file(tmp_path):
    for name in ("a", "b"):
        save(three_graphs(), tmp_path / f"{name}.npz")
    damaged = tmp_path / "a.npz"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    run = data("verify", "--data", tmp_path)
    assert run.exit_code == 1
    assert run.stderr.startswith(f"error: {damaged}: the .npz file is damaged")
    assert "b.npz is whole" in run.stdout
    assert data("verify", "b", "--data", tmp_path).exit_code == 0
    assert data("verify", damaged).exit_code == 1


def test_verify_of_nothing(tmp_path):
    for arguments, words in ((["--data", tmp_path], "no packed files"), (["x", "--data", tmp_path], "no such file")):
        run = data("verify", *arguments)
        assert run.exit_code == 2
        assert words in run.stderr

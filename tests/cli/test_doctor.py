import sys

import torch
from typer.testing import CliRunner

import graphprism
from graphprism._extras import EXTRAS
from graphprism._text import counted
from graphprism.cli import doctor
from graphprism.cli.app import app
from graphprism.ops.csr import BACKENDS


def ask(**env):
    run = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "200", **env})
    assert run.exit_code == 0, run.output
    return run.stdout


def test_versions_devices_and_backends(tmp_path):
    text = ask(GRAPHPRISM_DATA=str(tmp_path))
    for name in ("graphprism", "torch", "torch_geometric", "numpy", *(set(EXTRAS) - {"tomli"})):
        assert name in text
    assert graphprism.__version__ in text
    assert torch.__version__.partition("+")[0] in text
    assert counted(torch.get_num_threads(), "thread") in text
    assert f"{tmp_path} (0 packed files)" in text.replace("\n", "")


def test_backend_that_does_not_run_has_its_reason():
    text = ask()
    assert ", ".join(BACKENDS) in text
    for name, reason in BACKENDS.reasons().items():
        assert f"{name}: {reason}" in text
    assert "reference" in BACKENDS
    assert not set(BACKENDS) & set(BACKENDS.reasons())
    assert "triton" in {*BACKENDS, *BACKENDS.reasons()}


def test_missing_extra_has_its_command(monkeypatch):
    installed = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "lightning" else installed(name))
    assert 'missing: pip install "graphprism[experiments]"' in ask()


def test_doctor_asks_for_tomli_only_where_python_lacks_tomllib():
    assert ("tomli" in ask()) == (sys.version_info < (3, 11))


def test_doctor_counts_one_packed_file(tmp_path):
    (tmp_path / "one.npz").touch()
    assert "(1 packed file)" in ask(GRAPHPRISM_DATA=str(tmp_path)).replace("\n", "")

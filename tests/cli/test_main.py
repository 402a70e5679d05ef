import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphprism import __version__, cli
from graphprism.cli import main
from graphprism.cli.app import app

# A process of its own finds the package where this one did, installed or not.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}


def test_version_and_help():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"graphprism {__version__}\n"
    text = CliRunner().invoke(app, ["--help"]).stdout
    assert all(command in text for command in ("inspect", "reproduce", "figure"))


@pytest.mark.parametrize("group", ["reproduce", "figure"])
def test_groups_have_help(group):
    assert CliRunner().invoke(app, [group, "--help"]).exit_code == 0


def test_as_a_module():
    run = [sys.executable, "-W", "ignore", "-m", "graphprism", "--version"]
    assert (
        subprocess.run(run, check=True, env=ENVIRONMENT, capture_output=True, text=True).stdout
        == f"graphprism {__version__}\n"
    )


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_missing_package_is_named(monkeypatch, capsys, package):
    for name in [name for name in sys.modules if name.startswith("graphprism.cli.")]:
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr(cli, name.rpartition(".")[2])
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == f'error: the command line needs {package}: pip install "graphprism[demo]"\n'


def test_missing_package_of_a_command_is_named(monkeypatch, capsys):
    def command(**_):
        raise ModuleNotFoundError("No module named 'lightning'", name="lightning")

    monkeypatch.setattr("graphprism.cli.app.app", command)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == 'error: this command needs lightning: pip install "graphprism[experiments]"\n'


def test_other_missing_modules_are_not_hidden(monkeypatch):
    monkeypatch.setitem(sys.modules, "graphprism.cli.app", None)
    with pytest.raises(ModuleNotFoundError, match=r"graphprism\.cli\.app"):
        main()

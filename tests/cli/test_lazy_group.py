import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from graphprism import cli, datasets
from graphprism.cli.app import app, load
from graphprism.cli.arguments import DATA_VARIABLE

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
LISTED = typer.main.get_group(app).commands


@pytest.mark.parametrize("name", LISTED)
def test_list_says_what_the_command_says(name):
    listed = LISTED[name]
    command = load(name, listed.callback())
    assert command.name == name
    assert command.help.splitlines()[0] == listed.help


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["trian"], ["train", "--help"], ["train", "--layers", "many"]]
)
def test_torch_is_not_waited_for(arguments):
    code = (
        "import sys\nfrom graphprism.cli import main\nsys.argv[0] = 'graphprism'\ntry:\n    main()\nfinally:\n"
        "    print('loaded' if 'torch' in sys.modules else 'not loaded')\n"
    )
    run = [sys.executable, "-c", code, *arguments]
    assert subprocess.run(run, env=ENVIRONMENT, capture_output=True, text=True).stdout.endswith("not loaded\n")


def test_data_variable_has_one_name():
    assert DATA_VARIABLE == datasets.DATA_VARIABLE


def test_misspelt_command_is_suggested():
    run = CliRunner().invoke(app, ["trian"])
    assert run.exit_code == 2
    assert "Did you mean 'train'?" in run.stderr


def test_groups_keep_their_commands_and_get_no_others():
    text = CliRunner().invoke(app, ["data", "--help"]).stdout
    assert all(name in text for name in ("list", "pack", "verify"))
    assert "completion" not in text

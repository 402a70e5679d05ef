import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from graphprism import cli
from graphprism.cli.app import app, load
from graphprism.cli.listed_experiments import LISTED
from graphprism.experiments import ALL_TABLES, TABLES

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
COMMANDS = typer.main.get_group(app).commands


@pytest.mark.parametrize("name", COMMANDS)
def test_list_says_what_the_command_says(name):
    listed = COMMANDS[name]
    command = load(name, listed.callback())
    assert command.name == name
    assert command.help.splitlines()[0] == listed.help


def test_torch_is_not_waited_for():
    # one process for all: what one command loads, the next would find
    calls = [
        ["--help"],
        ["--version"],
        ["trian"],
        ["train", "--help"],
        ["train", "--layers", "many"],
        ["data", "--help"],
        ["data", "list"],
        ["data", "pack", "--help"],
        ["figure", "split", "--help"],
        ["inspect", "--help"],
        ["play", "--help"],
        ["split", "--help"],
        ["doctor", "--help"],
        ["report", "--help"],
        ["report", "--ledger", "nowhere.jsonl"],
        ["reproduce", "--help"],
        ["reproduce", "depth", "--help"],
        ["reproduce", "depht"],
    ]
    code = (
        "import sys\nfrom graphprism.cli import main\n"
        f"for words in {calls}:\n    sys.argv = ['graphprism', *words]\n"
        "    try:\n        main()\n    except SystemExit:\n        pass\n"
        "    assert 'torch' not in sys.modules, words\nprint('not loaded')"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("not loaded\n"), done.stderr


def test_listed_experiments_are_those_that_run():
    fields = [
        [(each.name, each.help, [(o.name, o.kind, o.default, o.help) for o in each.options]) for each in experiments]
        for experiments in (LISTED, (*TABLES, ALL_TABLES))
    ]
    assert fields[0] == fields[1]


@pytest.mark.parametrize("words", [["REPRODUCE", "Figure-2"], ["Reproduce", "DEPTH"]])
def test_case_of_names_does_not_count(words):
    run = CliRunner().invoke(app, [*words, "--help"])
    assert run.exit_code == 0, run.output
    assert f"graphprism reproduce {words[1].lower()} [OPTIONS]" in run.stdout


def completed(words, shell="bash"):
    """What a shell is told to offer after these words."""
    line = " ".join(["graphprism", *words])
    values = {"_GRAPHPRISM_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    code = "from graphprism.cli import main\nmain()"
    run = [sys.executable, "-c", code]
    return subprocess.run(run, env={**ENVIRONMENT, **values}, capture_output=True, text=True).stdout.split()


def test_shell_completes_commands_tables_and_options():
    assert {"train", "inspect", "play", "doctor", "reproduce"} <= set(completed([""]))
    assert completed(["reproduce", "figure"]) == ["figure-2"]
    assert "--layers" in completed(["train", "--l"])
    assert {"cora", "zinc12k"} <= set(completed(["data", "pack", ""]))
    assert completed(["train", "--dataset", "pub"]) == ["pubmed"]
    assert {"gcn,mrs-gat", "gcn,mrs-gated-gcn"} <= set(completed(["train", "--model", "gcn,mrs-gat"]))


def test_misspelt_command_is_suggested():
    run = CliRunner().invoke(app, ["trian"])
    assert run.exit_code == 2
    assert "Did you mean 'train'?" in run.stderr


def test_groups_keep_their_commands_and_get_no_others():
    text = CliRunner().invoke(app, ["data", "--help"]).stdout
    assert all(name in text for name in ("list", "pack", "verify"))
    assert "completion" not in text

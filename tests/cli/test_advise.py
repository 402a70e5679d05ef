"""`graphprism advise` from the shell."""

import json

import pytest
from typer.testing import CliRunner

from graphprism.cli.app import app

pytestmark = pytest.mark.usefixtures("few_molecules")


def advise(*arguments):
    return CliRunner().invoke(app, ["advise", *map(str, arguments)], env={"COLUMNS": "160"})


def test_advise_prints_a_recommendation_and_the_command_that_trains_it():
    run = advise("molecules", "--seconds", 0, "--split", "degree", "--split", "degree * attr(edge_attr)")
    assert run.exit_code == 0, run.output
    assert "No advice: no trial was run" in run.stdout
    assert "graphprism train --dataset molecules --model gcn --layers 6" in run.stdout
    assert "Not tested: " in run.stdout


def test_advise_repeats_the_data_folder_in_its_command(tmp_path):
    own = advise("molecules", "--seconds", 0, "--split", "degree", "--data", tmp_path)
    assert f"--seeds 0..2 --data {tmp_path}" in own.stdout
    env = {"COLUMNS": "160", "GRAPHPRISM_DATA": str(tmp_path)}
    known = CliRunner().invoke(app, ["advise", "molecules", "--seconds", "0", "--split", "degree"], env=env)
    assert known.exit_code == 0, known.output
    assert "--data " not in known.stdout


def test_advise_prints_json():
    run = advise("molecules", "--seconds", 0, "--split", "degree", "--json")
    found = json.loads(run.stdout)
    assert found["split"] is None
    assert found["evidence"][0]["candidate"]["relations"] == 3


def test_advise_points_at_a_wrong_split():
    run = advise("molecules", "--split", "degre")
    assert run.exit_code == 2
    assert run.stderr.splitlines()[-1] == "  ^~~~~"


def test_advise_on_a_folder_says_how_to_import_it(tmp_path):
    run = advise(tmp_path)
    assert run.exit_code == 2
    assert f"graphprism data import {tmp_path} --target COLUMN" in run.stderr


def test_advise_on_a_table_says_how_to_import_its_folder(tmp_path):
    table = tmp_path / "edges.csv"
    table.write_text("source,target\na,b\n")
    run = advise(table)
    assert run.exit_code == 2
    assert f"{table} is a file, not a data set: graphprism data import {tmp_path} --target COLUMN" in run.stderr

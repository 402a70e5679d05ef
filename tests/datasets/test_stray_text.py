"""A column of numbers with a few cells of text: the import names the cell that makes it text."""

from pathlib import Path

import numpy as np
import pytest

from graphprism.datasets import describe, from_files
from graphprism.datasets.assemble import assemble
from graphprism.datasets.graph_tables import read_tables
from graphprism.datasets.preprocessing import ColumnCode, Preprocessing
from graphprism.io.columns import stray_text
from tests.datasets.own_files import write_people


def test_stray_text_is_first_cell_that_is_no_number() -> None:
    assert stray_text(np.array([None, "1.5", "abc", "x"], dtype=object)) == (3, "abc")
    assert stray_text(np.array(["007", "1"], dtype=object)) == (1, "007")


def test_from_files_says_which_cell_makes_a_column_text(tmp_path: Path) -> None:
    height: list[object] = [f"{150 + number / 7:.3f}" for number in range(60)]
    height[4] = "tall"
    found = from_files(write_people(tmp_path / "people", height=height), "sick")
    (line,) = [line for line in describe(found) if "'height'" in line]
    assert "60 different values, text such as 'tall' in row 5" in line


def test_from_files_names_the_cell_where_numbers_are_asked_for(tmp_path: Path) -> None:
    height: list[object] = [number * 2 for number in range(60)]
    height[4] = "tall"
    folder = write_people(tmp_path / "people", height=height)
    with pytest.raises(ValueError, match="'height' must hold numbers, got 'tall' in row 5"):
        from_files(folder, "sick", numbers=("height",))
    with pytest.raises(ValueError, match="must hold numbers for the task regression, got 'tall' in row 5"):
        from_files(folder, "height", task="regression")


def test_column_code_names_the_cell_of_new_data() -> None:
    code = ColumnCode.fit("age", np.array([1.0, 5.0]), np.array([True, True]))
    with pytest.raises(ValueError, match=r"^new.csv: the column 'age' must hold numbers, got 'old' in row 2"):
        code.encode(np.array(["3", "old"], dtype=object), "new.csv")


def test_new_tables_count_rows_as_all_messages_do(tmp_path: Path) -> None:
    """The same row is named by the same number, whatever is wrong in it, with its file."""
    folder = write_people(tmp_path / "people")
    pre = Preprocessing.from_dict(from_files(folder, "sick").preprocessing)
    lines = (folder / "nodes.csv").read_text().splitlines()
    for cell, value, words in ((1, "old", "must hold numbers, got 'old'"), (0, "", "must have an id in .*, got none")):
        cells = lines[3].split(",")
        cells[cell] = value
        (folder / "nodes.csv").write_text("\n".join([*lines[:3], ",".join(cells), *lines[4:]]))
        with pytest.raises(ValueError, match=rf"^{folder / 'nodes.csv'}: .*{words} in row 3$"):
            assemble(read_tables(folder), pre, "people")

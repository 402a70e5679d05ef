import gzip

import numpy as np
import pytest

from graphprism.io.columns import Columns, as_text, read_columns
from graphprism.io.file_graph import GraphFileError


def written(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def test_types_are_found_column_by_column(tmp_path):
    table = read_columns(written(tmp_path, "id,n,x,flag,town\n007,1,0.5,true,Bonn\n010,2,NA,false,\n"))
    assert table["id"].tolist() == ["007", "010"]
    assert table["n"].dtype == np.int64
    assert np.isnan(table["x"][1])
    assert table["flag"].tolist() == [True, False]
    assert table["town"].tolist() == ["Bonn", None]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_quotes_and_byte_order_mark(tmp_path, delimiter):
    path = tmp_path / "table.csv"
    path.write_text(
        delimiter.join(['"a"', "b"]) + "\r\n" + delimiter.join([f'"x{delimiter}y"', "2"]) + "\r\n", "utf-8-sig"
    )
    table = read_columns(path)
    assert table["a"].tolist() == [f"x{delimiter}y"]
    assert table["b"].tolist() == [2]


def test_table_without_header_and_compressed(tmp_path):
    path = tmp_path / "edges.csv.gz"
    path.write_bytes(gzip.compress(b"0,1\n1,2\n"))
    assert {name: column.tolist() for name, column in read_columns(path).items()} == {"0": [0, 1], "1": [1, 2]}


def test_parquet_equals_csv(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"id": ["a", "b"], "x": [0.5, None], "n": [1, 2], "ok": [True, False], "t": ["u", None]})
    frame.to_parquet(tmp_path / "nodes.parquet")
    frame.to_csv(tmp_path / "nodes.csv", index=False)
    first, second = read_columns(tmp_path / "nodes.parquet"), read_columns(tmp_path / "nodes.csv")
    assert list(first) == list(second)
    for name in first:
        assert first[name].dtype == second[name].dtype
        np.testing.assert_array_equal(first[name], second[name])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n1,2,3\n", "table.csv, line 3: must have 2 cells as the first line, got 3"),
        (b"", "is empty"),
        (b"a,a\n1,2\n", "line 1: the column 'a' must occur once, got 2"),
        (b"a,b\n1,\xff\n", "line 2: must be text in UTF-8"),
        (b"PAR1 and no more", "the Parquet file is damaged"),
    ],
)
def test_bad_table_is_one_sentence(tmp_path, content, message):
    pytest.importorskip("pyarrow")
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(GraphFileError, match=message) as caught:
        read_columns(path)
    assert "\n" not in str(caught.value)


def test_joined_tables_have_holes_where_a_column_is_missing():
    first = Columns({"id": np.array([1, 2]), "x": np.array([0.5, 1.0])})
    second = Columns({"id": np.array(["a"], dtype=object), "t": np.array(["u"], dtype=object)})
    both = first.joined(second)
    assert both["id"].tolist() == ["1", "2", "a"]
    assert both["t"].tolist() == [None, None, "u"]
    assert np.isnan(both["x"][2])


def test_whole_floats_are_the_text_of_whole_numbers():
    assert as_text(np.array([3.0, np.nan])).tolist() == ["3", None]


def test_decimal_commas_are_points_where_no_comma_separates(tmp_path):
    file = tmp_path / "nodes.csv"
    file.write_text("id;x;y;text;version\na;1,5;2;a,b;1,2\nb;-0,25e1;3,5;1,2;1,2,3\nc;;4;x;2\n")
    table = read_columns(file)
    assert table["x"].tolist()[:2] == [1.5, -2.5]
    assert table["y"].tolist() == [2.0, 3.5, 4.0]
    assert table["text"].tolist() == ["a,b", "1,2", "x"]
    assert table["version"].tolist() == ["1,2", "1,2,3", "2"]


def test_ids_are_the_text_of_the_file_whatever_the_other_cells_are(tmp_path):
    texts = ["1.10", "1.1", "1e5", "100000", "18446744073709551615", "18446744073709551614", "+7", "0.50", "2.00", "NA"]
    table = read_columns(written(tmp_path, "\n".join(["id", *texts])))
    assert table["id"].dtype == float
    assert table.text("id").tolist() == [*texts[:-2], "2", None]
    for cells in (["1_11", "11_1"], ["x", *texts]):  # Python takes 1_11 for a number
        table = Columns.of_text(["id"], [[cell] for cell in cells])
        assert table["id"].dtype == object
        assert table.text("id").tolist() == [{"2.00": "2", "NA": None}.get(cell, cell) for cell in cells]
    for cells in (["true", "False"], ["TRUE", "false", "maybe"], ["1", "2"], []):
        table = Columns.of_text(["id"], [[cell] for cell in cells])
        assert table.text("id").tolist() == cells


@pytest.mark.parametrize("cells", [["1.10", "1.1"], ["1", "2"], ["x", "1.10"], [""]])
@pytest.mark.parametrize("others", [["1.10", "3"], ["3", "4"], ["a"], None])
def test_joined_tables_keep_the_text(cells, others):
    first, second = (
        Columns.of_text(["id"] if each is not None else ["other"], [[cell] for cell in each or ["1"]])
        for each in (cells, others)
    )
    wanted = [cell or None for cell in [*cells, *(others or [""])]]
    assert first.joined(second).text("id").tolist() == wanted
    assert second.joined(first).text("id").tolist() == wanted[len(cells) :] + wanted[: len(cells)]


def test_whole_numbers_beyond_64_bits_stay_text_in_parquet(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    large = [2**63 + 5, 1]
    parquet.write_table(pyarrow.table({"id": pyarrow.array(large, pyarrow.uint64())}), tmp_path / "t.parquet")
    assert read_columns(tmp_path / "t.parquet")["id"].tolist() == list(map(str, large))

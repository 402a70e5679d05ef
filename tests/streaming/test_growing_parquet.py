"""Files that grow: what a killed writer leaves behind, and what other readers make of the result."""

import numpy as np
import pytest

from graphprism.streaming import EdgeFileError, open_split
from graphprism.streaming.growing_parquet import GrowingParquet, decode_struct, encode_struct, read_about, split_footer
from graphprism.streaming.mutual_edges import MutualEdges

pytest.importorskip("pyarrow")


def tables():
    import pyarrow as pa

    rng = np.random.default_rng(0)
    return [
        pa.table({"id": rng.integers(0, 1 << 40, size), "name": [f"n{i}" for i in range(size)], "w": rng.random(size)})
        for size in (5, 1, 7)
    ]


def write_whole(folder, output):
    folder.mkdir()
    with GrowingParquet(folder) as out:
        for table in tables():
            out.append(table)
        out.finish(output, {"split": "any"})
    return output.read_bytes()


def test_growing_parquet_is_read_by_pyarrow_and_duckdb(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_whole(tmp_path / "work", tmp_path / "out.parquet")
    expected = pa.concat_tables(tables())
    assert pq.read_table(tmp_path / "out.parquet").equals(expected)
    assert pq.ParquetFile(tmp_path / "out.parquet").metadata.num_row_groups == 3
    import duckdb

    query = f"SELECT count(*), sum(id), max(name), max(w) FROM read_parquet('{tmp_path / 'out.parquet'}')"
    with duckdb.connect() as connection:
        found = connection.execute(query).fetchone()
    ids, weights = expected["id"].to_pylist(), expected["w"].to_pylist()
    assert found == (13, sum(ids), "n6", max(weights))
    assert read_about(tmp_path / "out.parquet")["split"] == "any"


@pytest.mark.parametrize("left", ["half a row group", "half a line", "no log", "a changed byte", "zeros"])
def test_growing_parquet_goes_on_after_what_a_kill_or_a_power_cut_left(left, tmp_path):
    whole = write_whole(tmp_path / "whole", tmp_path / "whole.parquet")
    folder, output = tmp_path / "work", tmp_path / "out.parquet"
    folder.mkdir()
    with GrowingParquet(folder) as out:
        for table in tables()[:2]:
            out.append(table)
    data, log = folder / "rows", folder / "rows.jsonl"
    content = bytearray(data.read_bytes())
    if left == "half a row group":
        data.write_bytes(content + content[4:200])
    elif left == "half a line":
        log.write_bytes(log.read_bytes()[:-20])
    elif left == "no log":
        log.unlink()
    elif left == "a changed byte":
        content[-1] ^= 1
        data.write_bytes(content)
    else:
        data.write_bytes(content[:-50] + bytes(50))
    expected = {"half a row group": 6, "half a line": 5, "no log": 0, "a changed byte": 5, "zeros": 5}[left]
    with GrowingParquet(folder) as out:
        assert out.rows == expected
        done = [0, 5, 6].index(out.rows)
        for table in tables()[done:]:
            out.append(table)
        out.finish(output, {"split": "any"})
    assert output.read_bytes() == whole


def test_footer_of_pyarrow_is_written_back_as_it_was():
    import pyarrow as pa
    import pyarrow.parquet as pq

    for table in tables():
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        content = sink.getvalue().to_pybytes()
        body, footer = split_footer(content)
        assert encode_struct(footer) == content[4 + len(body) : -8]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {1: (1, True), 2: (2, False), 3: (3, -128), 4: (4, -1), 5: (5, 1 << 30), 6: (6, -(1 << 63)), 7: (7, 0.1)},
        {1: (9, (8, [b"x"] * 20)), 40: (9, (12, [{1: (6, 5)}, {}])), 41: (9, (1, [True, False]))},
    ],
)
def test_struct_survives_a_round_trip(fields):
    assert decode_struct(encode_struct(fields)) == fields


@pytest.mark.parametrize("content", [b"", b"\x15", b"\x18\x7fab", b"\x00\x00", b"\x1b", b"\x1c" * 40])
def test_decode_struct_refuses_damage_in_one_sentence(content):
    with pytest.raises(ValueError, match="the footer"):
        decode_struct(content)


def test_mutual_edges_forget_keys_behind_those_that_count(tmp_path):
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 30, (2, 400))
    first, second = slice(0, 200), slice(200, 400)
    killed = MutualEdges(tmp_path, 1 << 24)
    assert killed.count > 1
    killed.add(source[first], target[first])
    written = list(killed.written)
    killed.add(source[second], target[second])
    killed.sync()
    killed.close()
    mutual = MutualEdges(tmp_path, 1 << 24, written)
    mutual.add(source[second], target[second])
    mutual.close()
    for number in range(mutual.count):
        mutual.resolve(number)
    taken = [0] * mutual.count
    found = np.concatenate([mutual.take(source[part], target[part], taken) for part in (first, second)])
    pairs = set(zip(source.tolist(), target.tolist(), strict=True))
    assert found.tolist() == [int((b, a) in pairs) for a, b in zip(source.tolist(), target.tolist(), strict=True)]
    assert taken == mutual.written


@pytest.mark.parametrize(
    ("footer", "message"),
    [
        (b"\x19" * 100_001, "nested at most 16 deep"),  # lists of lists
        (b"\x15" + b"\xff" * 400_000, "numbers of 64 bits"),
    ],
    ids=["lists", "number"],
)
def test_a_crafted_footer_is_refused_at_once(tmp_path, footer, message):
    path = tmp_path / "crafted.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(EdgeFileError, match=message):
        open_split(path)

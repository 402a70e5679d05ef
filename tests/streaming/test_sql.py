"""Splits by SQL against the same splits of a file."""

import numpy as np
import pytest
import torch

from graphprism.splitting import by_order
from graphprism.streaming import split_sql
from tests.streaming.cases import SPLITS, in_memory, random_edges, write

pytest.importorskip("duckdb")


def run(query: str, columns: dict[str, np.ndarray], tmp_path) -> dict[str, np.ndarray]:
    import duckdb

    path = write(tmp_path / "in.parquet", {**columns, "number": np.arange(len(columns["source"]))})
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW edges AS SELECT * FROM read_parquet('{path}')")
        return connection.execute(f"SELECT * FROM ({query}) ORDER BY number").fetchnumpy()


@pytest.mark.parametrize("split", SPLITS)
def test_split_sql_gives_the_relations_of_split_edges_row_by_row(split, tmp_path):
    columns = random_edges()
    found = run(split_sql(split), columns, tmp_path)
    for name, values in columns.items():
        np.testing.assert_array_equal(found[name], values)
    np.testing.assert_array_equal(found["edge_type"], in_memory(columns, split).numpy())


def test_split_sql_ties_of_page_rank_are_those_in_memory(tmp_path):
    ring = np.arange(400)
    source, target = np.append(ring, [7, 90, 200]), np.append((ring + 1) % 400, [31, 17, 301])
    columns = {"source": np.append(source, target), "target": np.append(target, source)}
    found = torch.from_numpy(run(split_sql("ppr"), columns, tmp_path)["edge_type"])
    assert 0 < (found == 2).sum() < found.numel()
    assert torch.equal(found.long(), in_memory(columns, "ppr"))


def test_split_sql_takes_names_as_ids(tmp_path):
    columns = random_edges()
    named = {**columns, **{key: np.char.add("node ", columns[key].astype(str)) for key in ("source", "target")}}
    found = run(split_sql("degree, ppr * direction"), named, tmp_path)
    np.testing.assert_array_equal(found["edge_type"], in_memory(columns, "degree, ppr * direction").numpy())


def test_split_sql_writes_a_file_from_a_file(tmp_path):
    import duckdb
    import pyarrow.parquet as pq

    columns = random_edges()
    columns['odd "name"'] = columns.pop("source")
    path, output = write(tmp_path / "in.parquet", columns), tmp_path / "o'ut.parquet"
    with duckdb.connect() as connection:
        connection.execute(split_sql("degree", str(path), str(output), source='odd "name"'))
    columns["source"] = columns.pop('odd "name"')
    expected = torch.bincount(in_memory(columns, "degree")).tolist()
    assert np.bincount(pq.read_table(output)["edge_type"].to_numpy()).tolist() == expected


def test_split_sql_for_spark():
    query = split_sql("degree * direction", "in.parquet", "out", dialect="spark")
    assert query.startswith("INSERT OVERWRITE DIRECTORY 'out' USING parquet\nWITH gp_edges")
    assert "FROM parquet.`in.parquet`" in query
    assert '"' not in query
    assert "MATERIALIZED" not in split_sql("ppr", dialect="spark")


def test_split_sql_says_what_must_hold():
    with pytest.raises(ValueError, match="`dialect` must be one of"):
        split_sql("degree", dialect="oracle")
    with pytest.raises(ValueError, match=r"one of \['degree', 'ppr'\], got 'core'"):
        split_sql(by_order("core"))
    with pytest.raises(ValueError, match="must be Parquet or a table"):
        split_sql("degree", "edges.csv", dialect="spark")

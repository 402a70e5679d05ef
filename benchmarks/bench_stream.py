"""Splits of edges in files: time and peak memory of the real command, beside the same split by SQL.

python benchmarks/bench_stream.py                                # by degree, 10^6 to 10^8 edges, ten per node
python benchmarks/bench_stream.py --edges 1e7 --by "degree * direction" --by ppr
python benchmarks/bench_stream.py --edges 1e7 --duckdb --spark   # with SQL, compared row by row; needs java for Spark

Every measurement is a separate process, including its start; the peak is its resident memory as counted by the kernel.
All rows of a result are checked: by degree against numpy, else against the split in memory (up to 10^7 edges). Files
are written to --folder, about 20 bytes per edge, and removed. For SQL, whose rows are unordered, edges have an id.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from measure import about, save

from graphprism.splitting import Graph, parse_split
from graphprism.streaming import open_split, split_sql

CHUNK = 1 << 21
# Edges up to which the split in memory is the reference, which takes some 100 bytes an edge.
IN_MEMORY = 10_000_000
DUCKDB = (
    "import duckdb, sys; c = duckdb.connect(); c.execute(\"SET memory_limit = '2GB'\"); c.execute('SET threads = 2'); "
    "c.execute(open(sys.argv[1]).read())"
)
SPARK = ("--master", "local[2]", "--driver-memory", "4g", "--conf", "spark.ui.enabled=false",
         "--conf", "spark.sql.catalogImplementation=in-memory")  # fmt: skip


def make_edges(path: Path, num_edges: int, num_nodes: int, numbered: bool) -> None:
    """Targets are uniform, sources skewed: node i is drawn with a density that falls as 1 / sqrt(i)."""
    rng = np.random.default_rng(0)
    names = ["source", "target", *(["number"] if numbered else [])]
    schema = pa.schema([(name, pa.int64()) for name in names])
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for start in range(0, num_edges, CHUNK):
            number = np.arange(start, min(start + CHUNK, num_edges))
            source = (num_nodes * rng.random(number.size) ** 2).astype(np.int64)
            target = rng.integers(0, num_nodes, number.size)
            writer.write_table(pa.table([source, target, number][: len(names)], schema=schema))


def ends(path: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for batch in pq.ParquetFile(path).iter_batches(CHUNK, columns=["source", "target"]):
        yield batch.column("source").to_numpy(), batch.column("target").to_numpy()


def expected_types(path: Path, by: str, num_nodes: int) -> Iterator[np.ndarray]:
    """Relations of all edges in chunks, by another way than the streaming one."""
    if by == "degree":
        degree = np.zeros(num_nodes, np.int64)
        for source, _ in ends(path):
            degree += np.bincount(source, minlength=num_nodes)
        for source, target in ends(path):
            a, b = degree[source], degree[target]
            yield np.where(a < b, 0, np.where(a > b, 1, 2))
        return
    columns = [np.concatenate(each) for each in zip(*ends(path), strict=True)]
    yield parse_split(by)(Graph(torch.from_numpy(np.stack(columns)), num_nodes)).numpy()


def refuse_wrong(name: str, found: np.ndarray, path: Path, by: str, num_nodes: int) -> None:
    at = 0
    for expected in expected_types(path, by, num_nodes):
        wrong = np.flatnonzero(found[at : at + expected.size] != expected)
        if wrong.size:
            raise SystemExit(f"{name}: edge {at + wrong[0]} must have relation {expected[wrong[0]]}")
        at += expected.size
    if at != found.size:
        raise SystemExit(f"{name}: must have {at} rows, got {found.size}")


# Forks from a small process: the kernel counts the parent's memory for the child as well.
CLOCK = """
import json, resource, subprocess, sys, time
begin = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
seconds, used = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""


def timed(command: list[str]) -> dict[str, float]:
    """Wall clock, processor time and peak of resident memory of one process and those it waits for."""
    clock = [sys.executable, "-S", "-c", CLOCK, *command]
    done = subprocess.run(clock, capture_output=True, text=True, env=environment(), check=True)
    code, seconds, cpu, kilobytes = json.loads(done.stdout)
    if code:
        raise SystemExit(f"{command[0]} failed: {done.stderr[-2000:]}")
    peak = kilobytes * 1024 / 1e9
    return {"seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2), "peak_rss_gb": round(peak, 3)}


def environment() -> dict[str, str]:
    tools = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}


def by_number(path: Path) -> np.ndarray:
    """Relations of a result of SQL, which has no order, by the number of the edge."""
    table = pq.read_table(path, columns=["number", "edge_type"])
    found = np.full(table.num_rows, -1)
    found[table["number"].to_numpy()] = table["edge_type"].to_numpy()
    return found


def measure(folder: Path, num_edges: int, by: str, options: argparse.Namespace) -> dict[str, Any]:
    num_nodes = num_edges // 10
    path, output = folder / "edges.parquet", folder / "typed.parquet"
    make_edges(path, num_edges, num_nodes, options.duckdb or options.spark)
    command = [sys.executable, "-m", "graphprism", "split", str(path), "--by", by, "-o", str(output)]
    rows: dict[str, Any] = {"graphprism": timed(command)}
    begin = time.perf_counter()
    file = open_split(output)
    file.verify()
    rows["graphprism"]["verify_seconds"] = round(time.perf_counter() - begin, 2)
    checked = by == "degree" or num_edges <= IN_MEMORY
    if checked:
        types = np.concatenate([table["edge_type"].to_numpy() for table in file.chunks(["edge_type"])])
        refuse_wrong("graphprism", types, path, by, num_nodes)
    output.unlink()
    for name in (name for name in ("duckdb", "spark") if getattr(options, name)):
        script = folder / "split.sql"
        script.write_text(split_sql(by, str(path), str(output), dialect=name))
        launcher = [sys.executable, "-c", DUCKDB] if name == "duckdb" else ["spark-sql", *SPARK, "-f"]
        rows[name] = timed([*launcher, str(script)])
        refuse_wrong(name, by_number(output), path, by, num_nodes)
        shutil.rmtree(output) if output.is_dir() else output.unlink()
    return {"by": by, "edges": num_edges, "nodes": num_nodes, "all_rows_checked": checked, **rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=float, action="append", help="default: 1e6, 1e7 and 1e8")
    parser.add_argument("--by", action="append", help="default: degree")
    parser.add_argument("--duckdb", action="store_true", help="the same split by DuckDB, with 2 GB and two threads")
    parser.add_argument("--spark", action="store_true", help="the same split by Spark in local mode, with two threads")
    parser.add_argument("--folder", type=Path, help="where files are written: a temporary folder")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for num_edges in options.edges or [1e6, 1e7, 1e8]:
        for by in options.by or ["degree"]:
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                rows.append(measure(Path(folder), int(num_edges), by, options))
            print(rows[-1], flush=True)
    if options.out is not None:
        save(options.out, {"about": about(torch.device("cpu")), "load": os.getloadavg(), "rows": rows})


if __name__ == "__main__":
    main()

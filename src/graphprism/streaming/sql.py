"""The splits of `split_file` as SQL, for edges in a database or node values that do not fit into memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from graphprism._checks import check_choice
from graphprism.splitting import parse_split
from graphprism.splitting.graph import Graph
from graphprism.splitting.orderings import FixedOrder
from graphprism.splitting.ranks import factors_of
from graphprism.splitting.split import Split
from graphprism.splitting.splits import DOWN, TIE, UP, ByAttribute, ByDirection, ByOrder, prepare
from graphprism.streaming.page_rank import RESTART, STEPS
from graphprism.streaming.split_file import check_streamed

DIALECTS = ("duckdb", "spark")


def split_sql(
    by: str | Split = "degree",
    edges: str = "edges",
    output: str | None = None,
    *,
    dialect: str = "duckdb",
    source: str = "source",
    target: str = "target",
) -> str:
    """A query for all columns of the edges and ``edge_type``, the relations of `split_file`.

    Node ids may be of any type. Rows of the result have no order. The order of summation in ``ppr`` is undefined, so
    its values differ by rounding, at most a thousandth of the tolerance of a tie; nodes without edges do not count.

    Args:
        by: A split, or its text; see `split_file`.
        edges: A table, or the path of a file or folder if it ends in ``.parquet``, ``.csv`` or ``/``.
        output: A Parquet file (DuckDB) or folder (Spark) to write; by default the query only selects.
        dialect: ``duckdb`` or ``spark``.
        source: Column of source nodes.
        target: Column of target nodes.

    >>> print(split_sql("degree"))
    WITH gp_edges AS (
      SELECT * FROM edges
    ),
    gp_degree AS (
      SELECT "source" AS node, count(*) AS value FROM gp_edges GROUP BY "source"
    )
    SELECT e.*, CAST(
      CASE
        WHEN coalesce(s0.value, 0) < coalesce(t0.value, 0) THEN 0
        WHEN coalesce(s0.value, 0) > coalesce(t0.value, 0) THEN 1
        ELSE 2 END
      AS INTEGER) AS edge_type
    FROM gp_edges AS e
    LEFT JOIN gp_degree AS s0 ON s0.node = e."source"
    LEFT JOIN gp_degree AS t0 ON t0.node = e."target"
    """
    check_choice("dialect", dialect, DIALECTS)
    split = parse_split(by) if isinstance(by, str) else by
    check_streamed(split)
    query = _Query(dialect, source, target)
    query.common("gp_edges", f"SELECT * FROM {query.table(edges)}")
    terms, stride = [], 1
    for factor in factors_of(split):
        term = query.term(factor)
        terms.append(term if stride == 1 else f"{stride} * ({term})")
        stride *= factor.num_relations or 1
    text = query.text("\n  + ".join(terms), "INTEGER" if stride < 1 << 31 else "BIGINT")
    if output is None:
        return text
    place = output.replace("'", "''")
    if dialect == "spark":
        return f"INSERT OVERWRITE DIRECTORY '{place}' USING parquet\n{text};"
    return f"COPY (\n{text}\n) TO '{place}' (FORMAT parquet);"


@dataclass
class _Query:
    """Common table expressions and joins of a query, collected factor by factor."""

    dialect: str
    source: str
    target: str
    _common: dict[str, str] = field(default_factory=dict)
    _joins: list[str] = field(default_factory=list)

    def name(self, column: str) -> str:
        mark = '"' if self.dialect == "duckdb" else "`"
        return mark + column.replace(mark, 2 * mark) + mark

    def table(self, edges: str) -> str:
        if not edges.endswith((".parquet", ".csv", "/")):
            return edges
        if self.dialect == "spark":
            if edges.endswith(".csv"):
                raise ValueError(f"edges for Spark must be Parquet or a table, got {edges}: make a view of it first")
            return f"parquet.`{edges}`"
        kind = "csv" if edges.endswith(".csv") else "parquet"
        path = (f"{edges}*.parquet" if edges.endswith("/") else edges).replace("'", "''")
        return f"read_{kind}('{path}')"

    def common(self, name: str, query: str, materialized: bool = False) -> None:
        # Spark has no MATERIALIZED, and needs none: each query uses the previous one only once.
        word = "MATERIALIZED " if materialized and self.dialect == "duckdb" else ""
        self._common[name] = f"{name} AS {word}(\n  {query}\n)"

    def text(self, relation: str, kind: str) -> str:
        common, joins = ",\n".join(self._common.values()), "".join(f"\n{join}" for join in self._joins)
        return f"WITH {common}\nSELECT e.*, CAST(\n  {relation}\n  AS {kind}) AS edge_type\nFROM gp_edges AS e{joins}"

    def term(self, factor: Split) -> str:
        """The relation number of one factor as an expression."""
        if isinstance(factor, ByAttribute):
            return f"CAST(e.{self.name(factor.attribute)} AS BIGINT)"
        source, target = self.name(self.source), self.name(self.target)
        if isinstance(factor, ByDirection):
            self.common("gp_pairs", f"SELECT DISTINCT {source} AS a, {target} AS b FROM gp_edges")
            self._joins.append(f"LEFT JOIN gp_pairs AS back ON back.a = e.{target} AND back.b = e.{source}")
            return "CASE WHEN back.a IS NULL THEN 0 ELSE 1 END"
        assert isinstance(factor, ByOrder)  # others are rejected by `check_streamed`
        cases = [case for each in factor.orderings for case in self._compared(str(each), factor.tolerance)]
        return "CASE\n    " + "\n    ".join([*cases, f"ELSE {TIE} END"])

    def _compared(self, ordering: str, tolerance: float | None) -> list[str]:
        """Conditions of up and down by one ordering."""
        source, target = self.name(self.source), self.name(self.target)
        if ordering == "degree":
            values = f"SELECT {source} AS node, count(*) AS value FROM gp_edges GROUP BY {source}"
            self.common("gp_degree", values)
        elif "gp_ppr" not in self._common:
            self._page_rank()
        # aliases of the values at source and target: s0, t0 for the first comparison, s1, t1 for the second, ...
        number = sum("AS s" in join for join in self._joins)
        for end, column in (("s", source), ("t", target)):
            self._joins.append(f"LEFT JOIN gp_{ordering} AS {end}{number} ON {end}{number}.node = e.{column}")
        a, b = f"s{number}.value", f"t{number}.value"
        if ordering == "degree":
            a, b = f"coalesce({a}, 0)", f"coalesce({b}, 0)"
            return [f"WHEN {a} < {b} THEN {UP}", f"WHEN {a} > {b} THEN {DOWN}"]
        # The tolerance of `by_order` for values whose largest is one.
        compare = prepare(FixedOrder(torch.ones(1, dtype=torch.float64)), _ONE_NODE, tolerance)
        assert compare.floor is not None  # the values are floats
        if "CROSS JOIN gp_largest AS largest" not in self._joins:
            self._joins.append("CROSS JOIN gp_largest AS largest")
        margin = f"{compare.relative:e} * greatest(abs({a}), abs({b})) + {float(compare.floor[0]):e} * largest.value"
        return [f"WHEN {b} - {a} > {margin} THEN {UP}", f"WHEN {a} - {b} > {margin} THEN {DOWN}"]

    def _page_rank(self) -> None:
        """The steps of `ppr`, each as a query over the previous one; the added loops are ordinary edges."""
        source, target = self.name(self.source), self.name(self.target)
        self.common("gp_nodes", f"SELECT {source} AS node FROM gp_edges UNION SELECT {target} FROM gp_edges")
        self.common(
            "gp_loops", f"SELECT {source} AS a, {target} AS b FROM gp_edges WHERE {source} <> {target}\n"
            "  UNION ALL SELECT node, node FROM gp_nodes",
        )  # fmt: skip
        self.common("gp_scale", "SELECT b AS node, 1e0 / sqrt(count(*)) AS value FROM gp_loops GROUP BY b")
        self.common(
            "gp_links", "SELECT l.a, l.b, s.value * t.value AS weight FROM gp_loops AS l\n"
            "  JOIN gp_scale AS s ON s.node = l.a JOIN gp_scale AS t ON t.node = l.b", materialized=True,
        )  # fmt: skip
        before = "SELECT node, 1e0 AS value FROM gp_nodes"
        for step in range(1, STEPS + 1):
            name = "gp_ppr" if step == STEPS else f"gp_ppr_{step}"
            last = f"({before})" if step == 1 else before
            query = (
                f"SELECT l.b AS node, {RESTART:e} + {1 - RESTART:e} * sum(l.weight * r.value) AS value\n"
                f"  FROM gp_links AS l JOIN {last} AS r ON r.node = l.a GROUP BY l.b"
            )
            self.common(name, query, materialized=True)
            before = name
        self.common("gp_largest", "SELECT max(abs(value)) AS value FROM gp_ppr")


_ONE_NODE = Graph(torch.empty(2, 0, dtype=torch.long), 1)

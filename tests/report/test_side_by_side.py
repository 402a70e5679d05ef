import re
from dataclasses import replace

from graphprism.report.tables import tables
from graphprism.results import Cell, Score, TableResult
from tests.report.samples import run


def trained(key, lookup):
    extra = {} if lookup is None else {"lookup": lookup, "majority": 20.0}
    result = run(node=True, dataset="chameleon")
    return replace(result, key=key, history={"test": [70.0]}, best_epoch=1, larger_is_better=True, extra=extra)


def page(*cells, runs=()):
    names = tuple(dict.fromkeys(cell.row for cell in cells))
    columns = tuple(dict.fromkeys(cell.column for cell in cells))
    result = TableResult("directed", "Directed graphs", "", names, columns, cells, larger_is_better=True, digits=1)
    return tables([result], {each.key: each for each in runs})


def rows_of(html):
    inside = re.search(r"<details>(.*)</details>", html, re.DOTALL).group(1)
    found = re.findall(r"<tr>(.*?)</tr>", inside, re.DOTALL)
    return [[re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in found]


def test_quoted_re_run_and_look_up_stand_side_by_side():
    cells = (
        Cell("LINKX", "Chameleon", Score(70.0, 1.0, 2), Score(68.4, 1.4, 10), runs=("a", "b")),
        Cell("MagNet", "Chameleon", None, Score(58.2, 2.9, 10)),
        Cell("Look-up", "Chameleon", Score(74.0, None, 2)),
    )
    head, *rows = rows_of(page(*cells, runs=(trained("a", 73.0), trained("b", 75.0))))
    sides = ("quoted", "re-run", "look-up", "over look-up")
    assert head == ["", *(f"Chameleon, {side}" for side in sides)]
    assert rows == [["LINKX", "68.4 ± 1.4", "70.0 ± 1.0", "74.0", "−4.0"], ["MagNet", "58.2 ± 2.9", "—", "—", "—"]]


def test_a_table_without_look_ups_has_no_second_one():
    cell = Cell("GCN", "8", Score(0.4, 0.1, 1), Score(0.404), runs=("a",))
    assert "<details>" not in page(cell, runs=(trained("a", None),))

"""The page as text: what is in it, and that nothing in it can break out."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from graphprism import report
from graphprism.report import page
from graphprism.results import Cell, Score, TableResult
from tests.report.document import read
from tests.report.samples import depth_runs, depth_table, directed_table, node_runs, run

EVIL = '</script><script>alert(1)</script><img src=x onerror="alert(2)">'


@pytest.fixture(scope="module")
def document():
    depth, node = depth_runs(), node_runs()
    return read(page([depth_table(depth), directed_table(node)], depth + node, {"Figure 2": "<svg/>"}))


def cell(document, table, row, column):
    section = document.one("section", id=f"table-{table}").one("table", class_="paper")
    columns = [each.text for each in section.one("thead").all("th")]
    (line,) = (each for each in section.one("tbody").all("tr") if each.one("th").text == row)
    return line.all("td")[columns.index(column)]


def test_summary(document):
    tiles = {tile.one("dt").text: tile.text for tile in document.one("dl").all("div")}
    assert tiles["Tables"] == "Tables222 of 32 cells run"
    assert tiles["Runs"] == "Runs621 diverged"
    assert "10 h 20 min" in tiles["Time"]
    assert tiles["Hardware"] == "HardwareTest GPUand 1 other"
    assert tiles["Versions"] == "Versionstorch 2.13.0"
    assert tiles["Commit"] == "Commit012345678and 1 other"


def test_cell_has_ours_the_gap_the_quoted_number_seeds_and_time(document):
    found = cell(document, "depth", "MRS-GCN", "1")
    ours, gap, quoted, behind = (part for part in found.all("div"))
    assert ours.text == "0.507 (best) ± 0.001"
    assert gap.text == "▲ −0.018 better"
    assert quoted.text == "quoted 0.525 (best) ± 0.002"
    assert behind.text == "3 seeds · 4 min 33 s"
    assert len(behind.one("a").attributes["data-runs"].split()) == 3
    assert "better" in found.classes


def test_cell_that_was_not_run_quotes_the_paper_alone(document):
    found = cell(document, "depth", "GCN + Res", "8")
    assert found.text == "– not runquoted 0.403 ± 0.014"
    assert found.classes == ["cell", "not-run"]


def test_overview_counts_cells(document):
    first, *_ = document.one("section", id="overview").one("tbody").all("tr")
    counts = [int(each.text) for each in first.all("td")[1:-1]]
    assert sum(counts) == 24
    assert counts[-1] == 6
    drawn = [rect.attributes["class"] for rect in first.all("rect")]
    assert drawn[-1] == "fill not-run"
    assert sum(float(rect.attributes["width"]) for rect in first.all("rect")) == pytest.approx(100, abs=0.1)


def test_look_up_stands_beside_the_score_and_warns(document):
    assert "⚠ look-up 69.30, close" in cell(document, "directed", "Dir-GNN", "Squirrel").text
    rows = [row for row in document.one("section", id="runs").one("tbody").all("tr") if "squirrel" in row.text]
    assert len(rows) == 4
    assert all("look-up 0.693, majority 0.22⚠ look-up is close" in row.text for row in rows)
    assert "In 8 runs a look-up" in document.one("ul", class_="warnings").text
    assert "1 run diverged: the loss was not a finite number." in document.one("ul", class_="warnings").text


def test_list_of_runs(document):
    section = document.one("section", id="runs")
    heads = [each.text for each in section.one("thead").all("th")]
    assert heads == ["run", "dataset", "metric", "val", "test", "train", "best epoch", "parameters", "time", "model",
                     "split", "layers", "width", "lr", "seed", "step ms", "engine", "device"]  # fmt: skip
    rows = section.one("tbody").all("tr")
    assert len(rows) == 62
    assert all(len(row.all("td")) == len(heads) - 1 for row in rows)
    whole = json.loads(rows[0].one("pre").text)
    assert whole["run"] == depth_runs()[0].run
    assert whole["history"] == "60 epochs, in the ledger"
    (diverged,) = (row for row in rows if "diverged" in row.classes)
    assert diverged.one("summary").text == "gcn, 32 layers, lr 0.0003, seed 2 ✖ diverged"


def test_hardware_and_versions(document):
    places, versions = document.one("section", id="places").all("table")
    rows = [[each.text for each in row.children] for row in places.one("tbody").all("tr")]
    assert rows == [["Test CPU", "eager", "1", "8", "12 min 04 s", "0.65"],
                    ["Test GPU", "lockstep", "8", "54", "10 h 08 min", "0.7"]]  # fmt: skip
    assert "torch2.13.0" in versions.text
    assert "(44 runs)" in versions.text


def test_structure_helps_readers_who_hear_it(document):
    assert document.one("html").attributes["lang"] == "en"
    assert len(document.all("h1")) == 1
    assert all(table.one("caption").text.strip() for table in document.all("table"))
    heads = [each for table in document.all("table") for each in table.all("th")]
    assert all(head.attributes["scope"] in ("row", "col") for head in heads)
    ids = [node.attributes["id"] for node in document._below() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    links = [link.attributes["href"] for link in document.all("a")]
    assert all(link[0] == "#" and link[1:] in ids for link in links)
    assert all(image.attributes["alt"] for image in document.all("img"))


def test_nothing_is_fetched_and_only_our_script_may_run(document):
    policy = document.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"]
    (script,) = (each for each in document.all("script") if "type" not in each.attributes)
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy
    assert not document.all("link")
    assert all("src" not in each.attributes for each in document.all("script"))
    assert not [key for node in document._below() for key in node.attributes if key.startswith("on") or key == "style"]


def test_text_of_files_stays_text():
    paper = Cell(EVIL, EVIL, Score(1.0, 0.1, 1), Score(1.0), 1.0, EVIL, (EVIL,))
    table = TableResult(EVIL, EVIL, EVIL, (EVIL,), (EVIL,), (paper,), EVIL, notes=(EVIL,))
    bad = run(model=EVIL, split=EVIL, dataset=EVIL, **{EVIL: EVIL})
    bad = replace(bad, key=EVIL, status=EVIL, metric=EVIL, engine=EVIL, commit=EVIL, finished_at=EVIL,
                  hardware={"name": EVIL}, versions={EVIL: EVIL}, extra={EVIL: EVIL, "lookup": 1.0})  # fmt: skip
    text = page([table], [bad], {EVIL: f"<svg>{EVIL}</svg>"}, title=EVIL)
    document = read(text)
    assert [each.attributes.get("type") for each in document.all("script")] == ["application/json", None]
    assert [each.attributes["src"][:26] for each in document.all("img")] == ["data:image/svg+xml;base64,"]
    assert document.one("h1").text == EVIL
    assert json.loads(document.one("script", id="curve-data").text)["panels"][0]["dataset"] == EVIL
    assert "<script>alert" not in text


def test_empty_page_says_what_to_run():
    document = read(page([], []))
    assert document.one("main").all("code")[0].text == "graphprism reproduce --help"
    assert not document.all("table")


def test_same_results_give_the_same_page():
    assert page([depth_table(depth_runs())], depth_runs()) == page([depth_table(depth_runs())], depth_runs())


def test_repeated_run_counts_once_in_curves_and_its_finished_result_is_taken():
    broken = replace(run(), status="diverged", history={"train_loss": [7.0]}, best_epoch=None)
    for runs in ([broken, run()], [run(), broken]):
        document = read(page([], runs))
        (curve,) = json.loads(document.one("script", id="curve-data").text)["panels"][0]["curves"]
        assert curve["runs"] == 1
        assert curve["train"]["mean"][0] < 2
        assert len(document.one("section", id="runs").one("tbody").all("tr")) == 2


def test_later_of_two_finished_results_is_taken():
    later = replace(run(), history={"train_loss": [7.0]}, best_epoch=None)
    data = json.loads(read(page([], [run(), later])).one("script", id="curve-data").text)
    assert data["panels"][0]["curves"][0]["train"]["mean"] == [7.0]


def test_thousands_of_runs_stay_small_and_quick():
    some = [run(layers=layers, epochs=400) for layers in (4, 8)]
    runs = [replace(some[at % 2], key=f"{at:016}", run={**some[at % 2].run, "lr": at // 3 / 1e5, "seed": at % 3})
            for at in range(2000)]  # fmt: skip
    start = time.process_time()
    text = page([], runs)
    assert time.process_time() - start < 15  # about 2 s on an idle core
    assert len(text.encode()) < 10e6
    assert "thinned out to at most" in text


def test_no_torch_and_no_other_package():
    code = "import sys, graphprism.report; assert not {'torch', 'numpy', 'typer'} & set(sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(Path(report.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_warnings_say_where_data_differ():
    runs = [replace(run(seed=seed), data=data) for seed, data in enumerate(["a" * 64, "a" * 64, "b" * 64, None])]
    text = read(page([], runs)).one("ul", class_="warnings").text
    assert "The data of zinc12k differ between runs: fingerprints aaaaaaaaa in 2 runs, bbbbbbbbb in 1 run." in text
    same = [replace(run(seed=seed), data="a" * 64) for seed in range(2)]
    assert "differ between runs" not in page([], [*same, replace(run(seed=2), data=None)])


def test_table_without_published_numbers_compares_with_none():
    cells = (Cell("GCN", "128", Score(1.3e-6)), Cell("MRS-GCN", "128", Score(1.121)))
    own = TableResult("own", "Own", "", ("GCN", "MRS-GCN"), ("128",), cells, unit="distance", larger_is_better=True)
    found = read(page([own], []))
    assert not found.all("section", id="overview")
    drawn = found.one("section", id="table-own")
    assert "ours alone" not in drawn.text
    assert "1.3e−06" in drawn.text  # not 0.000, which it is not
    assert [link.attributes["href"] for link in found.one("nav").all("a")] == ["#table-own"]
    with_runs = read(page([own], depth_runs())).one("nav").all("a")  # the order of the page
    assert [link.attributes["href"] for link in with_runs][:3] == ["#comparison", "#table-own", "#depth"]
    both = read(page([own, depth_table(depth_runs())], []))
    assert len(both.one("section", id="overview").one("tbody").all("tr")) == 1

import json
import math

import pytest
import torch
from rich.console import Console

from graphprism.experiments import FIGURE_2, Figure2Result, Figure2Spec, plot_figure_2, run_figure_2
from graphprism.experiments.tables.figure_2 import figure_2_spec
from graphprism.nn import CONVOLUTIONS

SPEC = Figure2Spec(graphs="molecules", seeds=4, layers=64)

# Layers of this package that pass messages along the edges; the nine maps differ from the seven in their gate alone.
MODELS = tuple(
    name
    for name, conv in CONVOLUTIONS.items()
    if conv.takes_graph and conv.edge_norm is not None and not conv.directed and name != "mrs-gated-gcn-9"
)


@pytest.fixture(scope="module")
def result():
    return run_figure_2(SPEC)


def test_the_specification_is_the_paper_s():
    assert FIGURE_2.models == ("gcn", "mrs-gcn", "sage", "mrs-sage")
    assert (FIGURE_2.graphs, FIGURE_2.seeds, FIGURE_2.layers, FIGURE_2.channels) == ("zinc", 50, 128, 16)
    assert FIGURE_2.split == "degree"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seeds": 0}, "`seeds` must be at least 1, got 0"),
        ({"layers": -1}, "`layers` must be at least 1"),
        ({"channels": 0}, "`channels` must be at least 1"),
        ({"graphs": "mutag"}, r"`graphs` must be one of \['zinc', 'molecules', 'cora'\], got 'mutag'"),
        ({"models": ()}, "at least one model"),
        ({"models": ("gcn", "gcn")}, "none twice"),
    ],
)
def test_wrong_settings_are_named(change, words):
    with pytest.raises(ValueError, match=words):
        Figure2Spec(**change)


def test_unknown_model_is_named_before_anything_runs():
    with pytest.raises(ValueError, match=r"`models` must be among .*got \['gnc'\]"):
        run_figure_2(Figure2Spec(models=("gcn", "gnc"), graphs="molecules"), on_run=lambda *_: pytest.fail("it ran"))


def test_plain_models_collapse_and_split_ones_do_not(result):
    last = {model: float(result.mean(model)[-1]) for model in SPEC.models}
    assert last["gcn"] < last["mrs-gcn"] / 10
    assert last["sage"] < last["mrs-sage"] / 1e6
    assert min(last["mrs-gcn"], last["mrs-sage"]) > 0.3


def test_shapes_and_progress():
    seen = []
    small = run_figure_2(Figure2Spec(("gcn", "sage"), "molecules", 3, 5), on_run=lambda *run: seen.append(run))
    assert {model: tuple(rows.shape) for model, rows in small.distances.items()} == {"gcn": (3, 5), "sage": (3, 5)}
    assert sorted(seen) == [(model, seed) for model in ("gcn", "sage") for seed in range(3)]


def test_a_run_depends_on_no_other(result):
    alone = run_figure_2(Figure2Spec(("mrs-gcn",), "molecules", 4, 64))
    assert torch.equal(alone.distances["mrs-gcn"], result.distances["mrs-gcn"])


def test_same_text_twice_and_read_back(result):
    text = result.to_json()
    assert text == run_figure_2(SPEC).to_json()
    again = Figure2Result.from_json(text)
    assert (again.spec, again.graph_numbers, again.versions) == (SPEC, result.graph_numbers, result.versions)
    assert all(torch.equal(again.distances[model], rows) for model, rows in result.distances.items())
    assert again.to_json() == text


def by_hand() -> Figure2Result:
    rows = torch.tensor([[1.0, 0.5, math.nan], [0.5, 0.25, math.nan], [0.6, math.nan, math.nan]], dtype=torch.float64)
    return Figure2Result(Figure2Spec(("gcn",), "molecules", 3, 3), {"gcn": rows}, (0, 1, 2), {})


def test_zero_collapse_is_counted_and_not_averaged():
    result = by_hand()
    assert result.zero_collapse("gcn").tolist() == [0, 1, 3]
    assert result.mean("gcn")[:2].tolist() == pytest.approx([0.7, 0.375])
    assert math.isnan(result.mean("gcn")[2])
    assert result.quantile("gcn", 0.5)[:2].tolist() == pytest.approx([0.6, 0.375])
    summary = json.loads(result.to_json())["summary"]["gcn"]
    assert summary["mean"][2] is None
    assert summary["zero_collapse"] == [0, 1, 3]
    assert summary["quantile_90"][0] == pytest.approx(0.92)


def test_table_says_what_collapsed_to_zero():
    text = render(by_hand())
    assert "all zero" in text
    assert "zero collapse, left out of the median: GCN 3 of 3" in text


def render(result: Figure2Result, width: int = 120) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(result)
    return captured.get()


def test_table_has_no_row_of_zero_collapse_without_one(result):
    text = render(result)
    assert "zero" not in text
    header, names = text.splitlines()[1].split(), [line.split()[0] for line in text.splitlines()[2:6]]
    assert header == ["layers", "1", "2", "4", "8", "16", "32", "64"]
    assert names == ["GCN", "MRS-GCN", "SAGE", "MRS-SAGE"]


def test_table_of_ten_models_fits_into_80_columns():
    falling = torch.logspace(-0.1, -15.9, 128, dtype=torch.float64).expand(2, -1)
    spec = Figure2Spec(MODELS, "molecules", 2)
    text = render(Figure2Result(spec, dict.fromkeys(spec.models, falling), (0, 1), {}), width=80)
    assert "…" not in text


def test_picture_has_a_curve_and_a_spread_for_each_model(result):
    (axes,) = plot_figure_2(result).axes
    assert axes.get_yscale() == "log"
    assert [line.get_label() for line in axes.lines] == ["GCN", "MRS-GCN", "SAGE", "MRS-SAGE"]
    assert len(axes.collections) == 4
    for line, model in zip(axes.lines, SPEC.models, strict=True):
        assert line.get_ydata() == pytest.approx(result.median(model).tolist())
    assert axes.lines[0].get_color() == axes.lines[1].get_color() != axes.lines[2].get_color()


def test_line_of_a_skewed_set_stays_in_its_band():
    # nine seeds fall to rounding, one stays: their mean is above nine tenths of them
    rows = torch.logspace(0, -15, 32, dtype=torch.float64).repeat(20, 1)
    rows[:1] = 1.0
    skewed = Figure2Result(Figure2Spec(("gcn",), "molecules", 20, 32), {"gcn": rows}, tuple(range(20)), {})
    assert skewed.mean("gcn")[-1] > skewed.quantile("gcn", 0.9)[-1]
    (axes,) = plot_figure_2(skewed).axes
    (line,) = axes.lines
    drawn = torch.tensor(line.get_ydata())
    assert (drawn >= skewed.quantile("gcn", 0.1)).all()
    assert (drawn <= skewed.quantile("gcn", 0.9)).all()
    (note,) = (text for text in axes.texts if "rounding" in text.get_text())
    assert note.get_position()[0] > 1  # beside the axes: no curve runs below it


def test_picture_of_one_layer_and_of_zeros():
    plot_figure_2(run_figure_2(Figure2Spec(("gcn",), "molecules", 1, 1)))
    assert any("ended in zeros" in text.get_text() for text in plot_figure_2(by_hand()).axes[0].texts)


def test_graphs_and_seeds_follow_what_is_there(tmp_path, monkeypatch):
    monkeypatch.delenv("GRAPHPRISM_DATA", raising=False)
    assert figure_2_spec(["gcn"], None, None, 8, 16).graphs == "molecules"
    assert figure_2_spec(["gcn"], None, None, 8, 16, tmp_path).graphs == "molecules"
    (tmp_path / "zinc12k.npz").touch()
    assert figure_2_spec(["gcn"], None, None, 8, 16, tmp_path).graphs == "zinc"
    monkeypatch.setenv("GRAPHPRISM_DATA", str(tmp_path))
    assert figure_2_spec(["gcn"], None, None, 8, 16).graphs == "zinc"
    assert figure_2_spec(["gcn"], "cora", None, 8, 16).seeds == 10
    assert figure_2_spec(["gcn", " sage "], "cora", 3, 8, 4) == Figure2Spec(("gcn", "sage"), "cora", 3, 8, 4)


def test_one_thread_runs_and_the_others_are_given_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(KeyError, match="1"):
            run_figure_2(SPEC, on_run=lambda *_: {}[torch.get_num_threads()])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)

import io
import json
import math
from dataclasses import FrozenInstanceError, replace

import pytest
from rich.console import Console

from graphprism.analysis.collapse import CollapseReport, LayerCollapse


def row(layer, **changes):
    plain = LayerCollapse(
        layer, f"convs.{layer - 1}", "GCNConv", (10, 8), "ok", 0, 8, 1.0, 4.0, 8.0, 5.0, 2.0, 0.5, 3.0
    )
    return replace(plain, **changes)


def report(*rows):
    return CollapseReport(rows, "GCN", 1, None, "no loss: labels are missing")


def gradients(*norms):
    return report(*(row(i, output_gradient=norm) for i, norm in enumerate(norms, 1)))


def distances(*values):
    return report(*(row(i, rank_one_distance=value) for i, value in enumerate(values, 1)))


def states(*values):
    return report(*(row(i, state=value) for i, value in enumerate(values, 1)))


@pytest.mark.parametrize(
    ("subject", "verdict"),
    [
        (distances(1.0, 0.5, 0.26), "healthy"),
        (distances(1.0, 0.5, 0.24), "on the way to rank collapse: the rank-one distance falls from 1 to 0.24"),
        (distances(1.0, 0.5, 0.011), "on the way to rank collapse: the rank-one distance falls from 1 to 0.011"),
        (distances(1.0, 0.009, 1e-7), "rank collapse from layer 2 (convs.1) on"),
        (distances(1e-3, 1.0, 1e-7), "rank collapse from layer 3 (convs.2) on"),
        (distances(1e-3, 1e-3, 1.0), "rank collapse at 2 of 3 layers, not at the last"),
        (states("ok", "zero collapse", "zero collapse"), "zero collapse from layer 2 (convs.1) on"),
        (states("ok", "not finite"), "not finite from layer 2 (convs.1) on"),
        (gradients(1.0, 1e-5, 1.0), "healthy"),
        (gradients(1e-9, 1e-8), "healthy"),
        (gradients(1e2, 1e9), "gradients vanish before layer 2 (convs.1)"),
        (gradients(1e-8, 1e-7, 1e-5, 1.0), "gradients vanish before layer 3 (convs.2)"),
        (gradients(1.0, 1e-8, 1.0), "gradients vanish at 1 of 3 layers, not at the first"),
        (gradients(0.0, 0.0), "gradients are zero at every layer"),
        (gradients(None, None), "healthy"),
        (gradients(math.inf, 1.0, math.nan), "gradients are not finite at 2 of 3 layers"),
        (report(), "healthy"),
    ],
)
def test_verdict(subject, verdict):
    assert subject.verdict == verdict


def test_rank_collapse_before_zeros_and_one_channel():
    collapsed = report(
        row(1), row(2, rank_one_distance=1e-4), row(3, state="zero collapse", rank_one_distance=math.nan)
    )
    assert collapsed.verdict == "zero collapse from layer 3 (convs.2) on; rank collapse from layer 2 (convs.1) on"
    assert report(row(1), row(2, possible_rank=1, rank_one_distance=0.0)).verdict == "healthy"


@pytest.mark.parametrize(
    ("shape", "possible_rank", "state", "came"),
    [
        ((1, 8), 1, "ok", "1 node and 8 channels"),
        ((10, 1), 1, "ok", "10 nodes and 1 channel"),
        ((0, 8), 0, "empty", "0 nodes and 8 channels"),
        ((10, 8), 1, "ok", "graphs of one node each; `whole=True` measures all nodes as one matrix"),
    ],
)
def test_verdict_of_states_that_can_only_have_rank_one(shape, possible_rank, state, came):
    rows = [row(layer, shape=shape, possible_rank=possible_rank, state=state) for layer in (1, 2)]
    sentence = f"not judged: a collapse can be seen with at least 2 nodes and 2 channels, got {came}"
    assert report(*rows).verdict == sentence
    assert report(row(1), *rows).verdict == "healthy"
    vanishing = report(replace(rows[0], output_gradient=1e-9), replace(rows[1], output_gradient=1.0))
    assert vanishing.verdict == f"gradients vanish before layer 2 (convs.1); {sentence}"


def test_verdict_of_one_node_with_zero_states_is_zero_collapse():
    assert report(row(1, shape=(1, 8), possible_rank=1, state="zero collapse")).verdict.startswith("zero collapse from")


def test_json_is_standard_and_comes_back():
    original = CollapseReport(
        (row(1, output_gradient=math.inf, parameter_gradient=0.5), row(2, name="inf", rank_one_distance=math.nan)),
        "GCN",
        3,
        math.nan,
        "cross entropy",
    )
    text = original.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    back = CollapseReport.from_json(text)
    assert back.to_json() == text
    assert back.rows[0] == original.rows[0]
    assert back.rows[1].name == "inf"
    assert math.isnan(back.rows[1].rank_one_distance)
    assert math.isnan(back.loss)
    assert CollapseReport.from_json(gradients(1.0, None).to_json()) == gradients(1.0, None)


def test_dicts_and_frozen():
    subject = gradients(1.0, 2.0)
    assert [line["output_gradient"] for line in subject.to_dicts()] == [1.0, 2.0]
    with pytest.raises(FrozenInstanceError):
        subject.loss = 1.0


def test_text_has_a_line_per_layer_and_says_the_thresholds():
    lines = str(replace(gradients(1e-9, 1.0), num_graphs=7, loss=0.25, loss_name="cross entropy")).splitlines()
    assert lines[0] == "GCN: 2 layers, means over 7 graphs; cross entropy 0.25"
    assert lines[1].split()[:2] == ["layer", "name"]
    assert "convs.0" in lines[2]
    assert "1e-09" in lines[2]
    assert lines[4] == "verdict: gradients vanish before layer 2 (convs.1)"
    assert "0.01" in lines[5]
    assert "1e-06" in lines[5]
    assert "output gradient" not in str(report(row(1))).splitlines()[1]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_rich_table_fits_the_terminal(width):
    console = Console(file=io.StringIO(), width=width)
    console.print(gradients(0.5, 0.25, 1.0))
    text = console.file.getvalue()
    assert "…" not in text
    assert all(name in text for name in ("convs.0", "convs.2", "0.25", "verdict: healthy"))
    assert ("GCNConv" in text) == (width >= 200)


def test_plot_draws_every_panel(tmp_path):
    subject = gradients(0.5, 0.25, 1.0)
    for case in (subject, report(row(1)), report(row(1, rank_one_distance=math.nan, frobenius_norm=0.0)), report()):
        figure = case.plot()
        assert len(figure.axes) == 4
        figure.savefig(tmp_path / "figure.png")
    (gradient_line, _) = subject.plot().axes[3].lines
    assert list(gradient_line.get_ydata()) == [0.5, 0.25, 1.0]
    assert list(gradient_line.get_xdata()) == [1, 2, 3]

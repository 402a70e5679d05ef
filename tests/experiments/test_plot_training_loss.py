from graphprism.experiments import TRAINING_LOSS, Settings, plot_training_loss
from graphprism.experiments.plan import plan
from graphprism.experiments.table import make_table
from tests.experiments.results_zoo import make_result


def draw(losses, seeds):
    settings = Settings(seeds=seeds)
    cells = plan(TRAINING_LOSS, settings)
    results = {}
    for cell in cells:
        for run, loss in zip(cell.configurations[0], losses.get(cell.spec.row, []), strict=False):
            results[run.key] = make_result(run, loss=loss)
    (axes,) = plot_training_loss(make_table(TRAINING_LOSS, settings, cells, results), results).axes
    return axes


def test_mean_and_deviation_of_the_runs():
    axes = draw({"GCN": [(0.4, 0.2, 0.1), (0.8, 0.4, 0.1)], "MRS-GCN": [(0.2, 0.1, 0.05)] * 2}, seeds=2)
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines) == ["GCN", "MRS-GCN"]
    assert [round(y, 9) for y in lines["GCN"].get_ydata()] == [0.6, 0.3, 0.1]
    assert list(lines["GCN"].get_xdata()) == [1, 2, 3]
    assert lines["GCN"].get_color() == lines["MRS-GCN"].get_color()
    assert lines["GCN"].get_linestyle() != lines["MRS-GCN"].get_linestyle()
    assert axes.get_yscale() == "log"
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert abs(heights.max() - (0.6 + 0.08**0.5)) < 1e-9
    assert heights.min() > 0


def test_one_seed_has_no_band_and_none_no_curve():
    axes = draw({"GCN": [(0.4, 0.2, 0.1)]}, seeds=1)
    assert len(axes.lines) == 1
    assert len(axes.collections) == 0
    assert len(draw({}, seeds=1).lines) == 0


def test_runs_of_unequal_length_and_gaps():
    axes = draw({"GCN": [(0.4, None, 0.1), (0.2, 0.2)]}, seeds=2)
    assert [round(y, 9) for y in axes.lines[0].get_ydata()] == [0.3, 0.2, 0.1]

import csv
import math
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

from graphprism.analysis.collapse import CollapseMonitor, collapse


def setting():
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    data = Data(x=torch.randn(4, 3), edge_index=edges, y=torch.tensor([0, 1, 0, 1]))
    return GCN(3, 4, num_layers=2, out_channels=2), data


def read(path):
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_measures_every_n_steps():
    model, data = setting()
    monitor = CollapseMonitor(every=3)
    reports = [monitor.step(model, data) for _ in range(7)]
    assert [report is not None for report in reports] == [True, False, False, True, False, False, True]
    assert [step for step, _ in monitor.history] == [0, 3, 6]
    assert monitor.history[0][1] == collapse(model, data)
    with pytest.raises(ValueError, match="`every` must be at least 1"):
        CollapseMonitor(every=0)


def test_training_is_not_changed():
    results = []
    for every in (1, 10**6):
        model, data = setting()
        model.dropout = torch.nn.Dropout(0.5)
        monitor, optimiser = CollapseMonitor(every=every), torch.optim.Adam(model.parameters())
        for _ in range(5):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(data.x, data.edge_index), data.y).backward()
            optimiser.step()
            monitor.step(model, data)
        results.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*results)


def test_own_measure():
    model, data = setting()
    monitor = CollapseMonitor(measure=partial(collapse, layers=["convs.1"]))
    assert [row.name for row in monitor.step(model, data).rows] == ["convs.1"]


def test_csv_holds_every_number_exactly(tmp_path):
    model, data = setting()
    monitor = CollapseMonitor(every=2, csv=tmp_path / "deep" / "collapse.csv")
    for _ in range(4):
        monitor.step(model, data)
    _, report = monitor.history[-1]
    lines = read(tmp_path / "deep" / "collapse.csv")
    assert [(line["step"], line["name"]) for line in lines] == [(s, n) for s in "02" for n in ("convs.0", "convs.1")]
    for line, row in zip(lines[2:], report.rows, strict=True):
        assert (int(line["nodes"]), int(line["channels"])) == row.shape
        assert float(line["rank_one_distance"]) == row.rank_one_distance
        assert float(line["output_gradient"]) == row.output_gradient
        assert float(line["loss"]) == report.loss
        assert line["state"] == "ok"
    assert list((tmp_path / "deep").iterdir()) == [tmp_path / "deep" / "collapse.csv"]


def test_csv_is_continued_on_resume(tmp_path):
    model, data = setting()
    path = tmp_path / "collapse.csv"
    first = CollapseMonitor(every=1, csv=path)
    for _ in range(5):
        first.step(model, data)
    state = {"step": 3}
    with path.open("a") as file:
        file.write("2,0.1,4")  # the run was killed while writing
    second = CollapseMonitor(every=1, csv=path)
    second.load_state_dict(state)
    second.step(model, data)
    assert [line["step"] for line in read(path)] == [s for s in "0123" for _ in range(2)]
    assert second.state_dict() == {"step": 4}
    third = CollapseMonitor(every=4, csv=path, first_step=2)
    for _ in range(3):
        third.step(model, data)
    assert [line["step"] for line in read(path)] == [s for s in "014" for _ in range(2)]


def test_loading_a_state_forgets_what_came_later(tmp_path):
    model, data = setting()
    monitor = CollapseMonitor(every=1, csv=tmp_path / "c.csv")
    for _ in range(4):
        monitor.step(model, data)
    monitor.load_state_dict({"step": 2})
    monitor.step(model, data)
    assert [step for step, _ in monitor.history] == [0, 1, 2]
    assert [line["step"] for line in read(tmp_path / "c.csv")] == [s for s in "012" for _ in range(2)]


def test_the_file_of_another_run_is_not_overwritten(tmp_path):
    model, data = setting()
    path = tmp_path / "collapse.csv"
    CollapseMonitor(csv=path).step(model, data)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="`csv` must be new for a run from step 0"):
        CollapseMonitor(csv=path).step(model, data)
    assert path.read_bytes() == before
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="`csv` must be a file of a CollapseMonitor"):
        CollapseMonitor(csv=path, first_step=100).step(model, data)
    assert path.read_text() == "a,b\n1,2\n"
    path.write_text("")
    CollapseMonitor(csv=path).step(model, data)
    assert len(read(path)) == 2


class Writer:
    def __init__(self):
        self.scalars = {}

    def add_scalar(self, tag, value, step):
        self.scalars[tag, step] = value


def test_scalars():
    model, data = setting()
    writer = Writer()
    monitor = CollapseMonitor(tensorboard=writer)
    data.y = None
    report = monitor.step(model, data)
    assert writer.scalars["rank_one_distance/001 convs.0", 0] == report.rows[0].rank_one_distance
    assert not any(tag.startswith("output_gradient") for tag, _ in writer.scalars)
    data.x = torch.zeros_like(data.x)
    monitor.every = 1
    assert math.isnan(monitor.step(model, data).rows[0].rank_one_distance)
    assert all(math.isfinite(value) for value in writer.scalars.values())


def test_tensorboard_is_asked_for_by_name(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(ImportError, match=r'needs tensorboard: pip install "graphprism\[full\]"'):
        CollapseMonitor(tensorboard=tmp_path)


def test_tensorboard_writes_event_files(tmp_path):
    pytest.importorskip("tensorboard")
    model, data = setting()
    monitor = CollapseMonitor(tensorboard=tmp_path)
    monitor.step(model, data)
    assert list(tmp_path.glob("events.out.tfevents.*"))

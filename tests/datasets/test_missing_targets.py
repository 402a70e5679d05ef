"""Several targets of a row, some of them missing: kept as NaN, in memory, in tables and in packed files."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphprism.datasets import describe, from_data, from_files, molecules, read, save
from graphprism.datasets.folds import strata_of
from graphprism.datasets.targets import encode_target

NAN = float("nan")
Y = torch.tensor([[0, 1, NAN], [1, NAN, NAN], [NAN, NAN, NAN], [0, 0, NAN], [1, 1, NAN], [NAN, 0, NAN]])


def same(found, wanted):
    assert torch.equal(found.isnan(), wanted.isnan())
    assert torch.equal(found.nan_to_num(), wanted.nan_to_num())


def graphs(y):
    edges = torch.tensor([[0, 1], [1, 0]])
    return [Data(x=torch.full((2, 1), float(number)), edge_index=edges, y=row[None]) for number, row in enumerate(y)]


def test_graphs_with_some_targets_are_kept():
    with pytest.warns(UserWarning, match="2 of 12 graphs are left out: `y` is missing there"):
        dataset = from_data(graphs(Y.repeat(2, 1)), shares=(0.6, 0.2, 0.2))
    assert (dataset.task, dataset.metric, dataset.num_outputs, len(dataset)) == ("multilabel", "ap", 3, 10)
    kept = dataset.x.view(-1)[::2].long()  # numbers of the graphs
    same(dataset.y, Y.repeat(2, 1)[kept])
    assert dataset.y.dtype == torch.float32


def test_nodes_with_some_targets_are_in_a_fold():
    here = torch.arange(12)
    edges = torch.stack([torch.cat([here, (here + 1) % 12]), torch.cat([(here + 1) % 12, here])])
    graph = Data(x=torch.ones(12, 1), edge_index=edges, y=Y.repeat(2, 1))
    dataset = from_data(graph, shares=(0.6, 0.2, 0.2))
    in_fold = torch.stack([dataset.train_mask, dataset.val_mask, dataset.test_mask]).any(0).view(-1)
    assert torch.equal(in_fold, ~graph.y.isnan().all(1))
    same(dataset.y[in_fold], graph.y[in_fold])
    assert not dataset.y[~in_fold].any()


def test_packed_file_keeps_missing_targets(tmp_path):
    rows = Y[[0, 1, 3, 4, 5]].repeat(2, 1)
    dataset = from_data(graphs(rows))
    save(dataset, tmp_path / "set.npz")
    same(read(tmp_path / "set.npz").y, dataset.y)
    labels = "Target: 3 labels, each on 0 % to 50 % of the graphs where it is known; 47 % of the targets are missing."
    assert labels in describe(dataset)


def test_packed_file_refuses_a_row_without_a_target(tmp_path):
    dataset = replace(molecules(12), y=torch.zeros(12, 2))
    for y, words in (
        (torch.full((1, 2), NAN), "`y` must have a target in every row, got none in row 3"),
        (torch.tensor([[NAN, torch.inf]]), "`y` must hold finite numbers, got 1 NaN or infinite"),
    ):
        bad = replace(dataset, y=torch.cat([dataset.y[:3], y, dataset.y[4:]]))
        with pytest.raises(ValueError, match=words):
            save(bad, tmp_path / "set.npz")
    bad = replace(dataset, task="multilabel", y=torch.tensor([[NAN, 2.0]]).repeat(12, 1))
    with pytest.raises(ValueError, match=r"`y` must hold numbers in \[0, 2\), got 2"):
        save(bad, tmp_path / "set.npz")


def test_tables_with_empty_cells(tmp_path):
    (tmp_path / "edges.csv").write_text("graph_id,source,target\n" + "".join(f"{g},{g}a,{g}b\n" for g in range(6)))
    nodes = "".join(f"{g}{end},{g},{g}\n" for g in range(6) for end in "ab")
    (tmp_path / "nodes.csv").write_text("id,graph_id,size\n" + nodes)
    cells = [",".join("" if np.isnan(each) else f"{each:.0f}" for each in row) for row in Y.tolist()]
    rows = "".join(f"{graph},{row}\n" for graph, row in enumerate(cells))
    (tmp_path / "graphs.csv").write_text("graph_id,toxic,bitter,rare\n" + rows)
    dataset = from_files(tmp_path, ["toxic", "bitter", "rare"], shares=(0.6, 0.2, 0.2))
    assert dataset.task == "multilabel"
    same(dataset.y, Y[[0, 1, 3, 4, 5]])
    assert "1 graph without a target left out." in describe(dataset)


def test_description_of_numbers_skips_missing_ones():
    rows = torch.stack([torch.arange(10.0), torch.arange(10.0)], 1)
    rows[::2, 1] = NAN
    (line,) = [line for line in describe(from_data(graphs(rows + 0.5))) if line.startswith("Target")]
    assert line == "Target: 0.5 to 9.5, mean 5.167, deviation 2.968; 25 % of the targets are missing."


def test_a_number_needs_two_values_in_every_column():
    here = np.arange(4) + 0.5
    with pytest.raises(ValueError, match="column 1 of `y` must have at least two values, got none"):
        encode_target([here, np.full(4, np.nan)], None, "`y`")
    with pytest.raises(ValueError, match=r"column 0 of `y` must have at least two values, got '2.5' in all 1 rows"):
        encode_target([np.where(here == 2.5, here, np.nan), here], None, "`y`")


def test_one_target_is_missing_as_before():
    found = encode_target([np.array([0.5, np.nan, 2.5])], "regression", "`y`")
    assert found.y.tolist() == [[0.5], [0], [2.5]]
    assert found.known.tolist() == [True, False, True]


def test_rows_that_miss_the_same_labels_are_one_stratum():
    y = np.array([[0, np.nan]] * 3 + [[0, 1]] * 3 + [[np.nan, 1]] * 3)
    assert strata_of(y, "multilabel").tolist() == [1] * 3 + [0] * 3 + [2] * 3

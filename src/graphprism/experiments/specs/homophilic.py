"""The table on citation graphs, whose neighbours are alike."""

from __future__ import annotations

from dataclasses import replace

from graphprism.experiments.specs.node_trainers import train_one_on_nodes
from graphprism.experiments.table_spec import CellSpec, TableSpec
from graphprism.results import Score
from graphprism.training import NodeRun, train_nodes

_GRID = {
    "lr": (0.03, 0.01, 0.003),
    "dropout": (0.0, 0.2, 0.4, 0.6, 0.8),
    "layers": (1, 2, 4, 8, 16, 32),
}
_GCN = NodeRun(
    "cora", "gcn", width=64, jk=None, normalize=False, share_init=False, self_loops=True, patience=200, epochs=1000
)
_COLUMNS = (("Cora", "cora"), ("CiteSeer", "citeseer"), ("PubMed", "pubmed"))
# Row, model, and for each column the published mean, its deviation, the learning rate, dropout and layers.
_ROWS = (
    ("GCN", "gcn", ((81.1, 0.9, 0.01, 0.0, 2), (66.6, 1.0, 0.03, 0.6, 2), (75.5, 1.2, 0.01, 0.6, 4))),
    ("MRS-GCN", "mrs-gcn", ((80.0, 1.2, 0.03, 0.6, 2), (62.8, 1.7, 0.03, 0.4, 2), (76.2, 0.7, 0.01, 0.4, 4))),
)


def _cells() -> tuple[CellSpec, ...]:
    cells = []
    for row, model, numbers in _ROWS:
        for (column, dataset), (mean, deviation, lr, dropout, layers) in zip(_COLUMNS, numbers, strict=True):
            run = replace(_GCN, dataset=dataset, model=model, lr=lr, dropout=dropout, layers=layers)
            run = replace(run, share_init=model != "gcn")
            cells.append(CellSpec(row, column, Score(mean, deviation), run, _GRID))
    return tuple(cells)


HOMOPHILIC = TableSpec(
    name="homophilic",
    title="Node classification on homophilic graphs",
    source="tab:homo (appendix), hyper-parameters of tab:homo_hyper",
    cells=_cells(),
    unit="accuracy in percent",
    larger_is_better=True,
    digits=1,
    seeds=10,
    notes=(
        "The public split, with ten seeds. The paper does not give the width, the normalisation or the number of runs: "
        "these have 64 channels, self-loops, features that add up to one, and stop after 200 epochs without a better "
        "validation accuracy.",
        "All relations of MRS-GCN start from the same weights, which the text does not say and the directed runs of "
        "the authors do. Validation chose it: 78.3 against 76.6 percent on Cora, 65.7 against 60.4 on CiteSeer "
        "(four and three seeds); without it the test scores on ten seeds are 75.0, 56.4 and 76.4.",
        "On Cora MRS-GCN stays below the paper, and GCN is above it on CiteSeer and PubMed: some of the protocol is "
        "unknown. Tried besides, at the published rates, dropout and layers, test scores of MRS-GCN on Cora and "
        "CiteSeer: features as they are 78.4 and 64.2 (ten seeds), dropout of the features too 78.7 and 63.0, "
        "weight decay of 0.0005 78.6 and 66.5 (but GCN 71.8 on CiteSeer), jumping knowledge by cat 78.4 and 64.6, "
        "linear maps before and after 78.0 and 60.8 (three seeds each).",
    ),
    train=train_one_on_nodes,
    train_many=train_nodes,
)

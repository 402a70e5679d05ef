"""128 layers of GCN and of MRS-GCN on the same molecules: one signal is left, or many are.

Every layer has fresh random weights, 16 channels and ReLU, as in Figure 2 of the paper. The rank-one distance of a
molecule is 0 when all its atoms carry multiples of one signal.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv

from graphprism.analysis.collapse import rank_one_distance
from graphprism.nn import MRSGCNConv
from graphprism.ops import RelationalAdj
from graphprism.testing import molecules
from graphprism.transforms import SplitEdges

NUM_MOLECULES, NUM_LAYERS, CHANNELS, SEEDS = 50, 128, 16, 5
MEASURED = sorted({*range(1, 17), *range(16, NUM_LAYERS + 1, 4)})
SHOWN = (1, 2, 4, 8, 16, 32, 64, 128)
PICTURE = Path("demo.png")


def distances(data: Data, name: str, seed: int) -> Tensor:
    """Mean rank-one distance over the molecules at the depths of `MEASURED`."""
    torch.manual_seed(seed)
    adj = RelationalAdj(data.edge_index, data.edge_type, num_relations=3, num_nodes=data.num_nodes)
    x = torch.nn.Linear(28, CHANNELS)(torch.nn.functional.one_hot(data.x.view(-1), 28).double())
    found = []
    for depth in range(1, NUM_LAYERS + 1):
        if name == "GCN":
            x = GCNConv(CHANNELS, CHANNELS, add_self_loops=False)(x, data.edge_index)
        else:
            x = MRSGCNConv(CHANNELS, CHANNELS, num_relations=3, start="independent")(x, adj)
        x = x.relu()
        x = x / x.norm()  # the distance does not depend on scale, and this keeps the numbers in range
        if depth in MEASURED:
            found.append(rank_one_distance(x, data.batch).nanmean())
    return torch.stack(found)


@torch.no_grad()
def main() -> None:
    """Runs both networks, prints the table and saves the picture."""
    torch.set_num_threads(1)  # matrices this small only wait for a second thread
    torch.set_default_dtype(torch.float64)  # in float32 rounding would keep the distance above 1e-6
    console, start = Console(), time.perf_counter()
    graphs = [Data(graph.x, graph.edge_index) for graph in molecules(NUM_MOLECULES)]
    data = Batch.from_data_list([SplitEdges("degree")(graph) for graph in graphs])
    names = ("GCN", "MRS-GCN")
    runs = [(name, seed) for name in names for seed in range(SEEDS)]
    curves: dict[str, list[Tensor]] = {name: [] for name in names}
    for name, seed in track(runs, description="128 layers", console=console, transient=True):
        curves[name].append(distances(data, name, seed))

    console.print(f"Rank-one distance by depth, mean over {NUM_MOLECULES} molecules and {SEEDS} seeds; split by degree")
    table = Table("layers")
    for name in names:
        table.add_column(name, justify="right")
    for depth in SHOWN:
        table.add_row(
            str(depth), *(f"{torch.stack(curves[name]).mean(0)[MEASURED.index(depth)]:.2g}" for name in names)
        )
    console.print(table)
    plot({name: torch.stack(curve) for name, curve in curves.items()})
    console.print(
        f"0 means one signal in all channels. The picture is in {PICTURE} ({time.perf_counter() - start:.0f} s)."
    )


def plot(curves: dict[str, Tensor]) -> None:
    """Draws mean and range over the seeds on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for (name, curve), colour in zip(curves.items(), ("#481567", "#29af7f"), strict=True):
        axes.plot(MEASURED, curve.mean(0), color=colour, linewidth=2, label=name)
        axes.fill_between(MEASURED, curve.amin(0), curve.amax(0), color=colour, alpha=0.2, linewidth=0)
    axes.set(yscale="log", xlim=(1, NUM_LAYERS), xlabel="layer", ylabel="rank-one distance")
    axes.set_title("GCN keeps one signal, MRS-GCN keeps many", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    main()

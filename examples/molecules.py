"""Molecules: a plain and a split network learn the same target, at equal parameters.

4,000 molecules are generated, with a target of rings, branching and atoms two bonds apart. GCN and MRS-GCN get the same
budget of parameters, so that three matrices per layer cost MRS-GCN width. One seed each: `make demo` trains three.
"""

# %%
# A run is data: everything that decides its outcome, and nothing else. Relations start apart, as in the paper on ZINC.
from pathlib import Path

import torch

from graphprism.datasets import molecules
from graphprism.plotting import COLOURS, new_figure, save_figure
from graphprism.training import Run, train

torch.set_num_threads(1)  # more threads do not pay for 64 molecules
data = molecules(4000)
runs = [
    Run("molecules", model, layers=6, budget=40_000, start="independent", lr=0.002, warmup=0, batch_size=64, epochs=7)
    for model in ("gcn", "mrs-gcn")
]
results = [train(run, data, accelerator="cpu") for run in runs]

# %%
# The test score is that of the epoch with the best validation score.
print(f"{'model':10}{'width':>7}{'parameters':>12}{'validation MAE':>16}{'test MAE':>10}")
for run, result in zip(runs, results, strict=True):
    scores = f"{result.at_best('val'):16.3f}{result.at_best('test'):10.3f}"
    print(f"{run.model:10}{result.width:7}{result.parameters:12,}{scores}")

# %%
# The curves: validation error by epoch.
figure = new_figure(6.5, 4)
axes = figure.subplots()
for run, result in zip(runs, results, strict=True):
    colour, style = (COLOURS[3], "--") if run.model == "gcn" else (COLOURS[0], "-")
    curve = result.history["val"]
    axes.plot(range(1, len(curve) + 1), curve, style, color=colour, linewidth=2, label=run.model.upper())
axes.set(xlabel="epoch", ylabel="mean absolute error, validation", ylim=(0, None))
axes.set_title("3,334 molecules for training, 6 layers, at most 40,000 parameters", loc="left", fontsize=11)
axes.grid(alpha=0.25)
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
path = Path("outputs/gallery/molecules.svg")
save_figure(figure, path)
print(path)

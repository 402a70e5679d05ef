"""Your own CSV: from two tables to predictions for new rows, in four calls.

`from_files` reads tables of nodes and edges and says what it understood; `train` trains and keeps a checkpoint that
carries the preprocessing; `gp.load` gives a predictor that needs the new files and nothing else. The same four steps
are commands of the shell: `graphprism data import`, `train`, `predict`.
"""

# %%
# Tables as people have them: ids, numbers, categories, a gap. Customers of a shop, and who recommended it to whom.
import random
from pathlib import Path

import graphprism as gp
from graphprism.datasets import describe, from_files
from graphprism.training import Run, train

random.seed(0)
folder = Path("outputs/gallery/own_csv")
(folder / "shop").mkdir(parents=True, exist_ok=True)
(folder / "new").mkdir(exist_ok=True)
people = [
    (f"c{number}", random.choice(["north", "south"]), random.randint(18, 80), random.randint(0, 30))
    for number in range(330)
]
old, new = people[:300], people[300:]


def table(path, head, rows):
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")


def friends(group):
    """Customers of one region who recommended the shop to each other."""
    return [(a[0], b[0]) for a in group for b in random.sample(people[:300], 8) if a[1] == b[1] and a is not b]


# Whoever buys much, or is young and from the north, comes back; one in ten does what nobody expects.
stays = [(person[3] > 15 or (person[2] < 40 and person[1] == "north")) ^ (random.random() < 0.1) for person in people]
rows = [(*person[:3], "" if random.random() < 0.05 else person[3]) for person in people]
answers = ["yes" if each else "no" for each in stays]
columns = "id,region,age,purchases"
table(folder / "shop/nodes.csv", f"{columns},returns", [(*row, y) for row, y in zip(rows[:300], answers, strict=False)])
table(folder / "shop/edges.csv", "source,target", friends(old))
table(folder / "new/nodes.csv", columns, rows[300:])
table(folder / "new/edges.csv", "source,target", friends(new))

# %%
# Read, and see what was understood: filled in, left out or drawn.
data = from_files(folder / "shop", "returns", name="shop")
print(*describe(data), sep="\n")

# %%
# Train on the whole graph, with early stopping by validation.
run = Run("shop", "mrs-sage", layers=2, width=16, batch_size=None, epochs=150, patience=50, optimizer="adam", lr=0.01,
          schedule="constant", warmup=0, clip=0.0)  # fmt: skip
result = train(run, data, folder=folder / "runs", accelerator="cpu")
print(f"AUROC: validation {result.at_best('val'):.3f}, test {result.at_best('test'):.3f}")

# %%
# Predict rows that came later, whose edges end at customers that are known.
predictions = gp.load(folder / "runs").predict(folder / "new", graph=folder / "shop")
path = folder / "predictions.csv"
predictions.write_csv(path)
found = {line.split(",")[0]: line.split(",")[1] for line in path.read_text().splitlines()[1:]}
right = sum(found[person[0]] == answer for person, answer in zip(new, answers[300:], strict=True))
print(f"{right} of {len(found)} new customers as predicted; the first lines of {path}:")
print(*path.read_text().splitlines()[:5], sep="\n")
print(path)

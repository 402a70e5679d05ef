"""From a CSV folder to a prediction file: writes Cora as tables, with some papers held back, and runs five commands.

    python benchmarks/own_data.py FOLDER [FOLDER OF DATA SETS]

The transcript is docs/own-data.md. The last line compares the predictions with the topics of the papers held back.
"""

import csv
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

TOPICS = ("Theory", "Reinforcement_Learning", "Genetic_Algorithms", "Neural_Networks", "Probabilistic_Methods")
TOPICS = (*TOPICS, "Case_Based", "Rule_Learning")
HELD_BACK = 200
COMMANDS = (
    "graphprism data import cora --target topic",
    "graphprism estimate --dataset cora --model gcn,mrs-gcn",
    "graphprism train --dataset cora --model gcn,mrs-gcn --seeds 0..2 --save run.toml",
    "graphprism tune run.toml --model gcn --vary lr=1e-3..1e-1 --vary 'dropout=0.2|0.5|0.8' --trials 12 --epochs 200",
    "graphprism predict outputs --input new-papers --graph cora -o predictions.csv",
)


def write_tables(source: Path, folder: Path) -> dict[str, str]:
    """Writes ``cora`` and ``new-papers``; returns the topics of the new papers."""
    arrays = np.load(source, allow_pickle=False)
    count = len(arrays["x"])
    new = set(np.random.default_rng(0).choice(count, HELD_BACK, replace=False).tolist())
    words = [f"word{number}" for number in range(arrays["x"].shape[1])]
    for name, papers in (("cora", [n for n in range(count) if n not in new]), ("new-papers", sorted(new))):
        (folder / name).mkdir(parents=True, exist_ok=True)
        with (folder / name / "papers.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["paper", *words, *(["topic"] if name == "cora" else [])])
            for number in papers:
                topic = [TOPICS[arrays["y"][number]]] if name == "cora" else []
                writer.writerow([f"paper-{number}", *arrays["x"][number], *topic])
        with (folder / name / "citations.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["citing", "cited"])
            for a, b in arrays["edge_index"].T.tolist():
                if a < b and ({a, b} & new != set()) == (name == "new-papers"):
                    writer.writerow([f"paper-{a}", f"paper-{b}"])
    return {f"paper-{number}": TOPICS[arrays["y"][number]] for number in new}


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    data = Path(sys.argv[2] if len(sys.argv) > 2 else os.environ["GRAPHPRISM_DATA"])
    topics = write_tables(data / "cora.npz", folder)
    environment = {**os.environ, "GRAPHPRISM_DATA": str(folder / "sets"), "COLUMNS": "110"}
    for command in COMMANDS:
        print(f"$ {command}", flush=True)
        words = [sys.executable, "-m", *shlex.split(command)]
        subprocess.run(words, cwd=folder, env=environment, check=True, stderr=subprocess.DEVNULL)
    with (folder / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    right = sum(topics[row["paper"]] == row["prediction"] for row in rows)
    print(f"{right} of {len(rows)} new papers have the topic that was predicted.")


if __name__ == "__main__":
    main()

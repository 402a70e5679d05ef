"""PyG's deep example gcn2_cora.py (GCNII), as it is and converted by `to_mrs`, seed by seed.

    PYTHONPATH=src python benchmarks/bench_converted.py --data FOLDER --out benchmarks/results/DATE-converted.json

Widths, dropout, both weight decays, epochs and the optimiser line are those of the example; its self-loops and norm are
computed before training, and edges are split by degree with them. A pair begins with the same weights, which a shared
start makes the same function, and gets the same dropout masks; the losses of the first step must agree. A test score is
that of the best validation epoch. Intervals are of the mean of paired differences, 95 %.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
import torch_geometric.transforms as T
from bench_never_worse import STUDENT, interval
from measure import about, save
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.data import Data
from torch_geometric.nn import GCN2Conv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from graphprism import SplitEdges, to_mrs
from graphprism.datasets import load


class GCNII(torch.nn.Module):
    """The network of the example."""

    def __init__(self, in_channels: int, hidden: int, out_channels: int, layers: int) -> None:
        super().__init__()
        self.lins = torch.nn.ModuleList([torch.nn.Linear(in_channels, hidden), torch.nn.Linear(hidden, out_channels)])
        self.convs = torch.nn.ModuleList(
            GCN2Conv(hidden, alpha=0.1, theta=0.5, layer=number + 1, normalize=False) for number in range(layers)
        )

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        """Logits of all nodes."""
        x = x_0 = self.lins[0](dropout(x, 0.6, self.training)).relu()
        for conv in self.convs:
            x = conv(dropout(x, 0.6, self.training), x_0, edge_index, edge_weight).relu()
        out: Tensor = self.lins[1](dropout(x, 0.6, self.training))
        return out


def graph(name: str, folder: str) -> Data:
    """Row-normalised features, edges with self-loops, their norm and their relations by degree."""
    data = T.NormalizeFeatures()(load(name, root=folder).graph(0))
    data = SplitEdges("degree")(T.AddSelfLoops()(data))
    data.y = data.y.view(-1)
    data.edge_weight = gcn_norm(data.edge_index, None, data.num_nodes, add_self_loops=False)[1]
    return data


def train(data: Data, layers: int, seed: int, epochs: int, converted: bool) -> dict[str, float]:
    """Test score at the best validation epoch, the loss of the first step, and seconds."""
    torch.manual_seed(seed)
    plain = model = GCNII(data.num_features, 64, int(data.y.max()) + 1, layers)
    given: dict[str, Tensor] = {}
    call = data.x, data.edge_index, data.edge_weight
    if converted:
        model, given = to_mrs(plain, "degree", example=call), {"edge_type": data.edge_type}
        plain = model.model
    groups = [
        {"params": plain.convs.parameters(), "weight_decay": 0.01},
        {"params": plain.lins.parameters(), "weight_decay": 5e-4},
    ]
    optimizer = torch.optim.Adam(groups, lr=0.01)
    masks = [mask.view(data.num_nodes, -1)[:, 0].bool() for mask in (data.train_mask, data.val_mask, data.test_mask)]
    found: dict[str, float] = {"validation": -1.0, "parameters": sum(each.numel() for each in model.parameters())}
    begin = time.process_time()
    torch.manual_seed(seed)
    for epoch in range(epochs):
        model.train()
        optimizer.zero_grad()
        loss = cross_entropy(model(*call, **given)[masks[0]], data.y[masks[0]])
        loss.backward()
        optimizer.step()
        if epoch == 0:
            found["first loss"] = loss.item()
        model.eval()
        with torch.no_grad():
            right = model(*call, **given).argmax(dim=-1) == data.y
        _, val, test = (100 * right[mask].double().mean().item() for mask in masks)
        if val > found["validation"]:
            found |= {"validation": val, "test": test}
    return found | {"seconds": time.process_time() - begin}


def cell(data: Data, name: str, layers: int, seeds: int, epochs: int) -> dict[str, Any]:
    """Both networks with all seeds, and their difference."""
    pairs = []
    for seed in range(seeds):
        plain, split = (train(data, layers, seed, epochs, converted) for converted in (False, True))
        if abs(plain["first loss"] - split["first loss"]) > 1e-4 * plain["first loss"]:
            raise SystemExit(f"first losses must agree, got {plain['first loss']} and {split['first loss']}")
        pairs.append((plain, split))
        print(f"{name}, {layers} layers, seed {seed}: {plain['test']:.1f} and {split['test']:.1f}", flush=True)
    mean, half = interval([split["test"] - plain["test"] for plain, split in pairs])
    return {
        **{"dataset": name, "layers": layers, "epochs": epochs},
        **{"plain": [plain for plain, _ in pairs], "split": [split for _, split in pairs]},
        **{"difference": round(mean, 3), "interval": [round(mean - half, 3), round(mean + half, 3)]},
    }


def main() -> None:
    """Runs the cells and stores them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with cora.npz, citeseer.npz, pubmed.npz")
    parser.add_argument("--sets", default="cora")
    parser.add_argument("--layers", default="8,32")
    parser.add_argument("--seeds", type=int, default=10, choices=[number + 1 for number in STUDENT])
    parser.add_argument("--epochs", type=int, default=1000, help="the example has 1000")
    parser.add_argument("--out", required=True, help="a JSON file, written anew after every cell")
    options = parser.parse_args()
    done = []
    for layers in options.layers.split(","):
        for name in options.sets.split(","):
            done.append(cell(graph(name, options.data), name, int(layers), options.seeds, options.epochs))
            print(f"{name}, {layers} layers: {done[-1]['difference']:+.2f} {done[-1]['interval']}", flush=True)
            save(Path(options.out), {"about": about(torch.device("cpu")), "cells": done})


if __name__ == "__main__":
    main()

"""A small graph whose classes can be learnt, with three splits, and runs on it."""

from dataclasses import replace

import torch

from graphprism.datasets import PackedDataset
from graphprism.datasets.from_data import with_links
from graphprism.training import Run

# Written out, so that no rule of the package decides what is tested.
_FORMS = ("", "mrs-", "dir-", "mrs-dir-")
NODE_MODELS = ("mlp", *(f"{form}{layer}" for form in _FORMS for layer in ("gcn", "sage", "gat")))


def small_set(num_nodes=48, seed=0) -> PackedDataset:
    """Three classes that features hint at; nodes of a class point to each other more often than to others."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(num_nodes) % 3
    x = torch.rand(num_nodes, 7, generator=generator) + 2 * torch.nn.functional.one_hot(y, 7)
    source = torch.randint(num_nodes, (4 * num_nodes,), generator=generator)
    other = torch.randint(num_nodes, (4 * num_nodes,), generator=generator)
    same = (other // 3 * 3 + y[source]).clamp(max=num_nodes - 1)
    target = torch.where(torch.rand(4 * num_nodes, generator=generator) < 0.7, same, other)
    part = torch.stack([torch.randperm(num_nodes, generator=generator) % 4 for _ in range(3)], dim=1)
    return PackedDataset(
        name="small",
        level="node",
        task="multiclass",
        metric="accuracy",
        x=x,
        edge_index=torch.stack([source, target]),
        y=y,
        node_ptr=torch.tensor([0, num_nodes]),
        edge_ptr=torch.tensor([0, source.numel()]),
        train_mask=part <= 1,
        val_mask=part == 2,
        test_mask=part == 3,
        directed=True,
    )


def small_links(num_nodes=48, seed=0) -> PackedDataset:
    """The edges of the small set as targets, a fifth of them held back."""
    graph = replace(small_set(num_nodes, seed), train_mask=None, val_mask=None, test_mask=None)
    return with_links(graph, None, (0.8, 0.1, 0.1), seed)


def sparse_set():
    """The small set with features of which one in a hundred is set, which the CPU keeps in CSR."""
    node = torch.arange(48)
    x = torch.zeros(48, 200)
    x[node, node % 3] = x[node, 3 + node] = 1.0
    return replace(small_set(), x=x)


def small_run(**options) -> Run:
    """A run of two layers by the protocol of the paper's tables on nodes."""
    protocol = {
        "model": "mrs-dir-gcn", "alpha": 1.0, "jk": "max", "normalize": True, "decay": 0.0, "row_normalise": True,
        "optimizer": "adam", "batch_size": None, "schedule": "constant", "warmup": 0, "clip": 0.0, "patience": 400,
        "dropout": 0.2,
    }  # fmt: skip
    small = {"dataset": "small", "layers": 2, "width": 8, "epochs": 12, "precision": "float64", "lr": 0.01}
    return Run(**{**protocol, **small, **options})


def numbers(result):
    """A history without the times, which differ from run to run."""
    return {name: column for name, column in result.history.items() if name != "seconds"}

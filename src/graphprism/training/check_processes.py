"""What several processes cannot do as one process does."""

from __future__ import annotations

from graphprism.datasets import PackedDataset
from graphprism.training.run import Run


def check_processes(run: Run, dataset: PackedDataset, count: int) -> None:
    """Raises where ``count`` processes would not compute what one does.

    Batch normalisation is computed over all of them; other normalisations of PyG take the nodes that they see for all
    there are. A process without a graph in some step can have no part in batch normalisation.
    """
    if count == 1:
        return
    if run.norm not in (None, "batch", "batch_norm", "BatchNorm"):
        raise ValueError(f'`norm` must be None or "batch" on {count} devices, got {run.norm!r}')
    graphs = dataset.subset("train").numel()
    smallest = min(run.batch_size, graphs, graphs % run.batch_size or run.batch_size)
    if (run.norm is not None or "gated" in run.model) and smallest < count:
        raise ValueError(
            f"`batch_size` must leave each of {count} devices a graph of every batch with batch normalisation, "
            f"got {run.batch_size} for {graphs} graphs, whose smallest batch has {smallest}"
        )

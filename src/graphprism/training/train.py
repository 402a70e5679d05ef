"""Trains one run on graphs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from graphprism.datasets import PackedDataset
from graphprism.results import RunResult
from graphprism.training.checkpoint import Checkpoint, RunFolder
from graphprism.training.eager import Engine
from graphprism.training.processes import check_processes, from_first, make_fabric
from graphprism.training.provenance import data_identity
from graphprism.training.run import Run
from graphprism.training.session import EpochReport, Session, untouched
from graphprism.training.task import check_metric, check_task

if TYPE_CHECKING:
    from lightning.fabric import Fabric


def train(
    run: Run,
    dataset: PackedDataset,
    *,
    folder: str | Path | None = None,
    accelerator: str = "auto",
    devices: int = 1,
    nodes: int = 1,
    on_epoch: Callable[[EpochReport], None] | None = None,
) -> RunResult:
    """Trains a run to its last epoch; one that was cut short goes on where its last checkpoint stands.

    Killed at any moment and called again it ends with the same bits as if nothing had happened. No random state and no
    setting of the caller is changed. On several devices each batch is divided among them, and the gradient is that of
    the whole batch.

    Args:
        run: What to train.
        dataset: Graphs with targets and splits.
        folder: Where to keep checkpoints, in a folder named by ``run.key``; None keeps none.
        accelerator: ``"cpu"``, ``"gpu"`` (of NVIDIA) or ``"auto"``, a GPU where there is one.
        devices: Devices of each machine; more than one means one process each.
        nodes: Machines; with more than one start the script by torchrun.
        on_epoch: Called after every epoch, in the first process only.

    Raises:
        Diverged: The loss was not a finite number.
        CheckpointError: What lies in the folder is damaged or belongs to another run or data set.
        OSError: The folder cannot be written.

    >>> from graphprism.datasets import molecules
    >>> result = train(Run(layers=2, width=8, epochs=3), molecules(60), accelerator="cpu")
    >>> result.status, len(result.history["val"])
    ('finished', 3)
    """
    check_task(dataset)
    check_metric(dataset.metric)
    check_processes(run, dataset, devices * nodes)
    fabric = make_fabric(run, accelerator, devices, nodes)
    with untouched(fabric.device), ExitStack() as at_end:
        keeper, checkpoint = _open(fabric, run, dataset, folder, at_end)
        session = Session(Engine(fabric, run, dataset), dataset, keeper, checkpoint)
        _run_all(session, on_epoch if fabric.is_global_zero else None)
        return session.result()


def _run_all(session: Session, on_epoch: Callable[[EpochReport], None] | None) -> None:
    try:
        while not session.is_finished:
            report = session.next_epoch()
            if on_epoch is not None:
                on_epoch(report)
    except OSError:
        raise
    except BaseException:
        # whatever ends the run, Ctrl-C or divergence: the last finished epoch is not lost
        if session.keeper is not None:
            session.keeper.flush()
        raise


def _open(
    fabric: Fabric, run: Run, dataset: PackedDataset, folder: str | Path | None, at_end: ExitStack
) -> tuple[RunFolder | None, Checkpoint | None]:
    """The folder, in the first process only, and what it holds, in all of them."""
    if folder is None:
        return None, None
    found: list[RunFolder] = []

    def open_and_load() -> Checkpoint | None:
        found.append(RunFolder(Path(folder), run, data_identity(dataset)))
        at_end.callback(found[0].close)
        return found[0].load()

    checkpoint = from_first(fabric, open_and_load)
    return (found[0] if found else None), checkpoint

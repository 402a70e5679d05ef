"""Runs, budgets and the engines that train them."""

from graphprism.training.build_model import build_model, fit_width, load_best, parameters_of
from graphprism.training.checkpoint import CheckpointError
from graphprism.training.optim import epoch_order
from graphprism.training.prepared_data import PreparedDataset
from graphprism.training.provenance import data_identity
from graphprism.training.run import Run
from graphprism.training.schedule import learning_rate
from graphprism.training.session import Diverged, EpochReport
from graphprism.training.task import METRICS, Metric, Task
from graphprism.training.train import forget, lockstep_key, train, train_lockstep

__all__ = [
    "METRICS",
    "CheckpointError",
    "Diverged",
    "EpochReport",
    "Metric",
    "PreparedDataset",
    "Run",
    "Task",
    "build_model",
    "data_identity",
    "epoch_order",
    "fit_width",
    "forget",
    "learning_rate",
    "load_best",
    "lockstep_key",
    "parameters_of",
    "train",
    "train_lockstep",
]

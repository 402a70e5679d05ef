"""Runs, budgets and the engines that train them."""

from graphprism.nn.models.fit_width import fit_width
from graphprism.training.build_model import build_model, load_best
from graphprism.training.captured_step import CapturedStep
from graphprism.training.checkpoint import CheckpointError
from graphprism.training.estimate import Estimate, estimate
from graphprism.training.predictor import Predictions, Predictor, load
from graphprism.training.processes import ProcessLost, mean_over_processes
from graphprism.training.provenance import data_identity
from graphprism.training.run import Run
from graphprism.training.session import Diverged, EpochReport
from graphprism.training.task import METRICS, Metric, Task
from graphprism.training.train import forget, train, train_lockstep

__all__ = [
    "METRICS",
    "CapturedStep",
    "CheckpointError",
    "Diverged",
    "EpochReport",
    "Estimate",
    "Metric",
    "Predictions",
    "Predictor",
    "ProcessLost",
    "Run",
    "Task",
    "build_model",
    "data_identity",
    "estimate",
    "fit_width",
    "forget",
    "load",
    "load_best",
    "mean_over_processes",
    "train",
    "train_lockstep",
]

"""Runs, budgets and the engines that train them."""

from graphprism.training.build_model import build_model, fit_width, load_best, parameters_of
from graphprism.training.checkpoint import CheckpointError
from graphprism.training.lockstep import forget_lockstep, lockstep_key, train_lockstep
from graphprism.training.node import LeakAudit, NodeRun, build_node_model, leak_audit, train_node, train_nodes
from graphprism.training.optim import epoch_order, learning_rate
from graphprism.training.prepared_data import PreparedDataset
from graphprism.training.run import Run
from graphprism.training.session import Diverged, EpochReport
from graphprism.training.train import train

__all__ = [
    "CheckpointError",
    "Diverged",
    "EpochReport",
    "LeakAudit",
    "NodeRun",
    "PreparedDataset",
    "Run",
    "build_model",
    "build_node_model",
    "epoch_order",
    "fit_width",
    "forget_lockstep",
    "leak_audit",
    "learning_rate",
    "load_best",
    "lockstep_key",
    "parameters_of",
    "train",
    "train_lockstep",
    "train_node",
    "train_nodes",
]

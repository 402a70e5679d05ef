"""Runs, budgets and the engines that train them."""

from graphprism.training.build_model import build_model, parameters_of
from graphprism.training.fit_width import fit_width
from graphprism.training.run import Run

__all__ = ["Run", "build_model", "fit_width", "parameters_of"]

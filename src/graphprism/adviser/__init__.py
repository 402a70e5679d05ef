"""Recommends a split, or none, by a certificate, the cost and a short paired trial, before any full training."""

from graphprism.adviser.advice import Advice, advise
from graphprism.adviser.candidates import Candidate
from graphprism.adviser.trial import Trial

__all__ = ["Advice", "Candidate", "Trial", "advise"]

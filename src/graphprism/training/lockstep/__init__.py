"""Many runs at once on one device."""

from graphprism.training.lockstep.train_lockstep import lockstep_key, train_lockstep

__all__ = ["lockstep_key", "train_lockstep"]

"""Many runs at once on one device."""

from graphprism.training.lockstep.train_lockstep import forget_lockstep, lockstep_key, train_lockstep

__all__ = ["forget_lockstep", "lockstep_key", "train_lockstep"]

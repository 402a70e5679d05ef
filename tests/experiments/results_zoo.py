"""Results by hand, for tests of what is made of them."""

from graphprism.results import RunResult
from graphprism.training import Run


def make_result(run=None, val=(0.5, 0.2, 0.3), test=(0.6, 0.25, 0.35), loss=(0.9, 0.1, 0.2), **changes):
    """A finished run of three epochs; the best validation is that of the second."""
    run = run or Run(epochs=3)
    larger = changes.get("larger_is_better", False)
    best = (max if larger else min)(range(len(val)), key=val.__getitem__) + 1 if val else None
    fields = {
        "key": run.key,
        "run": run.to_dict(),
        "status": "finished",
        "metric": "mae",
        "larger_is_better": larger,
        "history": {"train_loss": list(loss), "train": list(loss), "val": list(val), "test": list(test)},
        "best_epoch": best,
        "parameters": 10,
        "width": 2,
        "step_ms": 4.0,
        "seconds": 6.0,
        "engine": "eager",
    }
    return RunResult(**{**fields, **changes})


def diverged(run):
    """A run whose loss was not finite in its first epoch."""
    return make_result(run, (), (), (), status="diverged")

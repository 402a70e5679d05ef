"""What only the first process does, for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from lightning.fabric import Fabric

T = TypeVar("T")


def from_first(fabric: Fabric, action: Callable[[], T]) -> T:
    """Calls ``action`` in the first process and gives every process its result, or raises its error in all.

    Were the error raised in the first alone, the others would wait for it for ever.
    """
    outcome: tuple[T | None, Exception | None] = (None, None)
    if fabric.is_global_zero:
        try:
            outcome = (action(), None)
        except Exception as error:
            outcome = (None, error)
    if fabric.world_size > 1:
        outcome = fabric.broadcast(outcome)
    result, problem = outcome
    if problem is not None:
        raise problem
    return result  # type: ignore[return-value]  # without an error there is a result

"""Lazy import of pyarrow."""

from __future__ import annotations

from typing import Any

from graphprism._extras import needs_extra


def pyarrow() -> Any:
    """The package pyarrow, with its modules ``csv``, ``parquet`` and ``compute`` imported.

    Raises:
        MissingExtraError: It is not installed; the message has the command to install it.
    """
    with needs_extra("splitting a file of edges"):
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    return pyarrow


def holds_numbers(column: Any) -> bool:
    """Whether a column holds integers, floating-point numbers or booleans."""
    kinds = pyarrow().types
    return bool(kinds.is_integer(column.type) or kinds.is_floating(column.type) or kinds.is_boolean(column.type))

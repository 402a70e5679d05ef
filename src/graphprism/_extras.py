"""Optional packages, and the extra of pyproject.toml that installs each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# The smallest extra that has the package; a test compares this table with pyproject.toml and with every import.
EXTRAS = {
    "matplotlib": "demo",
    "rich": "demo",
    "tomli": "demo",
    "typer": "demo",
    "lightning": "experiments",
    "scipy": "experiments",
    "torchmetrics": "experiments",
    "pymetis": "full",
    "pyarrow": "parquet",
    "tensorboard": "full",
    "torch-geometric-signed-directed": "baselines",
    "optuna": "tune",
}


class MissingExtraError(ImportError):
    """A package of an extra is missing; the message has the command that installs it."""


@contextmanager
def needs_extra(what: str) -> Iterator[None]:
    """Wraps imports of optional packages: a missing one raises an error with the command that installs it.

    Args:
        what: The subject of the sentence, such as ``"a picture"``.

    Raises:
        MissingExtraError: A package of `EXTRAS` is missing. Other errors pass unchanged.

    >>> with needs_extra("a picture"):
    ...     raise ModuleNotFoundError(name="matplotlib.figure")
    Traceback (most recent call last):
    graphprism._extras.MissingExtraError: a picture needs matplotlib: pip install "graphprism[demo]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0].replace("_", "-")
        if package not in EXTRAS:
            raise
        command = f'pip install "graphprism[{EXTRAS[package]}]"'
        raise MissingExtraError(f"{what} needs {package}: {command}", name=package) from error

"""Which source a result was computed with."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent


def source_commit(folder: Path = SOURCE) -> str | None:
    """The commit of the package's source, with ``+`` where files were changed since; None outside of a checkout."""
    try:
        # A package that is merely installed below somebody's checkout is not a part of it.
        _git(folder, "ls-files", "--error-unmatch", "__init__.py")
        commit = _git(folder, "rev-parse", "HEAD")
        return commit + ("+" if _git(folder, "status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()

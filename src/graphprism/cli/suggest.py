"""What a misspelt word may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def suggest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word; empty where nothing is close.

    >>> suggest("mrs-gnc", ["gcn", "mrs-gin", "mrs-gcn"])
    '; did you mean mrs-gcn?'
    >>> suggest("transformer", ["gcn", "mrs-gcn"])
    ''
    """
    close = get_close_matches(word.lower(), list(known), n=3)
    # Two letters in each other's place are the likelier slip than one wrong letter, and difflib rates them the same.
    swapped = [each for each in close if sorted(each) == sorted(word.lower())]
    return f"; did you mean {(swapped or close)[0]}?" if close else ""

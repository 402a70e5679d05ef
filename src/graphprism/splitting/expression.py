r"""Splits as text: the grammar, its parser and its writer.

.. code-block:: text

    splits   = split { ";" split }                 one split per layer, repeated cyclically if there are more layers
    split    = factor { "*" factor }               product: two edges share a relation if they do in every factor
    factor   = ordering { "," ordering }           up, down, tie; an ordering decides the ties of those before it
             | "order" "(" ordering { "," ordering } "," "tolerance" "=" number ")"
             | "soft" "(" ordering [ "," "temperature" "=" number ] ")"
             | "attr" "(" word [ "," count ] [ "," "column" "=" count ] ")"
             | "direction"
             | "similarity" [ "(" number ")" ] | "curvature" [ "(" number ")" ] | "community"
             | "only" "(" split "," numbers ")"    these relations alone, renumbered from 0
    ordering = name [ "(" option { "," option } ")" ],    option = word "=" value
    numbers  = range { "|" range },                       range = count [ ".." count ]

A comma binds more tightly than ``*``: ``degree, ppr * direction`` has six relations. A name is one of `ORDERINGS`, a
word is letters, digits and underscores, or anything between double quotes with the escapes of JSON. Relations of a
product are numbered as in ``left * right``: the first factor varies fastest. The product is associative, so there are
no brackets. An attribute without a count has an unknown number of relations: it is moved to the end of the product, and
there can be at most one.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import groupby
from typing import Any, NamedTuple, NoReturn

from torch import Tensor

from graphprism._checks import check_type
from graphprism._text import suggest
from graphprism.splitting.edge_values import ByCommunity, ByEdgeValue, by_community, by_curvature, by_similarity
from graphprism.splitting.graph import GraphLike
from graphprism.splitting.orderings import ORDERINGS, NamedOrdering
from graphprism.splitting.split import Only, Product, Split, only
from graphprism.splitting.splits import (
    ByAttribute,
    ByDirection,
    ByOrder,
    BySoftOrder,
    FixedRelations,
    by_attribute,
    by_direction,
    by_function,
    by_order,
    by_soft_order,
)


class SplitSyntaxError(ValueError):
    """The text is not a valid split; the message ends with the text and a marker under the offending character."""


def parse_split(text: str) -> Split:
    """Parses the text of a split; the inverse of `split_text`.

    >>> parse_split("degree, ppr * attr(edge_attr) * direction")
    by_order('degree', 'ppr') * by_direction() * by_attribute('edge_attr')
    >>> parse_split("degree * atr(edge_attr)")
    Traceback (most recent call last):
    ...
    graphprism.splitting.expression.SplitSyntaxError: `split` must have one of the orderings or splits at character \
10, got 'atr'; did you mean attr? (known: orderings degree, random, features, ppr, core, triangles, eigenvector, \
bfs; splits order, soft, attr, direction, similarity, curvature, community, only)
      degree * atr(edge_attr)
               ^~~
    """
    parser = _Parser(text)
    split = parser.split()
    if parser.token.text == ";":
        parser.fail("must be a single split, without `;`, unless each layer has its own split,")
    parser.end()
    return split


def parse_splits(text: str) -> tuple[Split, ...]:
    """Parses one split per layer, separated by semicolons.

    >>> parse_splits("degree; ppr * direction")
    (by_order('degree'), by_order('ppr') * by_direction())
    """
    parser = _Parser(text)
    found = [parser.split()]
    while parser.take(";"):
        found.append(parser.split())
    parser.end()
    return tuple(found)


def split_text(split: Split | Sequence[Split]) -> str:
    """The text of a split, or of one split per layer; the inverse of `parse_split` and `parse_splits`.

    Raises:
        ValueError: The split holds a function or a tensor, which cannot be written as text.

    >>> split_text(by_order("degree", "ppr") * by_attribute("edge_attr", 4))
    'degree, ppr * attr(edge_attr, 4)'
    """
    if not isinstance(split, Split):
        check_type("split", split, (list, tuple), "a Split or a sequence of them")
        return "; ".join(map(split_text, split))
    match split:
        case Product():
            return f"{split_text(split.left)} * {split_text(split.right)}"
        case Only():
            return f"only({split_text(split.split)}, {_numbers_text(split.kept)})"
        case ByOrder(tolerance=None):
            return ", ".join(map(_ordering_text, split.orderings))
        case ByOrder():
            return f"order({', '.join(map(_ordering_text, split.orderings))}, tolerance={_value_text(split.tolerance)})"
        case BySoftOrder():
            default = split.temperature == 1.0
            more = "" if default else f", temperature={_value_text(split.temperature)}"
            return f"soft({_ordering_text(split.ordering)}{more})"
        case ByAttribute():
            count = "" if split.num_relations is None else f", {split.num_relations}"
            column = "" if split.column is None else f", column={split.column}"
            return f"attr({_word_text(split.attribute)}{count}{column})"
        case ByDirection():
            return "direction"
        case ByEdgeValue():
            return split.name if split.threshold is None else f"{split.name}({_value_text(split.threshold)})"
        case ByCommunity():
            return "community"
    raise ValueError(f"`split` must consist of named splits and orderings to be written as text, got {split!r}")


def _ordering_text(ordering: object) -> str:
    if isinstance(ordering, NamedOrdering):
        options = ", ".join(f"{name}={_value_text(value)}" for name, value in ordering.options)
        return f"{ordering.name}({options})"
    names = [name for name, function in ORDERINGS.items() if ordering is function or ordering == name]
    if not names:
        raise ValueError(f"an ordering must have a name of {sorted(ORDERINGS)} to be written as text, got {ordering!r}")
    return names[0]


def _value_text(value: object) -> str:
    if isinstance(value, str):
        return _word_text(value)
    # numbers of NumPy print their type
    return repr(value.item() if hasattr(value, "item") else value)


def _word_text(word: str) -> str:
    return word if _WORD.fullmatch(word) else json.dumps(word)


def _numbers_text(numbers: Sequence[int]) -> str:
    """Numbers as ranges: (0, 1, 2, 5) -> ``0..2|5``."""
    groups = groupby(enumerate(numbers), key=lambda each: each[1] - each[0])
    runs = [[number for _, number in group] for _, group in groups]
    return "|".join(str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs)


_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<word>[A-Za-z_][A-Za-z0-9_]*|"(?:[^"\\]|\\.)*")"""
    r"""|(?P<number>-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|(?P<sign>\.\.|[*,;()=|])""",
    re.ASCII,
)
# Longer texts, and ranges of more relations, are rejected as mistakes.
_LONGEST = 10_000
_MOST_RELATIONS = 1 << 20


_NAMED = "must have one of the orderings or splits"


def _known() -> str:
    return f" (known: orderings {', '.join(ORDERINGS)}; splits {', '.join(_TERMS)})"


class _Token(NamedTuple):
    kind: str  # "word", "number", "sign" or "end"
    text: str
    at: int

    @property
    def word(self) -> str:
        """The word itself, without quotes."""
        return str(json.loads(self.text)) if self.text.startswith('"') else self.text


def _instead_of(given: object) -> str:
    """Suffix of an error about a split that is no text: its text, or where a split of one's own goes."""
    try:
        text = split_text(given)  # type: ignore[arg-type]
        return f"; write it as {text!r}" if text else ""
    except (TypeError, ValueError):
        if not isinstance(given, Split | Tensor) and not callable(given):
            return ""
        return "; write one of your own to the graph, data.edge_attr = split(data), and name it, attr(edge_attr)"


class _Parser:
    """Recursive-descent parser: one method per rule of the grammar."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"`split` must be text, got {type(text).__name__}{_instead_of(text)}")
        if len(text) > _LONGEST:
            raise ValueError(f"`split` must have at most {_LONGEST:,} characters, got {len(text):,}")
        self.text = text
        self.tokens = self._tokens()
        self.place = 0

    def _tokens(self) -> list[_Token]:
        found, at = [], 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                self._raise("must be names, numbers and the signs * , ; ( ) = | .. alone,", at, 1)
            kind = str(match.lastgroup)
            token = _Token(kind, match[0], at)
            if kind == "word" and match[0].startswith('"'):
                try:
                    token.word  # noqa: B018  # raises if it is not a JSON string
                except ValueError:
                    self._raise("must have strings with the escapes of JSON,", at, len(match[0]))
            if kind != "space":
                found.append(token)
            at = match.end()
        return [*found, _Token("end", "", len(self.text))]

    @property
    def token(self) -> _Token:
        """The next token, not consumed."""
        return self.tokens[self.place]

    def next(self) -> _Token:
        token = self.token
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def take(self, sign: str) -> bool:
        """Consumes ``sign`` if it is the next token; returns whether it was."""
        if self.token.kind == "sign" and self.token.text == sign:
            self.next()
            return True
        return False

    def expect(self, sign: str, what: str) -> None:
        if not self.take(sign):
            self.fail(f"must have `{sign}` {what}")

    def end(self) -> None:
        if self.token.kind != "end":
            self.fail("must end or continue with `*`")

    def fail(self, must: str, token: _Token | None = None, hint: str = "") -> NoReturn:
        token = self.token if token is None else token
        self._raise(must, token.at, max(1, len(token.text)), hint)

    def _raise(self, must: str, at: int, length: int, hint: str = "") -> NoReturn:
        came = repr(self.text[at : at + length]) if at < len(self.text) else "its end"
        line = self.text.replace("\n", " ").replace("\t", " ")
        mark = " " * at + "^" + "~" * (length - 1)
        raise SplitSyntaxError(f"`split` {must} at character {at + 1}, got {came}{hint}\n  {line}\n  {mark}")

    def split(self) -> Split:
        """A product of factors; a factor with an unknown number of relations is moved to the end."""
        begin = self.token
        factors: list[Split] = []
        open_factors: list[Split] = []
        while True:
            at = self.token
            factor = self.factor()
            (open_factors if factor.num_relations is None else factors).append(factor)
            if len(open_factors) > 1:
                self.fail("must have one factor at most without its number of relations, as in attr(NAME, 4),", at)
            if not self.take("*"):
                break
        return self._made(begin, lambda: reduce(lambda left, right: left * right, [*factors, *open_factors]))

    def factor(self) -> Split:
        token = self.token
        if token.kind != "word" or token.text.startswith('"'):
            self.fail(_NAMED, hint=_known())
        rule = {
            "order": self._order,
            "soft": self._soft,
            "attr": self._attr,
            "direction": lambda: by_direction(),
            "similarity": lambda: by_similarity(self._threshold()),
            "curvature": lambda: by_curvature(self._threshold()),
            "community": lambda: by_community(),
            "only": self._only,
        }.get(token.text)
        if rule is None:
            return by_order(*self._orderings())
        self.next()
        return self._made(token, rule)

    def _made(self, token: _Token, make: Callable[[], Split]) -> Split:
        """Makes a split; an error of its arguments is raised again with a marker at its term."""
        try:
            return make()
        except SplitSyntaxError:
            raise
        except (TypeError, ValueError) as error:
            self.fail("must be made of terms that hold", token, f": {error}")

    def _orderings(self) -> list[str | NamedOrdering]:
        found = [self._ordering()]
        while self.token.text == "," and not self._is_argument():
            self.next()
            found.append(self._ordering())
        return found

    def _is_argument(self) -> bool:
        """Whether the tokens after a comma are an option or a number of the enclosing term, not an ordering."""
        following = self.tokens[self.place + 1 : self.place + 3]
        return following[0].kind == "number" or (len(following) == 2 and following[1].text == "=")

    def _ordering(self) -> str | NamedOrdering:
        token = self.next()
        if token.kind != "word" or token.text not in ORDERINGS:
            names = [*ORDERINGS, *_TERMS]
            close = suggest(token.text, names) if token.kind == "word" else ""
            if token.text in _TERMS:
                self.fail("must have orderings alone between commas; splits are joined by `*`;", token)
            self.fail(_NAMED, token, close + _known())
        if not self.take("("):
            return token.text
        known = dict(list(inspect.signature(ORDERINGS[token.text]).parameters.items())[1:])
        options: dict[str, Any] = {}
        while True:
            name = self.next()
            if name.text not in known or name.text in options:
                close = "" if name.text in options else suggest(name.text, known)
                self.fail(
                    f"must have an option of {token.text} ({', '.join(known) or 'none'}), each once,", name, close
                )
            self.expect("=", "after the name of an option")
            options[name.text] = self._value(known[name.text].default)
            if not self.take(","):
                break
        self.expect(")", "after the options")
        return NamedOrdering(token.text, tuple(sorted(options.items())))

    def _value(self, default: object) -> str | int | float:
        token = self.next()
        if isinstance(default, str):
            if token.kind != "word":
                self.fail("must have a word", token)
            return token.word
        if isinstance(default, float):
            return self._number(token)
        return self._count(token)

    def _number(self, token: _Token) -> float:
        if token.kind != "number":
            self.fail("must have a number", token)
        return float(token.text)

    def _count(self, token: _Token) -> int:
        if token.kind != "number" or not token.text.isdigit() or len(token.text) > 18:
            self.fail("must have a whole number from 0", token)
        return int(token.text)

    def _option(self, name: str) -> bool:
        """Consumes ``, name =`` if it comes next; returns whether it did."""
        if self.token.text == "," and self.tokens[self.place + 1].text == name:
            self.next(), self.next()
            self.expect("=", f"after {name}")
            return True
        return False

    def _order(self) -> Split:
        self.expect("(", "after order")
        orderings = self._orderings()
        tolerance = self._number(self.next()) if self._option("tolerance") else None
        self.expect(")", "after the orderings")
        return by_order(*orderings, tolerance=tolerance)

    def _soft(self) -> Split:
        self.expect("(", "after soft")
        ordering = self._ordering()
        temperature = self._number(self.next()) if self._option("temperature") else 1.0
        self.expect(")", "after the ordering")
        return by_soft_order(ordering, temperature)

    def _attr(self) -> Split:
        self.expect("(", "after attr")
        name = self.next()
        if name.kind != "word":
            self.fail("must have the name of an edge attribute", name)
        count = column = None
        if self.token.text == "," and self.tokens[self.place + 1].kind == "number":
            self.next()
            count = self._count(self.next())
        if self._option("column"):
            column = self._count(self.next())
        self.expect(")", "after the attribute")
        return by_attribute(name.word, count, column)

    def _threshold(self) -> float | None:
        if not self.take("("):
            return None
        threshold = self._number(self.next())
        self.expect(")", "after the number")
        return threshold

    def _only(self) -> Split:
        self.expect("(", "after only")
        split = self.split()
        self.expect(",", "after the split")
        numbers: list[int] = []
        while True:
            at = self.token
            first = self._count(self.next())
            last = self._count(self.next()) if self.take("..") else first
            if last < first or len(numbers) + last - first >= _MOST_RELATIONS:
                self.fail(f"must have ranges such as 0..5, of {_MOST_RELATIONS:,} relations at most,", at)
            numbers += range(first, last + 1)
            if not self.take("|"):
                break
        self.expect(")", "after the numbers of relations")
        return only(split, numbers)


_TERMS = ("order", "soft", "attr", "direction", "similarity", "curvature", "community", "only")


def resolve_split(split: str | Split | Tensor | Callable[[GraphLike], Tensor]) -> Split:
    """The split for a text (see `graphprism.splitting.expression`), a tensor (E,) or (E, R), or a function of a graph.

    In a text, commas separate orderings, each of which breaks the ties of those before it; ``*`` multiplies splits.

    >>> resolve_split("degree")
    by_order('degree')
    >>> resolve_split("degree, ppr * attr(edge_attr)")
    by_order('degree', 'ppr') * by_attribute('edge_attr')
    """
    if isinstance(split, Split):
        return split
    if isinstance(split, str):
        return parse_split(split)
    if isinstance(split, Tensor):
        if split.dim() not in (1, 2):
            raise ValueError(f"`split` must have shape [E] or [E, R] as a tensor, got {list(split.shape)}")
        return by_function(FixedRelations(split), num_relations=split.size(1) if split.dim() == 2 else None)
    if not callable(split):
        raise TypeError(f"`split` must be a text, a Split, a tensor or a function, got {type(split).__name__}")
    return by_function(split)

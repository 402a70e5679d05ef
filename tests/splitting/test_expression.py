"""Splits as text: what a text means, the way there and back, and errors that point at the character."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphprism.splitting import (
    ORDERINGS,
    SplitSyntaxError,
    by_attribute,
    by_direction,
    by_function,
    by_order,
    by_similarity,
    by_soft_order,
    only,
    parse_split,
    parse_splits,
    resolve_split,
    split_text,
)
from graphprism.splitting.orderings import NamedOrdering, degree, ppr

from .zoo import directed, graphs

GRAPH = directed([(0, 1), (1, 2), (2, 0), (2, 1), (3, 3)], 4, x=torch.eye(4), edge_attr=torch.tensor([3, 1, 1, 3, 1]))


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("degree", by_order("degree")),
        ("degree,ppr", by_order("degree", "ppr")),
        ("degree * direction", by_order("degree") * by_direction()),
        ("degree, ppr * direction", by_order("degree", "ppr") * by_direction()),
        ("attr(bond)", by_attribute("bond")),
        ('attr("bond type", 4)', by_attribute("bond type", 4)),
        ("attr(edge_attr, 4, column=1)", by_attribute("edge_attr", 4, 1)),
        ("order(degree, ppr, tolerance=0.1)", by_order("degree", "ppr", tolerance=0.1)),
        ("soft(degree, temperature=0.5)", by_soft_order("degree", 0.5)),
        ("similarity(0.5)", by_similarity(0.5)),
        ("only(degree * attr(bond), 0..2|7)", only(by_order("degree") * by_attribute("bond"), [0, 1, 2, 7])),
        # a factor without its number counts last
        ("attr(bond) * degree", by_order("degree") * by_attribute("bond")),
    ],
)
def test_parse_split(text, split):
    assert parse_split(text) == resolve_split(text) == split


def test_ordering_with_options_is_the_function_with_them():
    (found,) = parse_split("degree(kind=in)").orderings
    assert found(GRAPH).equal(degree(GRAPH, kind="in"))
    (found,) = parse_split("ppr(steps=3, restart=0.5)").orderings
    assert found(GRAPH).equal(ppr(GRAPH, steps=3, restart=0.5))


def test_splits_of_layers_stand_between_semicolons():
    assert parse_splits("degree; ppr * direction") == (by_order("degree"), by_order("ppr") * by_direction())
    assert split_text(parse_splits("degree;core")) == "degree; core"
    with pytest.raises(SplitSyntaxError, match="a single split, without `;`"):
        parse_split("degree; ppr")


@pytest.mark.parametrize(
    ("text", "at", "length"),
    [
        ("", 0, 1),
        ("degre", 0, 5),
        ("degree *", 8, 1),
        ("degree, * ppr", 8, 1),
        ("degree & ppr", 7, 1),
        ("degree ppr", 7, 3),
        ("degree, attr(bond)", 8, 4),
        ("attr(bond, 0)", 0, 4),
        ("attr(4)", 5, 1),
        ("attr(bond", 9, 1),
        ("ppr(step=3)", 4, 4),
        ("ppr(steps=3, steps=4)", 13, 5),
        ("ppr(steps=x)", 10, 1),
        ("soft(degree, temperature=-1)", 0, 4),
        ("attr(a) * attr(b)", 10, 4),
        ("only(degree, 5)", 0, 4),
        ("only(degree, 2..1)", 13, 1),
        ("similarity(x)", 11, 1),
        ('attr("\\q")', 5, 4),
    ],
)
def test_errors_point_at_the_character(text, at, length):
    with pytest.raises(SplitSyntaxError) as caught:
        parse_split(text)
    first, line, mark = str(caught.value).splitlines()
    assert line == f"  {text}"
    assert mark == "  " + " " * at + "^" + "~" * (length - 1)
    assert f"at character {at + 1}, got" in first


def test_error_names_what_is_close():
    with pytest.raises(SplitSyntaxError, match=r"got 'degre'; did you mean degree\?"):
        parse_split("degre")


def test_text_of_a_function_is_refused():
    with pytest.raises(ValueError, match="must consist of named splits"):
        split_text(by_function(lambda graph: graph.edge_index[0]))
    with pytest.raises(ValueError, match="an ordering must have a name"):
        split_text(by_order(torch.ones(3)))


words = st.one_of(st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True), st.text(max_size=6))
numbers = st.floats(0.001, 0.999)
named = st.one_of(
    st.sampled_from(sorted(ORDERINGS)),
    st.builds(lambda kind: NamedOrdering("degree", (("kind", kind),)), st.sampled_from(["in", "out", "total"])),
    st.builds(lambda a, b: NamedOrdering("ppr", (("restart", a), ("steps", b))), numbers, st.integers(1, 99)),
)
orders = st.lists(named, min_size=1, max_size=3)
factors = st.one_of(
    orders.map(lambda names: by_order(*names)),
    st.builds(lambda names, tolerance: by_order(*names, tolerance=tolerance), orders, numbers),
    st.builds(by_soft_order, named, numbers),
    st.builds(by_attribute, words, st.integers(1, 9), st.none() | st.integers(0, 3)),
    st.just(by_direction()),
    st.builds(by_similarity, st.none() | st.floats(-1, 1)),
)


@st.composite
def splits(draw):
    parts = draw(st.lists(factors, min_size=1, max_size=4))
    if draw(st.booleans()):
        parts.append(by_attribute(draw(words)))
    found = parts[0]
    for part in parts[1:]:
        found = found * part
    kept = draw(st.none() | st.sets(st.integers(0, (found.num_relations or 20) - 1), min_size=1))
    return found if kept is None else only(found, sorted(kept))


@given(splits())
def test_text_of_a_split_gives_the_split(split):
    text = split_text(split)
    assert parse_split(text) == split
    assert split_text(parse_split(text)) == text


@given(st.text(alphabet='degpr,*;()=|. 19"\\-a', max_size=30))
def test_any_text_is_a_split_or_a_syntax_error(text):
    try:
        split = parse_split(text)
    except SplitSyntaxError:
        return
    assert parse_split(split_text(split)) == split


def test_fitted_split_has_the_relations_that_occur():
    fitted = parse_split("attr(edge_attr)").fitted(GRAPH)
    assert split_text(fitted) == "only(attr(edge_attr, 4), 1|3)"
    assert fitted.num_relations == 2
    assert fitted.names == ("1", "3")
    assert fitted(GRAPH).tolist() == [1, 0, 0, 1, 0]
    # another graph is numbered alike, even where a relation is missing
    part = directed([(0, 1)], 2, edge_attr=torch.tensor([3]))
    assert fitted(part).tolist() == [1]
    with pytest.raises(ValueError, match=r"got 1 of others, such as 2 \(2\): the split was fitted to graphs without"):
        fitted(directed([(0, 1)], 2, edge_attr=torch.tensor([2])))


def test_split_is_fitted_to_a_list_of_graphs():
    first = directed([(0, 1), (1, 2)], 3, edge_attr=torch.tensor([1, 5]))
    second = directed([(0, 1)], 2, edge_attr=torch.tensor([3]))
    for graphs_of in (list, tuple):
        fitted = parse_split("attr(edge_attr)").fitted(graphs_of([first, second]))
        assert split_text(fitted) == "only(attr(edge_attr, 6), 1|3|5)"
    assert (fitted(first).tolist(), fitted(second).tolist()) == ([0, 2], [1])
    product = parse_split("degree * attr(edge_attr)").fitted([second, first])
    assert split_text(product) == "only(degree * attr(edge_attr, 6), 5|10|16)"  # tie, down, down
    soft = by_function(lambda graph: torch.eye(4)[graph.edge_attr % 4], num_relations=4).fitted([first, second])
    assert soft.kept == (1, 3)
    with pytest.raises(ValueError, match="`graph` must be a graph or a list of at least one, got an empty list"):
        parse_split("degree").fitted([])
    with pytest.raises(TypeError, match="`graph` must have `edge_index` and `num_nodes`, got str"):
        parse_split("degree").fitted(["a"])


def test_fitted_split_with_all_relations_is_the_split():
    assert parse_split("direction").fitted(GRAPH) == by_direction()


@given(graphs())
def test_fitted_split_joins_the_same_edges(graph):
    split = parse_split("degree * attr(edge_attr) * direction")
    fitted = split.fitted(graph)
    before, after = split(graph), fitted(graph)
    assert torch.unique(after, return_inverse=True)[1].equal(torch.unique(before, return_inverse=True)[1])
    assert int(after.max()) + 1 == fitted.num_relations if after.numel() else fitted.num_relations >= 1
    assert json.dumps(split_text(fitted))


def test_only_takes_columns_of_scores():
    soft = by_soft_order("degree")
    path = directed([(0, 1), (0, 2)], 3)
    scores = soft(path)
    assert only(soft, [1, 2])(path).equal(scores[:, 1:])
    with pytest.raises(ValueError, match="got 2 of others, such as 1 \\(down\\)"):
        only(soft, [0, 2])(path)


def test_numbers_of_numpy_are_written_as_numbers():
    split = by_soft_order("degree", np.float64(0.5))
    assert split_text(split) == split_text(by_soft_order("degree", 0.5))
    assert parse_split(split_text(split)) == split

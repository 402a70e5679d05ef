"""Columns of nodes and of edges become numbers or categories by one rule."""

import pytest

from graphprism.datasets import from_files
from tests.datasets.own_files import write


def shop(folder, column, values, **options):
    """Twenty people in a ring; the column is one of nodes and of edges."""
    nodes = f"name,{column},y\n" + "".join(f"c{n},{values[n % len(values)]},{n % 2}\n" for n in range(20))
    edges = f"from,to,{column}\n" + "".join(f"c{n},c{(n + 1) % 20},{values[n % len(values)]}\n" for n in range(20))
    return from_files(write(folder, nodes=nodes, edges=edges), "y", **options)


@pytest.mark.parametrize(
    ("column", "values", "kind"),
    [
        ("since", (2001, 2004, 2009), "number"),
        ("size", (1, 2, 3), "number"),
        ("size", (0.5, 1.5), "number"),
        ("trusted", (0, 1), "flag"),
        ("how", ("work", "home"), "category"),
        ("type", (1, 2, 3), "category"),
        ("edge_type", (0, 1), "category"),
        ("bond-kind", (0, 1, 2), "category"),
    ],
)
def test_kind_is_the_same_for_nodes_and_edges(tmp_path, column, values, kind):
    found = shop(tmp_path, column, values).preprocessing
    assert [code["kind"] for code in (*found["nodes"], *found["edges"])] == [kind, kind]


def test_whole_numbers_on_edges_are_told(tmp_path):
    dataset = shop(tmp_path, "since", (2001, 2004, 2009))
    told = (
        "edges.csv: 'since' kept as numbers; networks here take types of edges (--category since makes types of them)."
    )
    assert told in dataset.preprocessing["notices"]
    assert (dataset.edge_types, dataset.edge_attr.shape) == ((), (40, 1))
    assert shop(tmp_path, "since", (2001, 2004, 2009), categories=("since",)).edge_types == (4,)


def test_types_by_name_are_told_and_undone(tmp_path):
    notices = shop(tmp_path, "type", (1, 2, 3)).preprocessing["notices"]
    assert "edges.csv: column 'type' is a category by its name (--number type undoes it)." in notices
    found = shop(tmp_path, "type", (1, 2, 3), numbers=("type",)).preprocessing
    assert [code["kind"] for code in (*found["nodes"], *found["edges"])] == ["number", "number"]


def test_text_is_no_number(tmp_path):
    with pytest.raises(ValueError, match=r"nodes.csv: the column 'how' must hold numbers, got 'work'"):
        shop(tmp_path, "how", ("work", "home"), numbers=("how",))

import pytest
import torch
from matplotlib.collections import LineCollection, PatchCollection, PolyCollection
from matplotlib.colors import to_hex

from graphprism.plotting import COLOURS, draw_split
from graphprism.splitting import Graph, by_attribute, by_order, by_soft_order
from graphprism.testing import graph_zoo, molecule

PATH = Graph(torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4)


def shapes(axes, kind):
    """The collections of one kind, in the order in which they are drawn."""
    return [found for found in axes.collections if type(found) is kind]


def lines(axes):
    return len(shapes(axes, LineCollection)[-1].get_segments())


def tips(axes):
    return len(shapes(axes, PolyCollection)[0].get_paths())


def filled(axes):
    """Nodes that are not white."""
    nodes = shapes(axes, PatchCollection)[-1].get_facecolor()
    return [number for number, colour in enumerate(nodes.tolist()) if colour[:3] != [1, 1, 1]]


def test_panels_of_a_path_by_hand():
    graph, up, down, tie = draw_split(PATH, "degree").axes
    assert [axes.get_title(loc="left") for axes in (graph, up, down, tie)] == ["graph", "up", "down", "tie"]
    assert [axes.get_title(loc="right") for axes in (graph, up, down, tie)] == ["6 edges", *["2 edges"] * 3]
    assert [lines(axes) for axes in (graph, up, down, tie)] == [3, 2, 2, 1]
    assert [tips(axes) for axes in (graph, up, down, tie)] == [0, 2, 2, 0]
    assert [filled(axes) for axes in (graph, up, down, tie)] == [[0, 1, 2, 3], [1, 2], [0, 3], [1, 2]]


def test_tips_point_at_the_node_that_is_entered():
    edge = Graph(torch.tensor([[1], [0]]), num_nodes=2)
    axes = draw_split(edge, "bfs").axes[0]
    (tip,) = shapes(axes, PolyCollection)[0].get_paths()
    (segment,) = shapes(axes, LineCollection)[-1].get_segments()
    places = [text.get_position() for text in axes.texts]
    point = tip.vertices[0]
    assert abs(point[0] - places[0][0]) < abs(point[0] - places[1][0])
    assert point.tolist() == pytest.approx(segment[1].tolist())


def test_relations_have_their_colours():
    panels = draw_split(molecule(7)).axes[1:]
    for axes, colour in zip(panels, COLOURS, strict=False):
        assert axes.title.get_color() == "black"
        assert to_hex(shapes(axes, LineCollection)[-1].get_color()[0]) == colour
    # words in the third colour, a pale green, could hardly be read on white
    assert [axes._left_title.get_color() for axes in panels] == [*COLOURS[:2], "#1f1f1f"]


def test_one_edge_each_way_is_one_line_and_loops_are_rings():
    graph = Graph(torch.tensor([[0, 1, 0, 2, 1], [1, 0, 1, 2, 2]]), num_nodes=3)
    axes = draw_split(graph, "degree").axes[0]
    assert lines(axes) == 2
    assert tips(axes) == 3
    assert [len(found.get_paths()) for found in shapes(axes, PatchCollection)] == [1, 3]  # loops, nodes


def test_many_relations_wrap():
    graph = Graph(PATH.edge_index, 4, edge_attr=torch.tensor([0, 1, 2, 3, 4, 5]))
    figure = draw_split(graph, by_attribute("edge_attr", num_relations=6))
    assert len([axes for axes in figure.axes if axes.get_visible()]) == 7
    assert figure.axes[1].get_title(loc="left") == "relation 0"


@pytest.mark.parametrize(
    "graph", [graph for graph in graph_zoo().values() if 0 < graph.num_nodes <= 200], ids=lambda graph: graph.num_nodes
)
def test_whole_zoo_can_be_drawn(graph):
    assert len(draw_split(graph, by_order("degree")).axes) == 4


def test_numbers_only_where_they_can_be_read():
    assert len(draw_split(molecule(0, 40)).axes[0].texts) == 40
    assert len(draw_split(molecule(0, 41)).axes[0].texts) == 0


@pytest.mark.parametrize("count", [0, 2001])
def test_too_few_or_too_many_nodes(count):
    with pytest.raises(ValueError, match=f"must have 1 to 2000 nodes to be drawn, got {count}"):
        draw_split(Graph(torch.empty(2, 0, dtype=torch.long), count))


def test_scores_cannot_be_drawn():
    with pytest.raises(ValueError, match="must put every edge into one relation to be drawn"):
        draw_split(PATH, by_soft_order("degree"))


def test_draw_split_takes_a_number_of_columns():
    wide, narrow = (draw_split(molecule(7), columns=columns) for columns in (None, 2))
    assert len(wide.axes) == len(narrow.axes) == 4
    assert narrow.get_figwidth() == pytest.approx(wide.get_figwidth() / 2)
    with pytest.raises(ValueError, match="`columns` must be"):
        draw_split(molecule(7), columns=0)

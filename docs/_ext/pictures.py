"""The pictures of the pages, computed and drawn by the library when the pages are built.

A page shows one with the directive ``picture``: its name, then the caption.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import paper_summary
import torch
from docutils import nodes
from docutils.parsers.rst import Directive
from drawing import EDGE, INK, PAPER, RELATIONS, SOFT, Axes, Drawing, Point, ends, placed
from sphinx.application import Sphinx

from graphprism.analysis import certify, direction_groups, weighted_in_degrees
from graphprism.nn import MRSGCNConv
from graphprism.play.simulate import play_graph, simulate
from graphprism.plotting import graph_layout
from graphprism.splitting import Graph, orderings, parse_split

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
UP_DOWN_TIE = ("up", "down", "tie")
GCN, MRS = "var(--gcn)", "var(--mrs)"


def _graph(drawing: Drawing, graph: Graph, corner: Point, size: Point, radius: float, **how: Any) -> list[Point]:
    """A graph in a box: ``edges`` chooses edges and their colour, ``fill`` colours nodes."""
    points = placed(graph_layout(graph.edge_index, graph.num_nodes), corner, size)
    edges, relation, colour = graph.edge_index, how.get("relation"), how.get("colour", EDGE)
    for a, b in edges.t().tolist():
        if a < b:
            drawing.line(*ends(points[a], points[b], radius), EDGE if relation is None else "var(--grid)", 1.4)
    if relation is not None:
        pairs = set(map(tuple, edges[:, relation].t().tolist()))
        for a, b in pairs:
            if (b, a) not in pairs:
                drawing.arrow(*ends(points[a], points[b], radius), colour, 1.7, min(7.0, 1.1 * radius))
            elif a < b:
                drawing.line(*ends(points[a], points[b], radius), colour, 2.0)
    fill, texts = how.get("fill"), how.get("texts")
    for node, point in enumerate(points):
        entered = relation is None or bool((edges[1, relation] == node).any())
        own = fill[node] if fill else (colour if relation is not None and entered else PAPER)
        rim = own if own != PAPER else (EDGE if relation is not None else SOFT)
        drawing.node(point, radius, own, rim, texts[node] if texts else "", "var(--on-colour)" if fill else INK)
    return points


def hero() -> Drawing:
    """A molecule, a prism and its three relations."""
    drawing = Drawing(920, 300, "A graph enters a prism and leaves it as three relations: up, down and tie")
    graph = play_graph("caffeine")
    types = parse_split("degree")(graph)
    _graph(drawing, graph, (16, 62), (230, 176), 7.5)
    drawing.line((268, 150), (342, 150), SOFT, 3)
    for number, (colour, y) in enumerate(zip(RELATIONS, (52, 150, 248), strict=False)):
        drawing.line((398 + 8 * number, 128 + 22 * number), (560, y), colour, 3)
        drawing.text((578, y - 32), UP_DOWN_TIE[number], colour, 15, weight=700)
        drawing.text((578, y - 14), f"{int((types == number).sum())} edges", SOFT, 12)
        drawing.text((578, y + 4), f"W_{UP_DOWN_TIE[number]}", INK, 15, weight=600)
        _graph(drawing, graph, (690, y - 44), (200, 88), 4.2, relation=types == number, colour=colour)
    drawing.path("M376 84 L434 206 L318 206 Z", "var(--mrs)", 3.4, "var(--mrs)", 0.12)
    return drawing


def ordering() -> Drawing:
    """Nodes with their degrees, larger is darker."""
    drawing = Drawing(620, 290, "The molecule of caffeine; every node shows its degree")
    graph = play_graph("caffeine")
    degrees = orderings.degree(graph).tolist()
    shades = [f"color-mix(in srgb, var(--mrs) {25 + 25 * each:.0f}%, var(--paper))" for each in degrees]
    points = placed(graph_layout(graph.edge_index, graph.num_nodes), (40, 30), (540, 230))
    for a, b in graph.edge_index.t().tolist():
        if a < b:
            drawing.line(*ends(points[a], points[b], 15), EDGE, 1.6)
    for node, point in enumerate(points):
        drawing.node(
            point, 15, shades[node], "var(--mrs)", str(degrees[node]), "var(--on-colour)" if degrees[node] > 1 else INK
        )
    return drawing


def split() -> Drawing:
    """The graph and its three relations, side by side."""
    graph = play_graph("caffeine")
    types = parse_split("degree")(graph)
    drawing = Drawing(900, 470, "Caffeine split by degree into up, down and tie")
    panels = [("graph", None, SOFT), *((name, types == r, RELATIONS[r]) for r, name in enumerate(UP_DOWN_TIE))]
    for number, (name, relation, colour) in enumerate(panels):
        x, y = 450 * (number % 2), 235 * (number // 2)
        count = graph.edge_index.size(1) if relation is None else int(relation.sum())
        drawing.text((x + 14, y + 24), name, colour, 15, weight=700)
        drawing.text((x + 434, y + 24), f"{count} edges", SOFT, 12.5, "end")
        _graph(drawing, graph, (x + 30, y + 48), (390, 160), 8, relation=relation, colour=colour)
    return drawing


@cache
def _simulation() -> Any:
    return simulate(play_graph("caffeine"), "degree", seed=1, width=16, layers=64)


def collapse() -> Drawing:
    """Rank-one distance by layer, with and without a split."""
    found = _simulation()
    drawing = Drawing(680, 330, "Rank-one distance over 64 layers: GCN falls to zero, MRS-GCN does not")
    axes = Axes(drawing, (62, 20), (590, 250), (0, 64), (1e-4, 2), log=True)
    axes.ticks_y([1, 0.1, 0.01, 0.001, 0.0001], ["1", "0.1", "0.01", "0.001", "0.0001"])
    axes.ticks_x([0, 8, 16, 24, 32, 40, 48, 56, 64], "layers")
    for curve, colour in ((found.gcn.distance, GCN), (found.mrs.distance, MRS)):
        axes.curve([(layer, float(value)) for layer, value in enumerate(curve)], colour, 3)
    drawing.halo((axes.at(50, 1)[0], axes.at(50, float(found.mrs.distance[50]))[1] + 26), "MRS-GCN", MRS, 14)
    # above the highest point that the word spans
    drawing.halo((axes.at(30, 1)[0], axes.at(30, float(found.gcn.distance[27:34].max()))[1] - 12), "GCN", GCN, 14)
    return drawing


@torch.no_grad()
def _states(split_by: str | None, layers: list[int]) -> list[np.ndarray]:
    """Cosines between the states of all pairs of nodes, after some layers of random weights."""
    graph = play_graph("caffeine")
    torch.manual_seed(0)
    types = parse_split(split_by)(graph) if split_by else torch.zeros(graph.edge_index.size(1), dtype=torch.long)
    relations, x, found = (3 if split_by else 1), torch.randn(graph.num_nodes, 16).double(), []
    for layer in range(1, max(layers) + 1):
        conv = MRSGCNConv(16, 16, bias=False, num_relations=relations, start="independent").double()
        x = conv(x, graph.edge_index, types).tanh()
        x = x / x.norm()
        if layer in layers:
            unit = x / x.norm(dim=1, keepdim=True).clamp_min(1e-300)
            found.append((unit @ unit.t()).abs().numpy())
    return found


def cosines() -> Drawing:
    """Likeness of the states of all pairs of nodes, by layer."""
    layers = [1, 4, 16, 64]
    drawing = Drawing(
        700, 376, "Absolute cosine between the states of all nodes: with GCN all become 1, with MRS-GCN they do not"
    )
    for row, (name, colour, split_by) in enumerate((("GCN", GCN, None), ("MRS-GCN", MRS, "degree"))):
        y = 34 + 174 * row
        drawing.text((0, y + 76), name, colour, 14, weight=700)
        for column, (layer, cosine) in enumerate(zip(layers, _states(split_by, layers), strict=True)):
            x, cell = 84 + 157 * column, 142 / len(cosine)
            if row == 0:
                drawing.text((x + 71, 22), f"{layer} {'layer' if layer == 1 else 'layers'}", SOFT, 13, "middle")
            drawing.box((x, y), (142, 142), PAPER, "var(--grid)", 4)
            for i, line in enumerate(cosine):
                for j, value in enumerate(line):
                    drawing.box((x + j * cell, y + i * cell), (cell, cell), colour, "none", 0, float(value))
    drawing.text((84, 372), "strong colour: the two nodes hold multiples of one vector", SOFT, 12)
    return drawing


def certificate() -> Drawing:
    """In-degrees of the nodes by relation, and which directions differ."""
    graph = play_graph("caffeine")
    types = parse_split("degree")(graph)
    degrees = weighted_in_degrees(graph.edge_index, types, graph.num_nodes, 3)
    groups = direction_groups(degrees).tolist()
    names = sorted(set(groups), key=groups.index)
    palette = ["var(--up)", "var(--down)", "var(--tie)", "var(--fourth)", "var(--fifth)", "var(--mrs)", SOFT, INK]
    fill = [palette[names.index(each) % len(palette)] for each in groups]
    drawing = Drawing(760, 330, "Nodes coloured by the direction of their in-degrees (up, down, tie)")
    _graph(drawing, graph, (24, 40), (430, 250), 13, fill=fill)
    drawing.text((510, 34), "in-degrees", SOFT, 13)
    for x, name, colour in zip((600, 650, 705), UP_DOWN_TIE, RELATIONS, strict=False):
        drawing.text((x, 34), name, colour, 13, "middle", 700)
    for row, group in enumerate(names):
        y, node = 64 + 30 * row, groups.index(group)
        drawing.node((524, y - 5), 9, palette[row % len(palette)], palette[row % len(palette)])
        drawing.text((542, y), f"×{groups.count(group)}", SOFT, 12.5)
        for x, value in zip((600, 650, 705), degrees[node].tolist(), strict=True):
            drawing.text((x, y), f"{value:g}", INK, 13.5, "middle")
    found = certify(graph, "degree")
    drawing.text((510, 72 + 30 * len(names)), f"rank at least {found.rank}", INK, 14, weight=600)
    drawing.text(
        (510, 92 + 30 * len(names)), f"{100 * (found.share or 0):.0f} % of pairs distinguished", INK, 14, weight=600
    )
    return drawing


# What the message of a neighbour is, what a node does with itself, and what happens to the sum, of each layer.
MESSAGES = {
    "MRSGCNConv": ("c W_{r} x_j", "", "+ b"),
    "MRSSAGEConv": ("W_{r} x_j / d_i", "W x_i", "+ b"),
    "MRSGATConv": ("α_e W_{r} x_j", "", "+ b"),
    "DegreeGATConv": ("α_e W x_j", "", "+ b"),
    "MRSGINConv": ("W_{r} x_j", "(1+ε) W x_i", "then h"),
    "MRSGINEConv": ("W_{r} (x_j +a_e )^+", "(1+ε) W̄ x_i", "then U"),
    "MRSGCNEConv": ("(W_{r} x_j +a_e )^+", "", "+ b"),
    "MRSGatedGCNConv": ("η_e B_{r} x_j", "A x_i", "÷ Σ η_e"),
    "MRSConv": ("f_{r} (x_i , x_j )", "", "then combine"),
    "DirConv": ("W_{r} x_j", "", "α out + (1-α) in"),
    "LMGCConv": ("Σ_h α_h W_h x_j", "Σ_h α_h W_h x_i", "÷ H"),
}
PLAIN = {"DegreeGATConv", "LMGCConv"}


def messages(layer: str) -> Drawing:
    """A node that receives from three neighbours of smaller, larger and equal degree."""
    message, own, after = MESSAGES[layer]
    drawing = Drawing(640, 316 if own else 268, f"Messages of {layer} to one node from neighbours of three relations")
    # node 0 receives; 1 has a smaller degree, 2 a larger, 3 the same: leaves make up the degrees
    edges = [(0, 1), (0, 2), (0, 3), (2, 4), (2, 5), (2, 6), (3, 7), (3, 8)]
    points = [(322, 190), (112, 190), (322, 70), (530, 190), (232, 22), (322, 12), (412, 22), (608, 140), (608, 240)]
    both = torch.tensor(edges).t()
    graph = Graph(torch.cat([both, both.flip(0)], dim=1), len(points))
    types = parse_split("degree")(graph).tolist()
    relation = {tuple(edge): types[at] for at, edge in enumerate(graph.edge_index.t().tolist())}
    for a, b in edges:
        if 0 not in (a, b):
            drawing.line(*ends(points[a], points[b], 9), "var(--grid)", 1.6)
    for other in (1, 2, 3):
        number = relation[other, 0]
        colour = SOFT if layer in PLAIN else RELATIONS[number]
        a, b = ends(points[other], points[0], 22)
        drawing.arrow(a, b, colour, 3.4, 13)
        is_both = layer == "DirConv"
        if is_both:
            drawing.arrow(*ends(points[0], points[other], 24), colour, 2.0, 10, 0.2 if other == 3 else -0.2)
        text, name = message.replace("{r}", UP_DOWN_TIE[number]), "" if layer in PLAIN else UP_DOWN_TIE[number]
        x, y = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
        if other == 2:
            drawing.text((x + 14, y + 4), text, colour, 14.5, weight=600)
            drawing.text((x - (26 if is_both else 14), y + 4), name, colour, 13, "end", 700)
        else:
            drawing.text((x, y - 12), text, colour, 14.5, "middle", 600)
            below = (x - (20 if other == 1 else -10), y + (40 if is_both else 24))
            drawing.text(below, name, colour, 13, "middle", 700)
    if own:
        x, y = points[0]
        drawing.path(f"M{x - 15} {y + 17} C{x - 60} {y + 84} {x + 60} {y + 84} {x + 17} {y + 25}", "var(--fourth)", 3)
        drawing.path(f"M{x + 14} {y + 16} L{x + 12} {y + 31} L{x + 26} {y + 26} Z", "var(--fourth)", 1, "var(--fourth)")
        drawing.text((x, y + 88), own, "var(--fourth)", 14.5, "middle", 600)
    for node, point in enumerate(points):
        if node > 3:
            drawing.node(point, 7, PAPER, EDGE)
        elif node:
            drawing.node(point, 19, PAPER, SOFT, "j")
    drawing.node(points[0], 21, "var(--mrs)", "var(--mrs)", "i", "var(--on-colour)")
    if after:
        drawing.text((322, 308 if own else 258), f"all messages are summed, {after}", SOFT, 13, "middle")
    drawing.text((112, 226), "degree 1", SOFT, 12, "middle")
    drawing.text((348, 76), "degree 4", SOFT, 12)
    drawing.text((530, 226), "degree 3", SOFT, 12, "middle")
    drawing.text((296, 226), "degree 3", SOFT, 12, "end")
    return drawing


def gains() -> Drawing:
    """Split minus plain with intervals, from files of the benchmark; cells of the second replace those of the first."""
    cells = {}
    for name in ("2026-11-16-never-worse-h200.json", "2026-11-16-never-worse-rest-h200.json"):
        for row in json.loads((RESULTS / name).read_text("utf-8")):
            if row["layers"] <= 8 and row["seeds"] == 20:  # at the width of the recipe
                cells[row["layers"], row["recipe"]["name"], [*NAMES].index(row["dataset"])] = row
    rows = [cells[key] for key in sorted(cells)]
    drawing = Drawing(
        760, 84 + 30 * len(rows), "Score of the split network minus that of the plain one, 95 % intervals"
    )
    axes = Axes(drawing, (250, 34), (480, 30 * len(rows)), (-25, 12), (0, 1))
    bottom = 34 + 30 * len(rows)
    for value in (-20, -10, 0, 10):
        x = axes.at(value, 0)[0]
        drawing.line((x, 34), (x, bottom), SOFT if value == 0 else "var(--grid)", 1.2)
        drawing.text((x, bottom + 20), f"{value:+d}" if value else "0", SOFT, 12, "middle")
    drawing.text((250, 20), "equal width", MRS, 13, weight=700)
    drawing.text((350, 20), "equal parameters", GCN, 13, weight=700)
    for number, row in enumerate(rows):
        y = 34 + 30 * number + 15
        name = f"{row['recipe']['name']}, {NAMES[row['dataset']]}, {row['layers']} layers"
        drawing.text((236, y + 4), name, INK, 12.5, "end")
        for key, colour, shift in (("equal width", MRS, -5), ("equal parameters", GCN, 5)):
            low, high = row[key]["interval"]
            drawing.line((axes.at(low, 0)[0], y + shift), (axes.at(high, 0)[0], y + shift), colour, 2.4)
            drawing.node((axes.at(row[key]["difference"], 0)[0], y + shift), 3.8, colour, colour)
    drawing.text((490, bottom + 40 - 4), "points, split minus plain", SOFT, 12.5, "middle")
    return drawing


NAMES = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}


def depth() -> Drawing:
    """Test error by depth: ours as lines, the published means as rings."""
    cells = paper_summary.means("depth")
    drawing = Drawing(700, 380, "Test error on ZINC12k by depth, ours and published")
    axes = Axes(drawing, (56, 20), (500, 300), (1, 32), (0.22, 0.62), log_x=True)
    axes.ticks_y([0.3, 0.4, 0.5, 0.6])
    axes.ticks_x([1, 2, 4, 8, 16, 32], "layers")
    rows = (("GCN", GCN, ""), ("MRS-GCN", MRS, ""), ("GCN + Res", GCN, "6 6"), ("MRS-GCN + Res", MRS, "6 6"))
    for name, colour, dash in rows:
        found = {int(column): pair for (row, column), pair in cells.items() if row == name and column.isdigit()}
        ours = [(layers, own) for layers, (own, _) in sorted(found.items()) if own is not None]
        axes.curve(ours, colour, 2.6, dash)
        for layers, (own, published) in found.items():
            if published is not None:
                drawing.node(axes.at(layers, published), 4.5, "none", colour)
            if own is not None:
                drawing.node(axes.at(layers, own), 2.6, colour, colour)
        drawing.text(
            (axes.at(*ours[-1])[0] + 12, axes.at(*ours[-1])[1] + {"GCN + Res": -4, "MRS-GCN": 16}.get(name, 4)),
            name,
            colour,
            13,
            weight=600,
        )
    drawing.text((540, 56), "line: ours, ring: published", SOFT, 12, "end")
    return drawing


def speed() -> Drawing:
    """Time of one layer, forward and backward, as a multiple of ours."""
    rows = json.loads((RESULTS / "2026-11-16-cpu-1-thread-layers.json").read_text("utf-8"))["rows"]
    rows = [row for row in rows if row["input"] == "arxiv-64-hubs"]
    rows.sort(key=lambda row: row["ms"])
    drawing = Drawing(720, 36 + 40 * len(rows), "Time of one layer, one CPU thread")
    axes = Axes(drawing, (210, 10), (420, 40 * len(rows)), (0, 1.12 * max(row["ms"] for row in rows)), (0, 1))
    for number, row in enumerate(rows):
        y, is_own = 10 + 40 * number, row["contender"] == "graphprism"
        drawing.text((198, y + 22), row["contender"], INK, 13, "end", 700 if is_own else 400)
        width = axes.at(row["ms"], 0)[0] - 210
        drawing.box((210, y + 6), (width, 24), MRS if is_own else "var(--edge)", "none", 5)
        times = "" if is_own else f" ({row['times_graphprism']:.1f}×)"
        drawing.text((218 + width, y + 22), f"{row['ms']:.0f} ms{times}", SOFT, 12.5)
    drawing.text(
        (210, 30 + 40 * len(rows)),
        "169k nodes, 1.17M edges, 64 channels, three relations, forward and backward",
        SOFT,
        12,
    )
    return drawing


PICTURES: dict[str, Callable[[], Drawing]] = {
    each.__name__: each for each in (hero, ordering, split, collapse, cosines, certificate, gains, depth, speed)
}


def draw(name: str) -> Drawing:
    """A picture by its name; ``messages:MRSGCNConv`` is that of a layer."""
    head, _, layer = name.partition(":")
    return messages(layer) if head == "messages" else PICTURES[head]()


class Picture(Directive):
    """``picture``: a name of `PICTURES`, and a caption as content."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """A figure with the drawing inside the page, so that it takes the colours of the page."""
        figure = nodes.container(classes=["drawn", self.arguments[0].partition(":")[0]])
        figure += nodes.raw("", str(draw(self.arguments[0])), format="html")
        if self.content:
            caption = nodes.container(classes=["caption"])
            self.state.nested_parse(self.content, self.content_offset, caption)
            figure += caption
        return [figure]


def setup(app: Sphinx) -> dict[str, Any]:
    """Adds the directive."""
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

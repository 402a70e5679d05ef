"""Your own ordering: any function that gives a number per node splits the edges into up, down and tie.

The two rivals of the karate club are nodes 0 and 33. The ordering is the distance from the nearer one: *up* leads away
from power, *down* towards it. It is compared with the built-in orderings, drawn, and used like them.
"""

# %%
# An ordering is a function of a graph. It may read anything the graph has: features, positions, times.
from pathlib import Path

import torch
from torch_geometric.datasets import KarateClub

import graphprism as gp
from graphprism.plotting import draw_split, save_figure
from graphprism.splitting import by_order


def steps_from_leaders(graph):
    steps = torch.full((graph.num_nodes,), graph.num_nodes)
    steps[[0, 33]] = 0
    source, target = graph.edge_index
    for distance in range(1, graph.num_nodes):
        reached = target[steps[source] == distance - 1]
        steps[reached] = steps[reached].clamp(max=distance)
    return steps


# %%
# `by_order` makes a split of it; a second ordering would decide its ties, and `*` combines it with other splits.
data = KarateClub()[0]
leaders = by_order(steps_from_leaders)
refined = by_order(steps_from_leaders, "ppr")

# %%
# What can be said without training: how many pairs of nodes can a network distinguish by such relations?
conv = gp.nn.MRSGCNConv(34, 16, num_relations=3, start="independent")
print(f"{'ordering':22}{'up':>5}{'down':>6}{'tie':>5}{'rank':>6}{'pairs distinguished':>21}")
for name, split in (
    ("degree", "degree"),
    ("PageRank", "ppr"),
    ("leaders", leaders),
    ("leaders, then PageRank", refined),
):
    found = gp.certify(data, split, layer=conv)
    counts = [relation.num_edges for relation in found.relations]
    print(f"{name:22}{counts[0]:5}{counts[1]:6}{counts[2]:5}{found.rank:6}{found.share:21.0%}")

# %%
# It goes wherever a name goes: into `SplitEdges`, `to_mrs`, and a drawing.
split = gp.SplitEdges(leaders)(data)
gp.check_split(split)
path = Path("outputs/gallery/own_ordering.svg")
title = "The karate club, split by steps from its two leaders, 0 and 33"
save_figure(draw_split(data, leaders, title=title, columns=2), path)
print(path)

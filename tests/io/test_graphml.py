import gzip

import networkx as nx
import pytest
import torch

from graphprism.io import GraphFileError, read_graph

HEAD = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'


@pytest.fixture
def written(tmp_path):
    def write(text, name="graph.graphml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph])
def test_what_networkx_writes(tmp_path, kind):
    graph = nx.gnp_random_graph(12, 0.3, seed=1, directed=kind is nx.DiGraph)
    for number, (source, target) in enumerate(graph.edges):
        graph.edges[source, target].update(weight=number / 2, length=number)
    nx.set_node_attributes(graph, {node: {"mass": node * 0.5, "heavy": node > 5, "name": "x"} for node in graph})
    nx.write_graphml(graph, tmp_path / "graph.graphml")
    ours = read_graph(tmp_path / "graph.graphml")
    expected = [(a, b, data["weight"], data["length"]) for a, b, data in graph.to_directed().edges(data=True)]
    found = zip(*ours.edge_index.tolist(), ours.edge_weight.tolist(), ours.edge_attr.squeeze(1).tolist(), strict=True)
    assert sorted(found) == sorted(expected)
    columns = [[node * 0.5 for node in range(12)], [float(node > 5) for node in range(12)]]
    assert sorted(ours.x.t().tolist()) == sorted(columns)
    assert ours.labels == tuple(map(str, range(12)))


def test_gz_and_a_byte_order_mark(written):
    content = '<node id="a"/><node id="b"/><edge source="b" target="a"/>'
    text = f'\ufeff{HEAD}<graph id="two" edgedefault="directed">{content}</graph></graphml>'
    for content in (text.encode(), gzip.compress(text.encode())):
        graph = read_graph(written(content, "any.name"))
        assert graph.edge_index.tolist() == [[1], [0]]
        assert graph.name == "two"
        assert graph.x is None


def test_an_edge_may_be_directed_for_itself(written):
    edges = '<edge source="a" target="b"/><edge source="b" target="c" directed="true"/><edge source="c" target="c"/>'
    nodes = "".join(f'<node id="{name}"/>' for name in "abc")
    graph = read_graph(written(f'{HEAD}<graph edgedefault="undirected">{nodes}{edges}</graph></graphml>'))
    assert graph.edge_index.tolist() == [[0, 1, 2, 1], [1, 2, 2, 0]]


def test_defaults_and_attributes_that_are_missing(written):
    keys = (
        '<key id="k" for="node" attr.name="mass" attr.type="double"><default>1.5</default></key>'
        '<key id="l" for="node" attr.name="rare" attr.type="int"/>'
    )
    nodes = '<node id="a"><data key="k">2</data><data key="l">3</data></node><node id="b"/>'
    graph = read_graph(written(f"{HEAD}{keys}<graph>{nodes}</graph></graphml>"))
    assert graph.x.tolist() == [[2.0], [1.5]]
    assert graph.edge_index.shape == (2, 0)
    assert graph.edge_index.dtype == torch.long
    assert graph.note == "not read: node attribute 'rare' (1 of 2 nodes have one)"


def test_attributes_that_are_left_out_are_named(written):
    keys = (
        '<key id="k" for="all" attr.name="weight" attr.type="double"/>'
        '<key id="t" for="all" attr.name="kind" attr.type="string"/>'
        '<key id="u" for="node" attr.name="unused" attr.type="int"/>'
    )
    nodes = (
        '<node id="a"><data key="k">2</data><data key="t">red</data></node><node id="b"><data key="k">1</data></node>'
    )
    edges = '<edge source="a" target="b"><data key="k">3</data></edge><edge source="b" target="a"/>'
    whole = read_graph(written(f"{HEAD}{keys}<graph>{nodes}</graph></graphml>"))
    assert (whole.x.tolist(), whole.note) == ([[2.0], [1.0]], "not read: node attribute 'kind' (text)")
    part = read_graph(written(f"{HEAD}{keys}<graph>{nodes}{edges}</graph></graphml>"))
    assert part.edge_weight is None
    assert part.note == "not read: node attribute 'kind' (text); edge attribute 'weight' (1 of 2 edges have one)"


def test_many_edges_keep_their_text_apart(written):
    """Text may reach the reader in pieces: a megabyte of elements crosses every border between blocks."""
    keys = '<key id="w" for="edge" attr.name="weight" attr.type="double"/>'
    edges = "".join(f'<edge source="a" target="b"><data key="w">{k}</data></edge>\n' for k in range(20_000))
    graph = read_graph(
        written(f'{HEAD}{keys}<graph edgedefault="directed"><node id="a"/><node id="b"/>{edges}</graph></graphml>')
    )
    assert graph.edge_weight.tolist() == list(range(20_000))


BOMB = (
    '<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>\n'
    + HEAD
    + "<graph><node id='&b;'/></graph></graphml>"
)
BAD = {
    "entities": (BOMB, "line 1: document types and entities are not read"),
    "entities in utf-16": (BOMB.encode("utf-16"), "line 1: document types and entities are not read"),
    "an external file": (
        '<!DOCTYPE g SYSTEM "file:///etc/passwd"><graphml/>',
        "document types and entities are not read",
    ),
    "cut off": (f"{HEAD}\n<graph>\n<node id='a'/>\n<no", "line 4: must be well-formed XML"),
    "not closed": (f"{HEAD}\n<graph>\n</graphml>", "line 3: must be well-formed XML: mismatched tag"),
    "not GraphML": ("<html></html>", "line 1: must be GraphML, got XML that begins with <html>"),
    "no nodes": (f"{HEAD}<graph/></graphml>", "holds no nodes"),
    "unknown end": (
        f"{HEAD}<graph><node id='a'/>\n<edge source='a' target='z'/></graph></graphml>",
        "line 2: the target of an edge must be a node above it, got 'z'",
    ),
    "no end": (
        f"{HEAD}<graph><node id='a'/><edge source='a'/></graph></graphml>",
        "<edge> must have an attribute 'target'",
    ),
    "twice": (f"{HEAD}<graph><node id='a'/>\n<node id='a'/></graph></graphml>", "line 2: node 'a' occurs twice"),
    "two graphs": (f"{HEAD}<graph><node id='a'/></graph>\n<graph/></graphml>", "line 2: holds more than one graph"),
    "nested": (f"{HEAD}<graph><node id='a'><graph/></node></graph></graphml>", "holds more than one graph"),
    "hyperedge": (f"{HEAD}<graph><hyperedge/></graph></graphml>", "edges of more than two ends are not read"),
    "not a number": (
        f"{HEAD}<key id='k' for='node' attr.type='int'/><graph>\n<node id='a'><data key='k'>x</data></node></graph>",
        "line 2: 'x' must be a number, as its key says",
    ),
}


@pytest.mark.parametrize("case", BAD, ids=lambda name: name.replace(" ", "-"))
def test_bad_files_end_in_one_sentence(written, case):
    content, message = BAD[case]
    with pytest.raises(GraphFileError) as caught:
        read_graph(written(content))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)

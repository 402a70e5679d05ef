"""Weights of edges in tables and GraphML files."""

from pathlib import Path

import pytest
import torch

import graphprism as gp
from graphprism.datasets import from_files, read, save
from graphprism.datasets.graph_tables import _COLUMNS
from graphprism.io.edge_list import _WEIGHT_NAMES
from graphprism.training import Run, train
from tests.datasets.own_files import write

COUNT = 20


def shop(folder: Path, header: str = "source,target,weight", third: str = "{}", extra: str = "") -> Path:
    """A ring, whose edge from node n has the weight n + 0.5."""
    people = "id,age,group\n" + "".join(f"p{n},{n * 7 % 11},{'ab'[n % 2]}\n" for n in range(COUNT))
    ring = "".join(f"p{n},p{(n + 1) % COUNT},{third.format(n + 0.5)}\n" for n in range(COUNT))
    return write(folder, nodes=people, edges=f"{header}\n{ring}{extra}")


def weights(dataset) -> dict[tuple[int, int], float]:
    return dict(zip(zip(*dataset.edge_index.tolist(), strict=True), dataset.edge_weight.tolist(), strict=True))


@pytest.mark.parametrize("name", ["weight", "Edge Weight", "w", "strength"])
def test_from_files_takes_a_column_of_weights_both_ways(tmp_path: Path, name: str) -> None:
    dataset = from_files(shop(tmp_path, f"source,target,{name}"), "group")
    found = weights(dataset)
    assert (len(found), dataset.edge_index.size(1), dataset.edge_attr) == (2 * COUNT, 2 * COUNT, None)
    assert all(found[n, (n + 1) % COUNT] == found[(n + 1) % COUNT, n] == n + 0.5 for n in range(COUNT))
    ways = f"--drop {name} leaves it out, --number {name} makes it a feature"
    assert f"edges.csv: column {name!r} is the weight of the edges ({ways})." in dataset.preprocessing["notices"]


def test_a_directed_edge_keeps_its_weight(tmp_path: Path) -> None:
    found = weights(from_files(shop(tmp_path), "group", directed=True))
    assert found == {(n, (n + 1) % COUNT): n + 0.5 for n in range(COUNT)}


def test_from_files_takes_the_column_that_is_named(tmp_path: Path) -> None:
    dataset = from_files(shop(tmp_path, "source,target,trust"), "group", columns={"weight": "trust"})
    assert weights(dataset)[3, 4] == 3.5
    assert not any("trust" in each for each in dataset.preprocessing["notices"])
    plain = from_files(tmp_path, "group")
    assert plain.edge_weight is None
    assert plain.edge_attr is not None


@pytest.mark.parametrize("options", [{"drop": ("weight",)}, {"categories": ("weight",)}, {"numbers": ("weight",)}])
def test_a_column_may_be_no_weight(tmp_path: Path, options) -> None:
    dataset = from_files(shop(tmp_path), "group", **options)
    assert dataset.edge_weight is None
    assert (dataset.edge_attr is None) == ("drop" in options)
    assert "weight" not in dataset.preprocessing["names"]  # as data sets from before have it


def test_text_is_no_weight_unless_it_is_named(tmp_path: Path) -> None:
    folder = shop(tmp_path, third="x{}")
    assert from_files(folder, "group").edge_weight is None
    with pytest.raises(
        ValueError, match=r"edges.csv: the column 'weight' must hold the weight of every edge, got 'x0.5' in row 1$"
    ):
        from_files(folder, "group", columns={"weight": "weight"})


def test_a_missing_weight_is_refused_with_a_way_out(tmp_path: Path) -> None:
    folder = shop(tmp_path, extra="p3,p9,\n")
    must = r"edges.csv: the column 'weight' must hold the weight of every edge, got none in row 21; correct the table"
    with pytest.raises(ValueError, match=must):
        from_files(folder, "group")


@pytest.mark.parametrize("text", ["inf", "-1e300"])
def test_a_weight_that_float32_cannot_hold_is_refused(tmp_path: Path, text: str) -> None:
    folder = shop(tmp_path, extra=f"p3,p9,{text}\n")
    must = rf"must hold the weight of every edge, got {text.replace('e', 'e.')} in row 21"
    with pytest.raises(ValueError, match=must):
        from_files(folder, "group")


def test_a_node_column_may_be_called_weight(tmp_path: Path) -> None:
    folder = shop(tmp_path)
    text = (folder / "nodes.csv").read_text("utf-8").replace("age", "weight")
    (folder / "nodes.csv").write_text(text, "utf-8")
    dataset = from_files(folder, "group")
    assert [each["name"] for each in dataset.preprocessing["nodes"]] == ["weight"]
    assert dataset.edge_weight is not None


def test_repeated_edges_with_other_weights_all_count(tmp_path: Path) -> None:
    dataset = from_files(shop(tmp_path, extra="p0,p1,9\np2,p3,2.5\n"), "group", directed=True)
    assert dataset.edge_index.size(1) == COUNT + 1
    ends = dataset.edge_index.T.tolist()
    first = [weight for edge, weight in zip(ends, dataset.edge_weight.tolist(), strict=True) if edge == [0, 1]]
    assert sorted(first) == [0.5, 9.0]
    notices = dataset.preprocessing["notices"]
    assert "1 duplicate edge merged." in notices
    assert "1 edge with the ends of another one and a different weight: all of them count." in notices


def test_weights_of_graphml(tmp_path: Path) -> None:
    nodes = "".join(f'<node id="n{n}"><data key="g">{"ab"[n % 2]}</data></node>' for n in range(COUNT))
    edges = "".join(
        f'<edge source="n{n}" target="n{(n + 1) % COUNT}"><data key="w">{n + 0.5}</data></edge>' for n in range(COUNT)
    )
    keys = '<key id="g" for="node" attr.name="group" attr.type="string"/>'
    keys += '<key id="w" for="edge" attr.name="weight" attr.type="double"/>'
    text = f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{keys}<graph edgedefault="directed">{nodes}{edges}'
    (tmp_path / "ring.graphml").write_text(f"{text}</graph></graphml>", "utf-8")
    assert weights(from_files(tmp_path / "ring.graphml", "group"))[3, 4] == 3.5


def test_weights_of_graphs(tmp_path: Path) -> None:
    nodes, edges, graphs = ["graph,id,kind"], ["graph,source,target,weight"], ["graph,energy"]
    for number in range(COUNT):
        nodes += [f"g{number},{node},{'ab'[node % 2]}" for node in range(3)]
        edges += [f"g{number},0,1,{number + 0.5}", f"g{number},1,2,{number + 0.25}"]
        graphs.append(f"g{number},{'' if number == 4 else number / 3}")
    folder = write(tmp_path, nodes="\n".join(nodes), edges="\n".join(edges), graphs="\n".join(graphs))
    dataset = from_files(folder, "energy")
    assert len(dataset) == COUNT - 1
    for place, number in enumerate(each for each in range(COUNT) if each != 4):
        assert sorted(dataset[place].edge_weight.tolist()) == sorted(2 * [number + 0.5, number + 0.25])


def test_new_nodes_join_a_weighted_graph(tmp_path: Path) -> None:
    folder = shop(tmp_path / "shop")
    dataset = from_files(folder, "group", name="shop")
    save(dataset, tmp_path / "shop.npz")
    run = Run("shop", "gcn", layers=2, width=8, epochs=2, batch_size=None)
    train(run, read(tmp_path / "shop.npz"), folder=tmp_path / "runs", accelerator="cpu")
    new = write(tmp_path / "new", nodes="id,age\nq0,3\n", edges="source,target,weight\nq0,p1,4\n")
    predictor = gp.load(tmp_path / "runs")
    packed = predictor.predict(new, graph=tmp_path / "shop.npz")
    tables = predictor.predict(new, graph=folder)
    assert (packed.ids, packed.scores.tolist()) == (tables.ids, tables.scores.tolist())
    heavy = write(tmp_path / "heavy", nodes="id,age\nq0,3\n", edges="source,target,weight\nq0,p1,40\n")
    assert not torch.equal(predictor.predict(heavy, graph=folder).scores, tables.scores)
    bare = write(tmp_path / "bare", nodes="id,age\nq0,3\n", edges="source,target\nq0,p1\n")
    with pytest.raises(ValueError, match=r"edges\.csv: must have the column 'weight'"):
        predictor.predict(bare, graph=tmp_path / "shop.npz")


def test_import_and_inspect_know_the_same_names() -> None:
    assert {*_COLUMNS["weight"]} == {name.replace("_", "") for name in _WEIGHT_NAMES}

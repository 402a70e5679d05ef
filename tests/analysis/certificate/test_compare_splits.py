import importlib
import io

import pytest
import torch
from rich.console import Console

from graphprism.analysis.certificate import SplitComparison, certify, compare_splits
from graphprism.splitting import Graph, by_attribute, by_direction, by_order

PATH = Graph(torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), 4)


def test_each_split_as_by_itself():
    comparison = compare_splits(PATH, ["degree", by_direction(), "random"])
    assert comparison.names == ("degree", "by_direction()", "random")
    for name, split in zip(comparison.names, ["degree", by_direction(), "random"], strict=True):
        assert comparison[name] == certify(PATH, split)


def test_splits_that_agree_on_every_edge_share_a_certificate(monkeypatch):
    certified = []
    module = importlib.import_module("graphprism.analysis.certificate.certify")
    plain = module.certify_relation
    monkeypatch.setattr(module, "certify_relation", lambda *a: certified.append(a[0]) or plain(*a))
    triangle = Graph(torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]), 3)
    splits = {"degree": "degree", "core": "core", "random": "random", "reversed": by_order("core", "degree")}
    comparison = compare_splits(triangle, splits)
    assert len(certified) == 2 * 3  # ties alone, three times, and a random order
    for name, split in splits.items():
        assert comparison[name] == certify(triangle, split)


def test_splits_that_agree_but_name_relations_otherwise_keep_their_names():
    one_way = Graph(torch.tensor([[0, 1], [1, 2]]), 3)
    comparison = compare_splits(one_way, {"order": by_order(torch.arange(3)), "direction": by_direction()})
    for name, split in (("order", by_order(torch.arange(3))), ("direction", by_direction())):
        assert comparison[name] == certify(one_way, split)


def test_names_of_a_mapping_and_options():
    comparison = compare_splits([PATH, PATH], {"mine": by_order("degree")}, aggregation="sym")
    assert comparison["mine"] == certify([PATH, PATH], "degree", aggregation="sym")


def test_json_and_back():
    comparison = SplitComparison(("degree",), (certify(PATH, "degree"),), (("features", "there are none"),))
    assert SplitComparison.from_json(comparison.to_json()) == comparison


def test_a_row_for_each_split():
    comparison = SplitComparison(("degree",), (certify(PATH, "degree"),), (("features", "there are none"),))
    _, degree, features, *_ = str(comparison).splitlines()
    assert [cell.strip() for cell in degree.split("  ") if cell] == [
        "degree", "2 of 3", "66.7 %", "up 33 %, down 33 %, tie 33 %", "up, down", "none",
    ]  # fmt: skip
    assert features.split() == ["features", "skipped:", "there", "are", "none"]
    assert "sufficient, not necessary" in str(comparison)
    out = io.StringIO()
    Console(file=out, width=300).print(comparison)
    assert "up 33 %, down 33 %, tie 33 %" in out.getvalue()


def test_bad_input():
    with pytest.raises(TypeError, match=r"`splits` must be a list .* got the string 'degree'"):
        compare_splits(PATH, "degree")
    with pytest.raises(ValueError, match="different names, got 'degree' twice"):
        compare_splits(PATH, ["degree", "degree"])
    with pytest.raises(KeyError, match="no split 'core' among"):
        compare_splits(PATH, ["degree"])["core"]


def test_split_with_many_relations_is_shown_by_the_largest_ones():
    edges = torch.stack([torch.arange(30), torch.arange(1, 31)])
    for types, words in (
        (torch.arange(30) % 8, "0 13 %, 1 13 %, 2 13 %, 3 13 %, 4 13 %, 5 13 %, and 54 more, 52 of them without edges"),
        (torch.arange(30) % 5, "0 20 %, 1 20 %, 2 20 %, 3 20 %, 4 20 %, 5 0 %, and 54 more, without edges"),
    ):
        graph = Graph(edges, num_nodes=31, edge_attr=types)
        text = str(compare_splits(graph, {"types": by_attribute("edge_attr", 60)}))
        row = text.splitlines()[1]
        assert words in row
        assert "60 of 60" in row  # acyclic
        assert len(row) < 160

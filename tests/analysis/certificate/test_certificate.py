import dataclasses
import io

import pytest
import torch
from rich.console import Console

from graphprism._text import percent, two_decimals
from graphprism.analysis.certificate import Certificate, certify
from graphprism.splitting import Graph

PATH = Graph(torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), 4)
CERTIFICATE = certify(PATH, "degree")
MANY = certify([PATH, PATH, Graph(torch.tensor([[0], [0]]), 1)], "degree")


@pytest.mark.parametrize("certificate", [CERTIFICATE, MANY, certify(PATH, "degree", aggregation="sym")])
def test_json_and_back(certificate):
    assert Certificate.from_json(certificate.to_json()) == certificate


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CERTIFICATE.num_nodes = 3


def test_the_sentence():
    assert CERTIFICATE.sentence == (
        'A layer with aggregation "sum" has, for generic weights and input (almost all, not all), rank at least 2; '
        "67 % of node pairs are distinguished (mapped to linearly independent vectors), on one relation 0 %. Proven "
        "for at least 3 channels and an injective activation, such as tanh, or none; sufficient, not necessary. It "
        "says nothing about accuracy. `layer=` certifies the layer that will run."
    )


def test_the_sentence_of_a_dataset():
    assert "rank at least 1 on each of 3 graphs (1.66 on average); " in MANY.sentence


def test_nothing_is_claimed_where_nothing_is_proven():
    alone = certify(PATH, torch.zeros(6, dtype=torch.long)).sentence
    assert alone.startswith("There is one relation: no two nodes are structurally independent, whatever the aggreg")
    assert alone.endswith("It says nothing about accuracy.")
    dependent = certify(PATH, torch.zeros(6, dtype=torch.long), num_relations=2).sentence
    assert "nothing is proven" in dependent
    assert "rank at least" not in dependent


def test_a_share_is_not_rounded_to_all_or_nothing():
    nearly = dataclasses.replace(CERTIFICATE, independent_pairs=99_960, total_pairs=100_000)
    barely = dataclasses.replace(CERTIFICATE, independent_pairs=40, total_pairs=100_000)
    assert "; 99.96 % of node pairs" in nearly.sentence
    assert "; 0.04 % of node pairs" in barely.sentence


def test_percent():
    assert [percent(part, 200) for part in (0, 1, 100, 199, 200)] == ["0 %", "0.5 %", "50 %", "99.5 %", "100 %"]
    assert percent(10**13 - 1, 10**13) == "99.99999999999 %"
    assert percent(1, 3, decimals=1) == "33.3 %"
    assert two_decimals(2.999417) == "2.99"


def test_properties():
    assert CERTIFICATE.share == 4 / 6
    assert MANY.rank == 1
    assert MANY.mean_rank == pytest.approx(5 / 3)
    assert certify(Graph(torch.zeros(2, 0, dtype=torch.long), 1), "degree").share is None


def test_plain_text():
    text = str(CERTIFICATE)
    header, up, _, tie, *_ = text.splitlines()
    assert header.split() == ["relation", "edges", "share", "acyclic", "a", "cycle", "roots", "ergodic"]
    assert up.split() == ["up", "2", "33.3", "%", "yes", "2", "(2", "with", "edges)", "no"]
    assert "1 → 2 → 1" in tie
    assert "structural rank: 2 of 3 relations" in text
    assert "structurally independent pairs: 4 of 6" in text
    assert "witnesses: nodes 0 (0, 1, 0) and 1 (1, 0, 1)" in text
    assert text.endswith(CERTIFICATE.sentence)


def test_text_of_a_dataset_names_graphs():
    text = str(MANY)
    assert "structural rank: 1 on 1, 2 on 2 graphs; mean 1.66" in text
    assert "1 → 2 → 1 in graph 0" in text
    assert "of graph 0" in text
    assert "on 1 of 3 graphs" in text  # the loop alone is ergodic


def test_a_long_cycle_is_cut_in_text_alone():
    ring = torch.stack([torch.arange(9), (torch.arange(9) + 1) % 9])
    certificate = certify(Graph(ring, 9), torch.zeros(9, dtype=torch.long))
    assert certificate.relations[0].cycle == tuple(range(9))
    assert "0 → 1 → 2 → 3 → (5 more) → 0" in str(certificate)


def test_rich_shows_the_same():
    out = io.StringIO()
    Console(file=out, width=300).print(CERTIFICATE)
    shown = out.getvalue()
    assert CERTIFICATE.sentence in " ".join(shown.split())
    assert "1 → 2 → 1" in shown


def test_names_with_brackets_are_not_markup():
    odd = dataclasses.replace(
        CERTIFICATE, relations=tuple(dataclasses.replace(part, name="[red]") for part in CERTIFICATE.relations)
    )
    out = io.StringIO()
    Console(file=out, width=300).print(odd)
    assert "[red]" in out.getvalue()

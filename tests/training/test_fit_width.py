import pytest

from graphprism.datasets import molecules
from graphprism.training import Run, build_model, fit_width
from graphprism.training.build_model import parameters_of

# Widths of eight layers within 500,000 parameters: the paper's parameter table.
WIDTHS = {
    "gcn": 247,
    "mrs-gcn": 143,
    "sage": 175,
    "mrs-sage": 124,
    "gat": 174,
    "gat-degree": 174,
    "mrs-gat": 101,
    "gin": 143,
    "mrs-gin": 101,
    "gated-gcn": 110,
    "mrs-gated-gcn-9": 82,
}


@pytest.mark.parametrize("model", WIDTHS)
def test_widths_are_those_of_the_paper(model):
    run, dataset = Run(model=model, layers=8, start="independent"), molecules(10)
    assert fit_width(500_000, lambda width: parameters_of(run, dataset, width)) == WIDTHS[model]


@pytest.mark.parametrize("budget", [10, 11, 12, 1000, 1023, 1024, 1025])
def test_the_next_width_would_be_too_much(budget):
    width = fit_width(budget, lambda d: d * d + 9)
    assert width * width + 9 <= budget < (width + 1) ** 2 + 9


def test_a_budget_that_is_too_small():
    with pytest.raises(ValueError, match=r"`budget` must allow a width of 9, which takes .* parameters, got 100"):
        build_model(Run(budget=100, pe=8), molecules(10))


def test_positional_features_count_as_channels():
    network = build_model(Run(model="gcn", layers=2, budget=1000, pe=8), molecules(10))
    assert network.encoder.weight.size(1) + 8 == network.head.in_channels


def test_a_model_that_does_not_grow_is_refused():
    with pytest.raises(ValueError, match="must increase with the width, got 3 at"):
        fit_width(10, lambda width: 3)

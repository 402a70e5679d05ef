import numpy as np
import pytest

from graphprism.datasets.raw import quantile_labels
from tests.datasets.raw.raw_node_files import YEARS


def by_definition(values: np.ndarray, num_classes: int) -> list[int]:
    """Class k holds what is at least quantile k / C and below quantile (k + 1) / C; the last one all above."""
    bounds = [-np.inf, *(np.quantile(values, k / num_classes) for k in range(1, num_classes)), np.inf]
    return [next(k for k in range(num_classes) if bounds[k] <= value < bounds[k + 1]) for value in values]


def test_by_hand():
    # The quintiles are 2001, 2004.2, 2006.8 and 2010.2.
    assert quantile_labels(YEARS, 5).tolist() == [0, 1, 1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("seed", range(4))
def test_against_the_definition(seed):
    values = np.random.default_rng(seed).integers(1990, 2000, 200)
    assert quantile_labels(values, 5).tolist() == by_definition(values, 5)


def test_a_value_that_is_missing_has_no_class_and_moves_no_boundary():
    values = np.array([1.0, np.nan, 2.0, 3.0, 4.0])
    assert quantile_labels(values, 2).tolist() == [0, -1, 0, 1, 1]


def test_bad_values():
    for values in (np.full(3, np.nan), np.ones((2, 2))):
        with pytest.raises(ValueError, match="`values` must hold numbers in shape"):
            quantile_labels(values, 5)

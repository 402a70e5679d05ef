import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphprism.analysis.certificate import direction_groups
from tests.pairwise import all_pairs

ENTRY = st.integers(-3, 3)


@st.composite
def rows(draw, columns=3):
    return torch.tensor(draw(st.lists(st.tuples(*[ENTRY] * columns), min_size=1, max_size=12)), dtype=torch.float64)


def partition(groups):
    return {tuple(np.flatnonzero(groups == group)) for group in np.unique(groups)}


def test_by_hand():
    matrix = torch.tensor([[4, 2], [0, 0], [2, 1], [3, 2], [-2, -1], [0, 5], [0, -1]])
    assert direction_groups(matrix).tolist() == [0, -1, 0, 1, 0, 2, 2]


def test_graphs_share_no_group():
    assert direction_groups(torch.ones(3, 2), torch.tensor([0, 1, 0])).tolist() == [0, 1, 0]


@given(rows(), st.data())
def test_scaling_a_row_never_moves_it(matrix, data):
    """Rounding included: each row times its own irrational number of either sign."""
    factors = [data.draw(st.floats(1e-3, 1e3)) * data.draw(st.sampled_from([-1, 1])) for _ in matrix]
    scaled = matrix * (torch.tensor(factors, dtype=torch.float64) * np.pi)[:, None]
    assert partition(direction_groups(scaled).numpy()) == partition(direction_groups(matrix).numpy())


@given(rows())
def test_whole_numbers_and_the_same_numbers_halved_by_a_third_agree(matrix):
    assert direction_groups(matrix / 3).tolist() == direction_groups(matrix).tolist()


def groups_by_definition(matrix, batch, tolerance):
    """Splits sets of rows at the gaps of every entry of the projector, over and over until none is left."""
    projector = matrix[:, :, None] * matrix[:, None, :] / (matrix**2).sum(1)[:, None, None]
    sets = [np.flatnonzero(batch == graph) for graph in np.unique(batch)]
    while True:
        split = sets
        for entry in projector.reshape(len(matrix), -1).T:
            split = [part for group in split for part in split_at_gaps(group, entry, tolerance)]
        if len(split) == len(sets):
            return {tuple(sorted(group)) for group in split}
        sets = split


def split_at_gaps(group, entry, tolerance):
    ordered = group[np.argsort(entry[group], kind="stable")]
    return np.split(ordered, 1 + np.flatnonzero(np.diff(entry[ordered]) > tolerance))


@all_pairs(tolerance=[1e-9, 1e-3, 0.02, 0.1], shape=[(30, 2, 1.0), (80, 3, 0.7), (60, 6, 0.3), (40, 16, 0.1)])
def test_groups_are_those_of_the_definition(shape, tolerance):
    num_rows, columns, density = shape
    random = np.random.default_rng(columns)
    matrix = random.uniform(0.5, 1, (num_rows, columns)) * (random.random((num_rows, columns)) < density)
    matrix[:, 0] += 0.1 * (matrix.sum(1) == 0)
    matrix[num_rows // 2 :] = matrix[: num_rows // 2] * random.uniform(-2, -1, (num_rows // 2, 1))
    matrix[::3] *= 1 + 1e-4 * random.random(matrix[::3].shape)
    batch = random.integers(0, 2, num_rows)
    groups = direction_groups(torch.from_numpy(matrix), torch.from_numpy(batch), tolerance=tolerance)
    assert partition(groups.numpy()) == groups_by_definition(matrix, batch, tolerance)


def test_the_largest_entry_may_change_place_by_rounding():
    """(1, -1) and (1, -1 - 2^-52): scaled by the largest entry they would point opposite ways."""
    matrix = torch.tensor(
        [[1.0, -1.0], [1.0, -1.0 - 2.0**-52], [1.0 + 2.0**-52, -1.0], [1.0, -0.9]], dtype=torch.float64
    )
    assert direction_groups(matrix).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("cell", [1, 2, 3, 7, 1000])
def test_no_border_of_a_cell_tears_a_group_apart(cell):
    """Values on both sides of any rounding border k * tolerance (and k + 1/2) stay together."""
    tolerance = 1e-6
    for border in (cell * tolerance, (cell + 0.5) * tolerance):
        matrix = torch.tensor([[1.0, border - 1e-15], [1.0, border + 1e-15]], dtype=torch.float64)
        assert direction_groups(matrix, tolerance=tolerance).tolist() == [0, 0]


def test_large_whole_numbers_are_told_apart_exactly():
    """Their directions differ by 10^-14, far below the tolerance."""
    matrix = torch.tensor([[10.0**7, 1.0], [10.0**7 + 1, 1.0], [2.0 * 10**7, 2.0]], dtype=torch.float64)
    assert direction_groups(matrix).tolist() == [0, 1, 0]


def test_entries_too_large_to_pack_into_one_key():
    big = 2.0**52 - 1
    matrix = torch.tensor([[big, 1, 1], [big, 1, 2], [1, big, 1], [big, 1, 1]], dtype=torch.float64)
    assert direction_groups(matrix).tolist() == [0, 1, 2, 0]


def test_the_tolerance_is_the_border():
    matrix = torch.tensor([[1.0, 0.5], [1.0, 0.5 + 1e-4]], dtype=torch.float64)
    assert direction_groups(matrix, tolerance=1e-3).tolist() == [0, 0]
    assert direction_groups(matrix, tolerance=1e-6).tolist() == [0, 1]


def test_extreme_magnitudes():
    matrix = torch.tensor([[1e-300, 2e-300], [1e300, 2e300], [2e300, 1e300], [5e-324, 0.0]], dtype=torch.float64)
    assert direction_groups(matrix).tolist() == [0, 0, 1, 2]


def test_an_entry_may_split_again_after_a_later_one_has():
    """The entries of P at (0, 0) are one chain of neighbours, until the sign at (0, 2) takes out every second one."""
    rows = []
    for k in range(4):
        square = 0.5 + 0.9e-3 * k  # the other entries then change half as fast, or not at all
        rows.append([square**0.5, ((1 - square) / 2) ** 0.5, (-1) ** k * ((1 - square) / 2) ** 0.5])
    assert direction_groups(torch.tensor(rows, dtype=torch.float64), tolerance=1e-3).tolist() == [0, 1, 2, 3]
    assert direction_groups(torch.tensor(rows, dtype=torch.float64).abs(), tolerance=1e-3).tolist() == [0, 0, 0, 0]


def test_nothing_in():
    assert direction_groups(torch.zeros(0, 3)).tolist() == []
    assert direction_groups(torch.zeros(2, 3)).tolist() == [-1, -1]
    assert direction_groups(torch.zeros(2, 0)).tolist() == [-1, -1]


def test_bad_input():
    with pytest.raises(ValueError, match="`in_degrees` must not hold NaN"):
        direction_groups(torch.full((2, 2), float("nan")))
    with pytest.raises(ValueError, match="`in_degrees` must have shape"):
        direction_groups(torch.zeros(2))

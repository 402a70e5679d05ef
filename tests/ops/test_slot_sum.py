import pytest
import torch

from graphprism.ops.batched.slot_sum import empty_parts, gated_column_sum, slot_split_sum, slot_sum
from tests.ops.tables import NOTHING

# Two runs, three rows to read, two nodes of two slots. Only an empty slot points to row 2 of run 0.
ROWS = torch.tensor([[[1.0, 10.0], [2.0, 20.0], [NOTHING, float("inf")]], [[3.0, 30.0], [4.0, 40.0], [5.0, 50.0]]])
PLACE = torch.tensor([[[0, 1], [1, 2]], [[2, 0], [1, 1]]], dtype=torch.int32)
WEIGHT = torch.tensor([[[1.0, 0.5], [-3.0, 0.0]], [[2.0, 1.0], [1.0, 1.0]]])
RELATION = torch.tensor([[[0, 1], [1, 0]], [[1, 1], [0, 1]]], dtype=torch.int32)


def test_by_hand():
    assert slot_sum(ROWS, PLACE, WEIGHT).tolist() == [[[2, 20], [-6, -60]], [[13, 130], [8, 80]]]
    bias = torch.tensor([[1.0, 100.0], [0.0, -200.0]])
    assert slot_sum(ROWS, PLACE, WEIGHT, bias).tolist() == [[[3, 120], [-5, 40]], [[13, -70], [8, -120]]]
    root = ROWS[:, :2], torch.tensor([1.0, -2.0])
    assert slot_sum(ROWS, PLACE, WEIGHT, root=root).tolist() == [[[4, 40], [-2, -20]], [[10, 100], [4, 40]]]
    assert slot_sum(ROWS, PLACE, WEIGHT, bias, relu=True).tolist() == [[[3, 120], [0, 40]], [[13, 0], [8, 0]]]


def test_relations_apart_by_hand():
    expected = [[[1, 10, 1, 10], [0, 0, -6, -60]], [[0, 0, 13, 130], [4, 40, 4, 40]]]
    assert slot_split_sum(ROWS, PLACE, WEIGHT, RELATION, 2).tolist() == expected
    # with one relation the column of relations is not looked at
    assert slot_split_sum(ROWS, PLACE, WEIGHT, RELATION + 5, 1).equal(slot_sum(ROWS, PLACE, WEIGHT))


def test_a_gate_lets_through_what_is_positive():
    gate = torch.tensor([[[1.0, 0.0], [0.5, -1.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]])
    rows = ROWS.where(gate > 0, NOTHING)
    expected = [[[1, 0, 1, 0], [0, 0, -6, 0]], [[0, 0, 10, 0], [4, 40, 4, 40]]]
    assert slot_split_sum(rows, PLACE, WEIGHT, RELATION, 2, gate).tolist() == expected
    assert gated_column_sum(rows[1:], gate[1:]).tolist() == [[9, 40]]
    assert gated_column_sum(ROWS[1:]).tolist() == [[12, 120]]
    assert gated_column_sum(ROWS).isnan().tolist() == [[True, False], [False, False]]


def test_sums_of_columns_along_the_way():
    rows, gate = ROWS[1:, :2], torch.tensor([[[1.0, 0.0], [2.0, 2.0]]])
    for given, expected in ((None, [7, 70]), (gate, [7, 40])):
        parts = empty_parts(rows, num_layers=3)
        assert parts.shape == (3, 1, 1, 2)
        slot_split_sum(rows, PLACE[:1, :, :1], WEIGHT[:1, :, :1], RELATION[:1, :, :1], 2, given, parts=parts[2])
        assert gated_column_sum(parts[2]).tolist() == [expected]
    assert gated_column_sum(rows, dtype=torch.float64).dtype == torch.float64


def test_what_is_read_with_a_weight_may_be_nan():
    assert slot_sum(ROWS, PLACE, torch.ones_like(WEIGHT))[0, 1].isnan().any()


def test_writes_where_it_is_told_to():
    for function, more, width in ((slot_sum, (), 2), (slot_split_sum, (RELATION, 2), 4)):
        out = torch.full((3, 2, 2, width), NOTHING)
        found = function(ROWS, PLACE, WEIGHT, *more, out=out[1])
        assert found.data_ptr() == out[1].data_ptr()
        assert found.equal(function(ROWS, PLACE, WEIGHT, *more))
        assert out[0].isnan().all()
        assert out[2].isnan().all()


def test_no_nodes_and_no_runs():
    assert slot_sum(ROWS, PLACE[:, :0], WEIGHT[:, :0]).shape == (2, 0, 2)
    assert slot_split_sum(ROWS[:0], PLACE[:0], WEIGHT[:0], RELATION[:0], 2).shape == (0, 2, 4)


def test_an_unknown_implementation_is_an_error():
    for function, more in ((slot_sum, (PLACE, WEIGHT)), (gated_column_sum, ())):
        with pytest.raises(ValueError, match=r"`impl` must be one of \[.*'reference'.*\] on this machine, got 'fast'"):
            function(ROWS, *more, impl="fast")

"""The kernels behind tables against their references.

`TRITON_INTERPRET=1` runs them on the CPU, where triton is installed.
"""

import os

import pytest
import torch

from graphprism.ops.batched.slot_sum import SLOT_SUM, empty_parts, gated_column_sum, slot_split_sum, slot_sum
from graphprism.testing import tolerance
from tests.ops.tables import NOTHING

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = [] if INTERPRETED else [pytest.mark.gpu]

NODES, SLOTS, RELATIONS = 37, 4, 3
DTYPES = [torch.float64, torch.float32, torch.bfloat16]


@pytest.fixture
def device():
    if "triton" not in SLOT_SUM:
        pytest.skip("the kernels of Triton cannot run on this machine")
    return "cpu" if INTERPRETED else "cuda"


class Case:
    """Tables of K graphs, in which only empty slots point to the last row of each, and that row is not a number."""

    def __init__(self, runs, channels, dtype, device):
        generator = torch.Generator().manual_seed(0)

        def draw(*size):
            return torch.randn(*size, generator=generator, dtype=torch.float64).to(dtype).to(device)

        def numbers(stop):
            return torch.randint(stop, (runs, NODES, SLOTS), generator=generator, dtype=torch.int32)

        self.rows, self.gate = draw(runs, NODES, channels), draw(runs, NODES, channels).relu()
        self.bias = draw(runs, channels)
        # as in a `PaddedAdj`: columns of wider tables
        wide = torch.cat([numbers(NODES - 1), numbers(RELATIONS)], dim=2)
        weight = torch.rand(runs, NODES, 2 * SLOTS, generator=generator).to(dtype)
        empty = torch.rand(runs, NODES, SLOTS, generator=generator) < 0.4
        wide[..., :SLOTS][empty], weight[..., SLOTS:][empty] = NODES - 1, 0
        self.place, self.relation = wide.to(device).split(SLOTS, dim=2)
        self.weight = weight.to(device)[..., SLOTS:]
        self.rows[:, -1] = NOTHING

    def exact(self, function, *names, **more):
        values = (None if name is None else getattr(self, name) for name in names)
        wide = [each.double() if torch.is_tensor(each) and each.is_floating_point() else each for each in values]
        return function(*wide, **more, impl="reference")

    def found(self, function, width, *names, **more):
        values = [None if name is None else getattr(self, name) for name in names]
        out = self.rows.new_full((*self.place.shape[:2], width), NOTHING)  # all of it must be written
        return function(*values, **more, out=out, impl="triton")


def assert_near(ours, exact, dtype):
    assert ours.dtype == dtype
    torch.testing.assert_close(ours.double(), exact, **tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("channels", [21, 63, 144, 256])
@pytest.mark.parametrize("runs", [1, 3])
def test_sums_equal_the_reference(runs, channels, dtype, device):
    case = Case(runs, channels, dtype, device)
    for bias in (None, "bias"):
        for relu in (False, True):
            names = ("rows", "place", "weight", bias)
            found = case.found(slot_sum, channels, *names, relu=relu)
            assert_near(found, case.exact(slot_sum, *names, relu=relu), dtype)
    root = case.rows.nan_to_num(0.5), torch.arange(1, runs + 1, device=device).to(dtype)
    found = case.found(slot_sum, channels, *names[:3], root=root)
    assert_near(found, case.exact(slot_sum, *names[:3], root=tuple(each.double() for each in root)), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("channels", [21, 63, 144, 256])
@pytest.mark.parametrize("runs", [1, 3])
def test_sums_by_relation_equal_the_reference(runs, channels, dtype, device):
    case = Case(runs, channels, dtype, device)
    for gate in (None, "gate"):
        for relations in (1, RELATIONS):
            names, more = ("rows", "place", "weight", "relation"), {"num_relations": relations}
            more["gate"] = None if gate is None else case.gate
            found = case.found(slot_split_sum, relations * channels, *names, **more)
            assert_near(found, case.exact(slot_split_sum, *names, **more), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("channels", [1, 21, 63, 144, 256])
@pytest.mark.parametrize(("runs", "nodes"), [(1, 37), (3, 300)])
def test_sums_of_columns_equal_the_reference(runs, nodes, channels, dtype, device):
    generator = torch.Generator().manual_seed(0)
    rows, gate = torch.randn(2, runs, nodes, channels, generator=generator, dtype=torch.float64).to(dtype).to(device)
    closed = torch.where(gate > 0, rows, NOTHING)
    for values, given in ((rows, None), (closed, gate)):
        ours = gated_column_sum(values, given, impl="triton")
        exact = gated_column_sum(values.double(), given, impl="reference")
        assert_near(ours / nodes**0.5, exact / nodes**0.5, dtype)


@pytest.mark.parametrize("channels", [16, 48, 63, 256])
def test_many_rows_are_cut_otherwise(channels, device, monkeypatch):
    monkeypatch.setattr(SLOT_SUM.kernels, "_MANY", 1)
    case = Case(2, channels, torch.float32, device)
    names = ("rows", "place", "weight")
    assert_near(case.found(slot_sum, channels, *names), case.exact(slot_sum, *names), torch.float32)
    names, more = (*names, "relation"), {"num_relations": RELATIONS}
    found = case.found(slot_split_sum, RELATIONS * channels, *names, **more)
    assert_near(found, case.exact(slot_split_sum, *names, **more), torch.float32)


def test_nan_stays_nan(device):
    case = Case(1, 8, torch.float32, device)
    case.weight[:] = 1
    expected = (case.place == NODES - 1).any(-1)
    assert expected.any()
    out = slot_sum(case.rows, case.place, case.weight, relu=True, impl="triton")
    assert out.isnan().all(-1).equal(expected)


def test_nan_stays_in_its_relation(device):
    case = Case(1, 8, torch.float32, device)
    case.weight[:] = 1
    bad = case.place == NODES - 1
    expected = torch.stack([(bad & (case.relation == each)).any(-1) for each in range(RELATIONS)], dim=-1)
    assert expected.any()
    out = case.found(slot_split_sum, RELATIONS * 8, "rows", "place", "weight", "relation", num_relations=RELATIONS)
    assert out.unflatten(2, (RELATIONS, 8)).isnan().all(-1).equal(expected)


@pytest.mark.parametrize("relations", [4, 5, 9])
def test_many_relations(relations, device):
    case = Case(2, 16, torch.float32, device)
    case.relation = (case.relation * 7 + case.place) % relations
    names, more = ("rows", "place", "weight", "relation"), {"num_relations": relations}
    found = case.found(slot_split_sum, relations * 16, *names, **more)
    assert_near(found, case.exact(slot_split_sum, *names, **more), torch.float32)


@pytest.mark.parametrize("channels", [8, 144])
def test_what_is_not_active_is_left_alone(channels, device, monkeypatch):
    monkeypatch.setattr(SLOT_SUM.kernels, "_MANY", 1)
    case = Case(3, channels, torch.float32, device)
    active = torch.tensor([[0b101], [0], [0b111]], dtype=torch.int32, device=device)
    names, more = ("rows", "place", "weight", "relation"), {"num_relations": RELATIONS}
    found = case.found(slot_split_sum, RELATIONS * channels, *names, **more, active=active)
    there = (active >> torch.arange(RELATIONS, device=device) & 1).bool().repeat_interleave(channels, dim=1)
    there = there[:, None].expand(-1, NODES, -1)
    assert found.isnan().equal(~there)
    assert_near(found[there], case.exact(slot_split_sum, *names, **more)[there], torch.float32)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("many", [1, 4096])
def test_sums_of_columns_along_the_way(many, dtype, device, monkeypatch):
    monkeypatch.setattr(SLOT_SUM.kernels, "_MANY", many)
    case = Case(3, 48, dtype, device)
    case.rows[:, -1] = 1
    active = torch.zeros(3, 1, dtype=torch.int32, device=device)  # nodes that send nothing count as well
    names, more = ("rows", "place", "weight", "relation"), {"num_relations": RELATIONS, "active": active}
    for gate in (None, case.gate):
        parts = empty_parts(case.rows, 2, impl="triton").fill_(NOTHING)
        case.found(slot_split_sum, RELATIONS * 48, *names, **more, gate=gate, parts=parts[1])
        ours = gated_column_sum(parts[1], dtype=dtype, impl="triton")
        exact = gated_column_sum(case.rows.double(), gate, impl="reference")
        assert_near(ours / NODES**0.5, exact / NODES**0.5, dtype)


def test_a_long_run_is_counted_in_wide_numbers(device, monkeypatch):
    module = SLOT_SUM.kernels
    assert module._count(torch.empty(1, 1 << 28, 9, device="meta"), torch.empty(1, 1, 1)) == module.tl.int64
    assert module._count(torch.empty(1, 1 << 27, 9, device="meta"), torch.empty(1, 1, 1)) == module.tl.int32
    monkeypatch.setattr(module, "_count", lambda rows, out: module.tl.int64)
    case = Case(2, 16, torch.float32, device)
    names, more = ("rows", "place", "weight", "relation"), {"num_relations": RELATIONS}
    found = case.found(slot_split_sum, RELATIONS * 16, *names, **more)
    assert_near(found, case.exact(slot_split_sum, *names, **more), torch.float32)
    assert_near(case.found(slot_sum, 16, *names[:3]), case.exact(slot_sum, *names[:3]), torch.float32)


def test_tables_that_a_kernel_cannot_read_are_an_error(device):
    case = Case(3, 8, torch.float32, device)
    turned = case.place.transpose(0, 1).contiguous().transpose(0, 1)
    with pytest.raises(ValueError, match="a table must have its slots side by side and its runs in a row"):
        slot_sum(case.rows, turned, case.weight, impl="triton")

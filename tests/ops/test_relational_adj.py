import copy
import pickle

import pytest
import torch
from torch_geometric.data import HeteroData

from graphprism._checks import _all_in_range
from graphprism.nn import MRSGATConv, MRSGCNConv
from graphprism.ops import RelationalAdj, relational_linear
from tests.ops.cases import make_adj, normal

EDGES, TYPES = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]]), torch.tensor([0, 0, 1, 1])


def make(edges=EDGES, types=TYPES, weight=None, num_relations=2, num_nodes=3):
    return RelationalAdj(edges, types, weight, num_relations=num_relations, num_nodes=num_nodes)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"edges": EDGES.float()}, TypeError, "`edge_index` must hold integers, got torch.float32"),
        ({"edges": EDGES.t()}, ValueError, r"`edge_index` must have shape \[2, E\], got \[4, 2\]"),
        ({"edges": [[0], [1]]}, TypeError, "`edge_index` must be a torch.Tensor, got list"),
        ({"edges": EDGES - 1}, ValueError, r"`edge_index\[0\]` must hold numbers in \[0, 3\), got -1"),
        ({"num_nodes": 2}, ValueError, r"`edge_index\[0\]` must hold numbers in \[0, 2\), got 2"),
        ({"num_nodes": (3, 2)}, ValueError, r"`edge_index\[1\]` must hold numbers in \[0, 2\), got 2"),
        ({"types": TYPES + 1}, ValueError, r"`edge_type` must hold numbers in \[0, 2\), got 2"),
        ({"types": TYPES - 1}, ValueError, r"`edge_type` must hold numbers in \[0, 2\), got -1"),
        ({"types": TYPES[:3]}, ValueError, r"`edge_type` must have shape \[4\], got \[3\]"),
        ({"types": TYPES.float()}, TypeError, "`edge_type` must hold integers, got torch.float32"),
        ({"types": TYPES[:, None]}, ValueError, r"`edge_type` must have shape \[4\], got \[4, 1\]"),
        ({"types": torch.ones(4, 3)}, ValueError, r"`edge_type` must have shape \[4, 2\], got \[4, 3\]"),
        (
            {"types": torch.ones(4, 2).long()},
            TypeError,
            "`edge_type` must hold floating-point numbers of 16 to 64 bits, got torch.int64",
        ),
        ({"types": TYPES.to("meta")}, ValueError, "`edge_type` and `edge_index` must be on the same device"),
        ({"types": None}, ValueError, "`edge_type` must be given for 2 relations, got None"),
        ({"weight": torch.ones(3)}, ValueError, r"`edge_weight` must have shape \[4\], got \[3\]"),
        ({"weight": torch.ones(4, dtype=torch.long)}, TypeError, "`edge_weight` must hold floating-point numbers"),
        ({"num_relations": 0}, ValueError, "`num_relations` must be at least 1, got 0"),
        ({"num_relations": None}, ValueError, "`num_relations` must be given with a 1-D `edge_type`"),
    ],
)
def test_refuses_what_does_not_fit(change, error, message):
    with pytest.raises(error, match=message):
        make(**change)


@pytest.mark.parametrize("name", ["hub", "random", "multi-edges", "no-edges"])
def test_small_graph_of_one_pass_is_sorted_as_any_other_without_conversions(name):
    usual, quick = make_adj(name), make_adj(name)
    quick.one_pass = True
    for ours, theirs in ((quick.incoming, usual.incoming), (quick.outgoing, usual.outgoing)):
        assert "pair_col" not in ours.cache
        for mine, other in zip(ours.indices, theirs.indices, strict=True):
            assert mine.dtype == torch.int64
            assert other.dtype == torch.int32
            assert mine.equal(other.long())
        assert "pair_col" in ours.cache


def test_large_graph_of_one_pass_has_short_indices(monkeypatch):
    monkeypatch.setattr("graphprism.ops.relational_adj._FEWEST_CONVERTED", 0)
    adj = make_adj("random")
    adj.one_pass = True
    assert adj.incoming.col.dtype == torch.int32


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize("stop", [0, 1, 3, 2**40])
def test_range_of_indices(dtype, stop):
    for numbers in ([0], [0, 2, 1], [2, 3], [0, -1], [-1], [100]):
        if dtype == torch.uint8 and min(numbers) < 0:
            continue
        inside = all(0 <= number < stop for number in numbers)
        assert bool(_all_in_range(torch.tensor(numbers, dtype=dtype), stop)) == inside


def test_both_directions_are_sorted_by_node_and_relation():
    adj = make()
    assert adj.incoming.rowptr.tolist() == [0, 0, 1, 2, 3, 4, 4]  # (0,0) (0,1) (1,0) (1,1) (2,0) (2,1)
    assert adj.incoming.col.tolist() == [2, 0, 2, 1]
    assert adj.incoming.pair_col.tolist() == [5, 0, 5, 2]
    assert adj.outgoing.rowptr.tolist() == [0, 1, 1, 2, 2, 2, 4]
    assert adj.outgoing.col.tolist() == [1, 2, 0, 1]
    assert adj.incoming.order.tolist() == [2, 0, 3, 1]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_any_integers_serve(dtype):
    adj, other = make(), make(edges=EDGES.to(dtype), types=TYPES.to(dtype))
    x, weight = normal(3, 2), normal(2, 2, 2)
    torch.testing.assert_close(relational_linear(x, other, weight), relational_linear(x, adj, weight))
    torch.testing.assert_close(relational_linear(x, other, weight, impl="scatter"), relational_linear(x, adj, weight))
    torch.testing.assert_close(other.normalized("dir").edge_weight, adj.normalized("dir").edge_weight)


def test_an_empty_relation_and_an_empty_graph_are_fine():
    adj = make(num_relations=5)
    assert relational_linear(torch.ones(3, 2), adj, torch.ones(5, 2, 2)).tolist() == [[2, 2], [4, 4], [2, 2]]
    empty = make(torch.empty(2, 0, dtype=torch.long), torch.empty(0, dtype=torch.long), num_nodes=0)
    assert relational_linear(torch.ones(0, 2), empty, torch.ones(2, 2, 3)).shape == (0, 3)


def test_transpose_reverses_edges_and_sorts_nothing_again():
    adj = make_adj("random")
    x, weight = normal(30, 3), normal(3, 3, 3)
    back = adj.transpose()
    assert back.incoming is adj.outgoing
    assert back.outgoing is adj.incoming
    fresh = RelationalAdj(adj.edge_index.flip(0), adj.edge_type, adj.edge_weight, num_relations=3, num_nodes=30)
    torch.testing.assert_close(relational_linear(x, back, weight), relational_linear(x, fresh, weight))
    torch.testing.assert_close(
        relational_linear(x, back, weight), relational_linear(x, fresh, weight, impl="reference")
    )


def test_bipartite_sizes():
    adj = RelationalAdj(torch.tensor([[0, 4], [1, 0]]), torch.tensor([0, 1]), num_relations=2, num_nodes=(5, 2))
    weight = normal(2, 3, 2)
    for which in (adj, adj.transpose()):
        x = normal(which.size[0], 3)
        for impl in ("csr", "scatter"):
            out = relational_linear(x, which, weight, impl=impl)
            torch.testing.assert_close(out, relational_linear(x, which, weight, impl="reference"))
    assert repr(adj) == "RelationalAdj(num_nodes=(5, 2), num_edges=2, num_relations=2)"


def test_other_weights_share_the_sorting_and_not_the_values():
    adj = make(weight=torch.ones(4)).prepare()
    x, weight = torch.ones(3, 1), torch.ones(2, 1, 1)
    assert relational_linear(x, adj, weight).flatten().tolist() == [1, 2, 1]
    other = adj.with_weight(torch.full((4,), 10.0))
    assert other.incoming is adj.incoming
    assert relational_linear(x, other, weight).flatten().tolist() == [10, 20, 10]
    assert relational_linear(x, adj, weight).flatten().tolist() == [1, 2, 1]
    with pytest.raises(ValueError, match=r"`edge_weight` must have shape \[4\], got \[5\]"):
        adj.with_weight(torch.ones(5))


def test_normalisation_is_computed_once_for_each_dtype_and_never_kept_with_a_gradient():
    adj = make()
    assert adj.normalized("sym", torch.float64) is adj.normalized("sym", torch.float64)
    assert adj.normalized("sym", torch.float64).edge_weight.dtype == torch.float64
    weight = torch.rand(4, requires_grad=True)
    learned = make(weight=weight)
    for _ in range(2):  # a kept graph of gradients would fail the second time
        learned.normalized("sym").edge_weight.sum().backward()


def test_soft_types_keep_zero_scores_only_where_a_gradient_is_wanted():
    scores = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 0.0]])
    assert make(types=scores).src.tolist() == [0, 1, 1, 2]
    assert make(types=scores.clone().requires_grad_()).src.numel() == 8
    assert make(types=scores, num_relations=None).num_relations == 2


def test_one_hot_scores_are_hard_types():
    x, weight = normal(3, 2), normal(2, 2, 2)
    soft = make(types=torch.nn.functional.one_hot(TYPES).double())
    torch.testing.assert_close(relational_linear(x, soft, weight), relational_linear(x, make(), weight))


def test_copies_pickles_and_moves():
    adj = make_adj("random").with_weight(torch.rand(200, dtype=torch.double)).prepare()
    x, weight = normal(30, 3), normal(3, 3, 3)
    expected = relational_linear(x, adj, weight)
    for other in (copy.deepcopy(adj), pickle.loads(pickle.dumps(adj)), adj.to("cpu")):
        kept = len(other._cache)
        torch.testing.assert_close(relational_linear(x, other, weight), expected)
        assert len(other._cache) == kept  # a copy brings its sorted weights and finds them
    moved = adj.to("meta")
    assert {moved.device.type, moved.incoming.col.device.type, moved.edge_weight.device.type} == {"meta"}
    assert adj.device.type == "cpu"


def test_relational_adj_numbers_pairs_beyond_int32():
    edges = torch.tensor([[2**30], [2**30 + 1]], dtype=torch.int32)
    adj = RelationalAdj(edges, torch.tensor([1], dtype=torch.int32), num_relations=3, num_nodes=2**30 + 2)
    assert adj.pair_src.tolist() == [3 * 2**30 + 1]
    assert adj.pair_dst.tolist() == [3 * (2**30 + 1) + 1]


def test_copies_have_every_attribute():
    adj = RelationalAdj(torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 1]), num_relations=2, num_nodes=2)
    for other in (adj.with_weight(torch.ones(2)), adj.transpose()):
        assert vars(other).keys() == vars(adj).keys()
        assert other._cache is not adj._cache


def test_relational_adj_of_several_types_of_nodes_says_what_to_pass():
    data = HeteroData()
    data["paper"].x = torch.rand(2, 3)
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(TypeError, match=r"`data` must be a torch_geometric Data, got HeteroData: .*to_homogeneous\(\)"):
        RelationalAdj.from_data(data)
    assert RelationalAdj.from_data(data.to_homogeneous(), num_relations=1).num_edges == 2


@pytest.mark.parametrize("make", [lambda: MRSGCNConv(4, 2, num_relations=1, add_self_loops=True),
                                  lambda: MRSGATConv(4, 2, num_relations=1, add_self_loops=True),
                                  lambda: MRSGCNConv(4, 2, num_relations=1)])  # fmt: skip
def test_weights_that_are_trained_stay_so_after_an_evaluation(make):
    torch.manual_seed(0)
    x, edges = torch.randn(3, 4), torch.tensor([[0, 1, 2, 0], [1, 2, 0, 2]])
    weight = torch.nn.Parameter(torch.ones(4))
    adj, conv = RelationalAdj(edges, edge_weight=weight, num_nodes=3), make()
    with torch.no_grad():
        conv(x, adj)
    conv(x, adj).square().sum().backward()
    (wanted,) = torch.autograd.grad(
        conv(x, RelationalAdj(edges, edge_weight=weight, num_nodes=3)).square().sum(), weight
    )
    torch.testing.assert_close(weight.grad, wanted)
    with torch.no_grad():
        weight.mul_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        fresh = RelationalAdj(edges, edge_weight=weight.detach().clone(), num_nodes=3)
        torch.testing.assert_close(conv(x, adj), conv(x, fresh))

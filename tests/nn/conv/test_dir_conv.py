import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphprism.nn import DirConv, MRSGCNConv, MRSSAGEConv
from graphprism.ops import RelationalAdj
from graphprism.testing import tolerance
from tests.nn.conv.cases import GRAPHS, IN, OUT, make_example


def dense(example, weight=None):
    """One matrix for each relation: entry (i, j) is the weight of the edges from j to i."""
    matrices = torch.zeros(3, example.x.size(0), example.x.size(0), dtype=torch.double)
    weight = torch.ones(example.edge_index.size(1), dtype=torch.double) if weight is None else weight
    matrices.index_put_((example.edge_type, example.edge_index[1], example.edge_index[0]), weight, accumulate=True)
    return matrices


@pytest.mark.parametrize("graph", ["directed", "random", "multi-edges", "no-edges"])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_mrs_dir_gcn_is_its_formula(graph, alpha):
    example = make_example(GRAPHS[graph])
    conv = DirConv(lambda: MRSGCNConv(IN, OUT, start="independent"), alpha).double()
    matrices = dense(example)
    whole = matrices.sum(0)
    scale_in, scale_out = (whole.sum(dim).clamp(min=1).rsqrt() for dim in (1, 0))
    matrices = scale_in[:, None] * matrices * scale_out  # of the edge (j, i): D_in of i, D_out of j
    expected = torch.zeros(example.x.size(0), OUT, dtype=torch.double)
    for r in range(3):
        if alpha < 1:
            expected += (1 - alpha) * matrices[r] @ example.x @ conv.conv_in.lin.weight[r]
        if alpha > 0:
            expected += alpha * matrices[r].t() @ example.x @ conv.conv_out.lin.weight[r]
    torch.testing.assert_close(example.run(conv), expected, **tolerance(torch.double))


def with_biases(conv):
    for name, weight in conv.named_parameters():  # they start at zero, where they would hide a mistake
        if name.endswith("bias"):
            torch.nn.init.normal_(weight)
    return conv


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("bias", [False, True])
def test_scaled_weights_give_what_scaled_rows_give(alpha, bias):
    example = make_example(GRAPHS["random"])
    conv = with_biases(DirConv(lambda: MRSGCNConv(IN, OUT, bias=bias, start="independent"), alpha)).double()
    seen, found = [], [example.run(conv)]
    for layer in filter(None, (conv.conv_out, conv.conv_in)):  # a layer that is watched is called as a whole
        layer.register_forward_hook(lambda _layer, _args, out: seen.append(out))
    found.append(example.run(conv))
    assert len(seen) == (2 if 0 < alpha < 1 else 1)
    shares = (alpha, 1 - alpha) if len(seen) == 2 else (1.0,)
    expected = sum(share * out for share, out in zip(shares, seen, strict=True))
    losses = [out.square().sum() for out in (*found, expected)]
    grads = [torch.autograd.grad(loss, conv.parameters(), retain_graph=True) for loss in losses]
    for out, grad in zip(found, grads[:2], strict=True):
        torch.testing.assert_close(out, expected, **tolerance(torch.double))
        torch.testing.assert_close(grad, grads[2], **tolerance(torch.double))


class RowsThatAreScaled(TorchDispatchMode):
    """Counts products of rows of nodes with a number, forward and backward."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        self.count += name in ("mul", "mul_") and tuple(out.shape) == (12, OUT)
        return out


@pytest.mark.parametrize(("layer", "products"), [(MRSGCNConv, 0), (MRSSAGEConv, 4)])
def test_no_row_is_scaled_where_a_weight_can_be(layer, products):
    example, conv = make_example(GRAPHS["random"]), DirConv(lambda: layer(IN, OUT), 0.3).double()
    example.run(conv)
    with RowsThatAreScaled() as counted:
        example.run(conv).sum().backward()
    assert counted.count == products


def test_mrs_dir_sage_takes_a_mean_in_each_direction():
    example = make_example(GRAPHS["random"])
    conv = DirConv(
        lambda: MRSSAGEConv(IN, OUT, root_weight=False, bias=False, start="independent"), 0.3, root_weight=(IN, OUT)
    ).double()
    matrices = dense(example)
    expected = conv.lin_root(example.x)
    for r in range(3):
        mean_in = matrices[r] / matrices.sum(0).sum(1, keepdim=True).clamp(min=1)
        mean_out = matrices[r].t() / matrices.sum(0).sum(0)[:, None].clamp(min=1)
        expected = expected + 0.7 * mean_in @ example.x @ conv.conv_in.lin.weight[r]
        expected = expected + 0.3 * mean_out @ example.x @ conv.conv_out.lin.weight[r]
    torch.testing.assert_close(example.run(conv), expected, **tolerance(torch.double))


def test_given_weights_are_taken_as_they_are():
    example = make_example(GRAPHS["random"], weighted=True)
    conv = DirConv(lambda: MRSGCNConv(IN, OUT, start="independent"), 1.0).double()
    matrices = dense(example, example.edge_weight)
    expected = sum(matrices[r].t() @ example.x @ conv.conv_out.lin.weight[r] for r in range(3))
    torch.testing.assert_close(example.run(conv), expected, **tolerance(torch.double))


def test_only_the_direction_that_counts_is_built():
    assert DirConv(lambda: MRSGCNConv(IN, OUT, start="independent"), 1.0).conv_in is None
    assert DirConv(lambda: MRSGCNConv(IN, OUT, start="independent"), 0.0).conv_out is None


def test_a_prepared_graph_is_sorted_once_for_many_layers():
    example = make_example(GRAPHS["random"])
    adj = RelationalAdj(example.edge_index, example.edge_type, num_relations=3, num_nodes=12)
    convs = [DirConv(lambda: MRSGCNConv(IN, OUT, start="independent")).double() for _ in range(2)]
    for conv in convs:
        torch.testing.assert_close(conv(example.x, adj), example.run(conv), **tolerance(torch.double))
    assert adj.normalized("dir", torch.double).incoming is adj.incoming


def test_reset_draws_new_weights():
    conv = DirConv(lambda: MRSSAGEConv(IN, OUT, root_weight=False, start="independent"), 0.5, root_weight=(IN, OUT))
    before = [p.clone() for p in conv.parameters()]
    conv.reset_parameters()
    assert all(not torch.equal(old, new) for old, new in zip(before, conv.parameters(), strict=True))


def test_bad_input():
    with pytest.raises(TypeError, match=r"`factory` must be a function that makes a layer, .* got a layer"):
        DirConv(MRSGCNConv(IN, OUT, start="independent"))
    with pytest.raises(ValueError, match=r"`alpha` must be in \[0, 1\], got 1.5"):
        DirConv(lambda: MRSGCNConv(IN, OUT, start="independent"), 1.5)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_layer_that_never_normalises_keeps_to_it(weighted):
    torch.manual_seed(0)
    x, edges, types = torch.randn(9, 6).double(), torch.randint(9, (2, 30)), torch.randint(3, (30,))
    weight = torch.rand(30).double() if weighted else None
    conv = DirConv(lambda: MRSGCNConv(6, 5, num_relations=3, normalize=False, start="independent"), alpha=0.3).double()
    found = conv(x, edges, types, weight)
    back = conv.conv_out(x, edges.flip(0), types, weight)
    torch.testing.assert_close(found, 0.3 * back + 0.7 * conv.conv_in(x, edges, types, weight))
    with pytest.raises(ValueError, match=r"`factory` must leave the norm to this layer, .* got normalize=True"):
        DirConv(lambda: MRSGCNConv(6, 5, num_relations=3, normalize=True))

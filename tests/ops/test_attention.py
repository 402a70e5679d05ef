"""`relational_attention` against a loop over nodes, in all layouts of its rows."""

import pytest
import torch

import graphprism.ops.csr as csr_module
from graphprism.nn import MRSGATConv
from graphprism.ops import RelationalAdj
from graphprism.ops.attention import _Entries, attention_fits, relational_attention
from graphprism.ops.linear_csr import backward_name
from tests.ops.cases import GRAPHS, make_adj

EXACT = {"rtol": 1e-12, "atol": 1e-12}
CONNECTED = [name for name in GRAPHS if GRAPHS[name].edge_index.size(1)]
SLOPE = 0.3


def graph(name, weighted=False, soft=False, relations=3):
    adj = make_adj(name, relations, soft)
    types = adj.edge_type.detach()
    weight = adj.edge_weight.detach().clone() if weighted else None
    if weight is not None and weight.numel() > 2:
        weight[::3] = 0
    return RelationalAdj(adj.edge_index, types, weight, num_relations=relations, num_nodes=adj.size)


def draw(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.double).requires_grad_()


def inputs(adj, heads=1, channels=4, in_channels=5):
    """Rows, matrices, both vectors, logits of entries, bias."""
    width = heads * channels
    sizes = (adj.size[0], in_channels), (adj.num_relations, in_channels, width), (1, heads, channels)
    more = (1, heads, channels), (adj.src.numel(), heads), (width,)
    return [draw(*size, seed=seed) for seed, size in enumerate((*sizes, *more))]


def by_node(x, weight, att_src, att_dst, edge_logit, bias, adj):
    """The definition, one node and one head at a time."""
    heads, channels = att_src.shape[1:]
    relation = torch.zeros_like(adj.src) if adj.relation is None else adj.relation
    rows = []
    for node in range(adj.size[1]):
        chosen = (adj.dst == node).nonzero().view(-1).tolist()
        parts = []
        for head in range(heads):
            place = slice(head * channels, (head + 1) * channels)
            matrices = weight[:, :, place]
            total, sums = x.new_zeros(()), x.new_zeros(channels)
            for k in chosen:
                sent = x[adj.src[k]] @ matrices[relation[k]]
                logit = sent @ att_src[0, head] + x[node] @ matrices[relation[k]] @ att_dst[0, head]
                logit = logit if edge_logit is None else logit + edge_logit[k, head]
                mass = torch.nn.functional.leaky_relu(logit, SLOPE).exp()
                mass = mass if adj.weight is None else adj.weight[k] * mass
                total, sums = total + mass, sums + mass * sent
            parts.append(sums / total if total > 0 else sums)
        rows.append(torch.cat(parts))
    out = torch.stack(rows)
    return out if bias is None else out + bias


def ours(x, weight, att_src, att_dst, edge_logit, bias, adj, impl=None):
    return relational_attention(x, adj, weight, att_src, att_dst, edge_logit, bias, negative_slope=SLOPE, impl=impl)


def with_gradients(function, given, adj, **options):
    out = function(*given, adj, **options)
    wanted = [each for each in given if each is not None]
    found = torch.autograd.grad((out * draw(*out.shape, seed=9)).sum(), wanted, materialize_grads=True)
    return out, *found


@pytest.mark.parametrize(
    ("weighted", "soft", "heads", "impl"),
    [
        (False, False, 1, "csr"),
        (False, False, 2, "csr"),
        (True, False, 1, "csr"),
        (True, True, 2, "csr"),
        (True, True, 2, "reference"),
    ],
)
@pytest.mark.parametrize("name", CONNECTED)
def test_equals_the_definition(name, weighted, soft, heads, impl):
    adj = graph(name, weighted, soft)
    assert attention_fits(draw(*adj.size), adj, heads)
    given = inputs(adj, heads)
    found, expected = with_gradients(ours, given, adj, impl=impl), with_gradients(by_node, given, adj)
    torch.testing.assert_close(found, expected, **EXACT)


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("block_bytes", [1 << 21, 1 << 12])
def test_rows_of_active_pairs_in_blocks(heads, block_bytes, monkeypatch):
    monkeypatch.setattr(csr_module, "_CPU_BLOCK_BYTES", block_bytes)
    adj = RelationalAdj(torch.randint(40, (2, 50)), torch.randint(3, (50,)), num_relations=3, num_nodes=40)
    given = [*inputs(adj, heads, 64 // heads, 64)[:4], None, None]
    assert backward_name(given[0], given[1], adj) == "active_pairs"
    found, expected = with_gradients(ours, given, adj), with_gradients(ours, given, adj, impl="reference")
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


def test_layers_of_two_widths_share_a_graph(monkeypatch):
    monkeypatch.setattr(csr_module, "_CPU_BLOCK_BYTES", 15 * 3 * 64 * 8)  # 15 nodes of 64 channels, 14 of 66
    adj = RelationalAdj(torch.randint(40, (2, 50)), torch.randint(3, (50,)), num_relations=3, num_nodes=40)
    for channels in (64, 66):
        given = [*inputs(adj, 1, channels, 64)[:4], None, None]
        assert backward_name(given[0], given[1], adj) == "active_pairs"
        found, expected = with_gradients(ours, given, adj), with_gradients(ours, given, adj, impl="reference")
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("heads", [1, 2])
def test_rows_of_all_pairs_in_blocks(heads, monkeypatch):
    monkeypatch.setattr(csr_module, "_CPU_BLOCK_BYTES", 1 << 9)
    adj = graph("random")
    given = inputs(adj, heads)
    assert not adj.outgoing.is_one_block(given[0])
    found, expected = with_gradients(ours, given, adj), with_gradients(by_node, given, adj)
    torch.testing.assert_close(found, expected, **EXACT)


def test_large_logits_do_not_overflow():
    adj = graph("hub")
    given = inputs(adj)
    out = ours(given[0] * 1e4, *given[1:], adj)
    assert out.isfinite().all()
    out = ours(*given[:4], torch.full_like(given[4], -torch.inf), given[5], adj)
    torch.testing.assert_close(out, given[5].expand_as(out))


def test_negative_weights_raise():
    adj = graph("directed")
    adj = adj.with_weight(-torch.ones(adj.num_edges, dtype=torch.double))
    with pytest.raises(ValueError, match="edge weights must not be negative in a softmax, got -1"):
        ours(*inputs(adj), adj)


@pytest.mark.parametrize("heads", [1, 2])
def test_second_derivatives(heads):
    adj = RelationalAdj(
        torch.tensor([[0, 1, 2, 0], [1, 2, 1, 2]]), torch.tensor([0, 1, 1, 0]), num_relations=2, num_nodes=3
    )
    given = inputs(adj, heads, 2, 2)
    assert torch.autograd.gradcheck(lambda *each: ours(*each, adj), given)
    assert torch.autograd.gradgradcheck(lambda *each: ours(*each, adj).square(), given)


def layer(**options):
    torch.manual_seed(0)
    made = MRSGATConv(5, 4, num_relations=3, decay=3.0, **options).double()
    if options.get("start") != "independent":
        torch.nn.init.normal_(made.lin.deviation)
    return made


LAYERS = {
    "shared": {},
    "independent": {"start": "independent"},
    "diagonal": {"deviation": "diagonal"},
    "heads": {"heads": 3},
    "mean": {"heads": 3, "concat": False},
    "no-bias": {"bias": False},
    "edges": {"edge_dim": 2, "heads": 2},
    "residual": {"residual": True},
    "loops": {"add_self_loops": True},
    "dropout": {"dropout": 0.5},
}


def forward(made, x, adj):
    edges = None if made.edge_dim is None else draw(adj.num_edges, made.edge_dim, seed=3).detach()
    return made(x, adj, edge_attr=edges), made(x, adj, edge_attr=edges, return_attention_weights=True)[0]


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "dropout"])
def test_layer_equals_its_plain_path(name):
    made, adj = layer(**LAYERS[name]), graph("random")
    x = draw(adj.size[0], 5)
    found, expected = (
        (out, *torch.autograd.grad((out * draw(*out.shape, seed=5)).sum(), [x, *made.parameters()], retain_graph=True))
        for out in forward(made, x, adj)
    )
    torch.testing.assert_close(found, expected, **EXACT)


@pytest.mark.parametrize("heads", [1, 2])
def test_layer_with_dropout_equals_its_plain_path(heads):
    made, adj = layer(heads=heads, dropout=0.4), graph("random", weighted=True)
    x, found = draw(adj.size[0], 5), []
    for options in ({}, {"return_attention_weights": True}):
        torch.manual_seed(1)  # both draw the same coefficients
        out = made(x, adj, **options)
        out = out[0] if options else out
        found.append((out, *torch.autograd.grad((out * draw(*out.shape, seed=5)).sum(), [x, *made.parameters()])))
    torch.testing.assert_close(*found, **EXACT)
    torch.manual_seed(1)
    assert torch.equal(made(x, adj), found[0][0])
    assert not torch.equal(made(x, adj), found[0][0])


def test_second_derivatives_with_dropout():
    made, adj = layer(dropout=0.5), graph("directed")

    def run(x, common):
        torch.manual_seed(0)
        return torch.func.functional_call(made, {"lin.common": common}, (x, adj))

    assert torch.autograd.gradgradcheck(run, (draw(adj.size[0], 5), draw(5, 4, seed=1)))


@pytest.mark.parametrize("name", ["shared", "independent", "dropout"])
def test_layer_is_one_node_of_autograd(name):
    made, adj = layer(**LAYERS[name]), graph("random")
    out = made(draw(adj.size[0], 5), adj)
    nodes = {type(node).__name__ for node, _ in out.grad_fn.next_functions if node is not None}
    assert nodes == {"AccumulateGrad"}


def test_layer_has_few_operations():
    made, adj = layer(), graph("random")
    x = draw(adj.size[0], 5)
    made(x, adj).sum().backward()
    with torch.profiler.profile() as profile:
        made(x, adj).sum().backward()
    events = [event for event in profile.events() if event.name.startswith("aten::")]
    outer = [event for event in events if event.cpu_parent is None or not event.cpu_parent.name.startswith("aten::")]
    assert len(outer) < 120


@pytest.mark.parametrize("name", ["shared", "independent", "heads"])
def test_batched_gradients_are_those_of_each(name):
    made, adj = layer(**LAYERS[name]), graph("random")
    x = draw(adj.size[0], 5)
    out = made(x, adj)
    grads = draw(2, *out.shape, seed=1).detach()
    (found,) = torch.autograd.grad(out, x, grads, retain_graph=True, is_grads_batched=True)
    expected = [torch.autograd.grad(out, x, each, retain_graph=True)[0] for each in grads]
    torch.testing.assert_close(found, torch.stack(expected))


@pytest.mark.parametrize("frozen", ["lin.common", "lin.deviation", "att_src", "att_dst", "bias", "x"])
def test_frozen_input_gets_no_gradient(frozen):
    made, adj = layer(), graph("random")
    x = draw(adj.size[0], 5)
    made(x, adj).sum().backward()
    named = {**dict(made.named_parameters()), "x": x}
    first = {name: tensor.grad.clone() for name, tensor in named.items()}
    for tensor in named.values():
        tensor.grad = None
    named[frozen].requires_grad_(False)
    made(x, adj).sum().backward()
    for name, tensor in named.items():
        if name == frozen:
            assert tensor.grad is None
        else:
            torch.testing.assert_close(tensor.grad, first[name])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_lower_precisions(dtype):
    made, adj = layer(heads=2), graph("random", weighted=True)
    x = draw(adj.size[0], 5).detach()
    expected = made(x, adj)
    found = made.to(dtype)(x.to(dtype), adj)
    assert found.dtype == dtype
    allowed = 1e-5 if dtype == torch.float32 else 0.05
    torch.testing.assert_close(found.double(), expected, rtol=allowed, atol=allowed)


def test_graphs_that_do_not_fit():
    adj, x = graph("random"), draw(30, 5).detach()
    assert attention_fits(x, adj, 1)
    weight = torch.ones(adj.num_edges, dtype=torch.double, requires_grad=True)
    assert not attention_fits(x, adj.with_weight(weight), 1)
    assert not attention_fits(x.to_sparse_csr(), adj, 1)
    assert not attention_fits(x.to("meta"), adj, 1)
    with torch.autocast("cpu", torch.bfloat16):
        assert not attention_fits(x, adj, 1)
    assert not torch.func.vmap(lambda rows: rows.new_tensor(attention_fits(rows, adj, 1)))(x[None]).any()


@pytest.mark.parametrize("one_pass", [False, True])
def test_entries_have_the_dtype_of_the_rows_that_sum_them(one_pass):
    adj = make_adj("random")
    adj.one_pass = one_pass
    entries, rowptr = _Entries.of(adj), adj.incoming.node_rowptr
    assert rowptr.dtype == (torch.int64 if one_pass else torch.int32)
    for each in (entries.place, entries.sender_score, entries.receiver_score, entries.by_score):
        assert each.dtype == rowptr.dtype == entries.by_score_rowptr.dtype

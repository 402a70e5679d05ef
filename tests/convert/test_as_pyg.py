"""What PyG's own layers give beside their output, and sparse edges, through converted models."""

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Data
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    EGConv,
    FAConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphConv,
    GraphSAGE,
    LEConv,
    MixHopConv,
    SAGEConv,
    SGConv,
    TransformerConv,
)

from graphprism.convert import to_mrs

# of PyG's own layers
pytestmark = [
    pytest.mark.filterwarnings("ignore:Converting sparse tensor to CSR"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks"),
]
torch.manual_seed(0)
N = 9
EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 2, 5, 5], [1, 2, 3, 4, 5, 6, 7, 8, 0, 4, 7, 1, 2]])
EDGES = torch.cat([EDGES, EDGES.flip(0)], dim=1)
X = torch.randn(N, 5, dtype=torch.double)
LAYOUTS = {
    "coo": lambda edges, values: torch.sparse_coo_tensor(
        edges.flip(0), values, (N, N), check_invariants=False
    ).coalesce(),
    "csr": lambda edges, values: (
        torch.sparse_coo_tensor(edges.flip(0), values, (N, N), check_invariants=False).coalesce().to_sparse_csr()
    ),
}


def parted(model):
    for name, parameter in model.named_parameters():
        if "deviation" in name:
            torch.nn.init.normal_(parameter, std=10)
    return model


ATTENTION = {
    "gat": lambda: GATConv(5, 4, heads=2),
    "gat, no loops": lambda: GATConv(5, 4, heads=2, add_self_loops=False),
    "gat, reversed": lambda: GATConv(5, 4, add_self_loops=False, flow="target_to_source"),
    "gatv2": lambda: GATv2Conv(5, 4, heads=2),
    "transformer": lambda: TransformerConv(5, 4, heads=2),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_weights_are_pygs_at_first(name):
    conv = ATTENTION[name]().double()
    model = to_mrs(conv)
    for _ in range(3):  # split, prepared, kept
        out, (edges, alpha) = model(X, EDGES, return_attention_weights=True)
        theirs, (their_edges, their_alpha) = conv(X, EDGES, return_attention_weights=True)
        torch.testing.assert_close(out, theirs)
        assert torch.equal(edges, their_edges)
        torch.testing.assert_close(alpha, their_alpha)
    torch.testing.assert_close(model(X, EDGES), out)


def test_attention_weights_of_gatv2_are_those_that_messages_got():
    conv = GATv2Conv(5, 4, heads=1, add_self_loops=False, bias=False, share_weights=True).double()
    model = parted(to_mrs(conv))
    out, (edges, alpha) = model(X, EDGES, return_attention_weights=True)
    _, (_, plain) = model.model.conv(X, EDGES, return_attention_weights=True)
    assert (alpha - plain).abs().max() > 1e-3
    stacks = dict(zip(model.model.names, model.model.deviations, strict=True))
    matrix = model.model.together(conv.lin_l.weight, stacks["lin_l.weight"])
    types = model.current.split(Data(edge_index=EDGES, num_nodes=N))
    rows = torch.einsum("ei,eoi->eo", X[EDGES[0]], matrix[types])
    torch.testing.assert_close(out, torch.zeros_like(out).index_add(0, edges[1], alpha * rows))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "conv",
    [
        lambda: GCNConv(5, 4),
        lambda: GCNConv(5, 4, normalize=False),
        lambda: SAGEConv(5, 4),
        lambda: GraphConv(5, 4, aggr="mean"),
        lambda: GATConv(5, 4),
        lambda: LEConv(5, 4),
    ],
)
def test_sparse_edges_are_taken_as_pyg_takes_them(conv, weighted, layout):
    conv = conv().double()
    weight = torch.rand(EDGES.size(1), dtype=torch.double) + 0.5 if weighted else torch.ones(EDGES.size(1)).double()
    adj_t = LAYOUTS[layout](EDGES, weight)
    model = to_mrs(conv)
    expected = conv(X, EDGES, weight) if isinstance(conv, LEConv) else conv(X, adj_t)  # PyG's takes no sparse edges
    for _ in range(3):
        torch.testing.assert_close(model(X, adj_t), expected)
    if not weighted:
        parted(model)
        order = adj_t.to_sparse_coo().coalesce().indices().flip(0)
        torch.testing.assert_close(model(X, adj_t), model(X, order))
        types = torch.arange(EDGES.size(1)) % 3
        torch.testing.assert_close(model(X, adj_t, edge_type=types), model(X, order, edge_type=types))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "conv",
    [
        lambda: GCNConv(5, 4),
        lambda: GCNConv(5, 4, improved=True),
        lambda: GCNConv(5, 4, add_self_loops=False),
        lambda: SGConv(5, 4, K=2),
        lambda: MixHopConv(5, 4),
    ],
)
def test_sparse_edges_get_self_loops_as_pyg_adds_them(conv, weighted):
    conv = conv().double()
    edges = torch.cat([EDGES, torch.tensor([[0, 3], [0, 3]])], dim=1)
    values = torch.rand(edges.size(1)).double() + 0.5 if weighted else torch.ones(edges.size(1)).double()
    adj_t, model = LAYOUTS["coo"](edges, values), to_mrs(conv)
    for _ in range(3):
        torch.testing.assert_close(model(X, adj_t), conv(X, adj_t))


@pytest.mark.parametrize("conv", [lambda: FAConv(5), lambda: EGConv(5, 4, num_heads=2, num_bases=2)])
def test_sparse_self_loops_without_a_weight_are_refused(conv):
    conv, loops = conv().double(), torch.tensor([[0, 3], [0, 3]])
    adj_t = LAYOUTS["coo"](torch.cat([EDGES, loops], dim=1), torch.ones(EDGES.size(1) + 2).double())
    nodes = (X, X) if isinstance(conv, FAConv) else (X,)
    with pytest.raises(ValueError, match="must have no self-loops for a converted"):
        to_mrs(conv)(*nodes, adj_t)


@pytest.mark.parametrize("make", [GCN, GraphSAGE, GAT, GIN])
def test_models_take_data_with_sparse_edges(make):
    model = make(5, 6, num_layers=2, out_channels=3).double().eval()
    data = T.ToSparseTensor(layout=torch.sparse_csr)(Data(x=X, edge_index=EDGES))
    torch.testing.assert_close(to_mrs(model)(X, data.adj_t.double()), model(X, data.adj_t.double()))


def test_attention_of_sparse_edges_is_pygs():
    conv = GATConv(5, 4).double()
    adj_t = LAYOUTS["coo"](EDGES, torch.ones(EDGES.size(1)).double())
    ours, theirs = to_mrs(conv)(X, adj_t, return_attention_weights=True), conv(X, adj_t, return_attention_weights=True)
    torch.testing.assert_close(ours[0], theirs[0])
    torch.testing.assert_close(ours[1][0].to_dense(), theirs[1][0].to_dense())


def test_weights_that_a_layer_does_not_take_are_refused():
    adj_t = LAYOUTS["coo"](EDGES, torch.rand(EDGES.size(1)).double() + 2)
    with pytest.raises(ValueError, match="a sparse tensor must hold ones for a converted FAConv"):
        to_mrs(FAConv(5).double())(X, X, adj_t)
    with pytest.raises(ValueError, match="a sparse tensor must hold ones for a converted TransformerConv"):
        to_mrs(TransformerConv(5, 4).double())(X, adj_t)


def test_state_of_another_split_is_refused():
    conv = GCNConv(5, 4).double()
    state = to_mrs(conv, "degree").state_dict()
    with pytest.raises(ValueError, match=r"same split, by_order\(.*ppr.*\), got one of by_order\(.*degree.*\)"):
        to_mrs(conv, "ppr").load_state_dict(state)
    del state["_extra_state"]  # as it was before the split was in it
    to_mrs(conv, "ppr").load_state_dict(state)


def test_sparse_edges_of_an_own_model_may_be_named_adj():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCNConv(5, 4).double()

        def forward(self, x, adj):
            return self.conv(x, adj)

    adj, plain = LAYOUTS["coo"](EDGES, torch.ones(EDGES.size(1)).double()), Net()
    torch.testing.assert_close(to_mrs(plain)(X, adj), plain(X, adj))


@pytest.mark.parametrize(
    "conv",
    [
        lambda dim: GraphConv(5, 4, node_dim=dim),
        lambda dim: SAGEConv(5, 4, node_dim=dim),
        lambda dim: GINConv(torch.nn.Linear(5, 4), node_dim=dim),
        lambda dim: GCNConv(5, 4, normalize=False, node_dim=dim),
    ],
)
@pytest.mark.parametrize("dim", [0, -3])
def test_nodes_in_another_dimension_are_pygs(conv, dim):
    conv = conv(dim).double()
    x = torch.randn(N, N, 5, dtype=torch.double)  # as many rows in both
    model = to_mrs(conv, example=(x, EDGES))
    torch.testing.assert_close(model(x, EDGES), conv(x, EDGES))


def test_loops_of_a_reversed_gat_have_the_features_that_pyg_gives_them():
    conv = GATConv(5, 4, edge_dim=3, flow="target_to_source").double()
    one_way, features = EDGES[:, : EDGES.size(1) // 2], torch.randn(EDGES.size(1) // 2, 3, dtype=torch.double)
    model = to_mrs(conv)
    for _ in range(3):
        torch.testing.assert_close(model(X, one_way, features), conv(X, one_way, features))


def doubled(*given):
    return 2 * given[-1]


HOOKS = {
    "forward": lambda conv: conv.register_forward_hook(doubled),
    "input": lambda conv: conv.register_forward_pre_hook(lambda _, args: (2 * args[0], *args[1:])),
    "message": lambda conv: conv.register_message_forward_hook(doubled),
    "aggregate": lambda conv: conv.register_aggregate_forward_hook(doubled),
    "part": lambda conv: next(each for each in conv.children() if each is not conv.aggr_module).register_forward_hook(
        doubled
    ),
}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("name", ["gcn", "sage", "gat", "gin"])
def test_hooks_of_a_convolution_go_on(name, hook):
    make = {
        "gcn": lambda: GCNConv(5, 4),
        "sage": lambda: SAGEConv(5, 4),
        "gat": lambda: GATConv(5, 4),
        "gin": lambda: GINConv(torch.nn.Linear(5, 4)),
    }
    conv = make[name]().double()
    HOOKS[hook](conv)
    torch.testing.assert_close(to_mrs(conv)(X, EDGES), conv(X, EDGES))

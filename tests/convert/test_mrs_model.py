"""The wrapper: splits once per call, and survives what models go through."""

import copy
import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    DeepGCNLayer,
    EdgeCNN,
    GATConv,
    GATv2Conv,
    GCNConv,
    GraphSAGE,
    MessagePassing,
    RGATConv,
)
from torch_geometric.transforms import ToUndirected

import graphprism as gp
from graphprism.convert import MRSModel
from tests.convert.test_convolutions import relative_error
from tests.convert.test_models import OUT, Counted, F, N, features

X, EDGES, WEIGHT, ATTR = features("undirected")
MODELS = {
    "gcn": lambda: GCN(F, 8, 2, OUT),
    "gat": lambda: GAT(F, 8, 2, OUT, heads=2, add_self_loops=False),
    "gin": lambda: GIN(F, 8, 2, OUT, norm=None),
    "sage": lambda: GraphSAGE(F, 8, 2, OUT),
    "gcn, no loops": lambda: GCN(F, 8, 2, OUT, add_self_loops=False),
    "generic, no loops": lambda: GAT(F, 8, 2, OUT, heads=2, v2=True, add_self_loops=False),
    "generic": lambda: GAT(F, 8, 2, OUT, heads=2, v2=True),
}


def converted(name: str = "gcn", **options) -> MRSModel:
    torch.manual_seed(0)
    return gp.to_mrs(MODELS[name]().eval(), **options)


def part(model: torch.nn.Module) -> None:
    """Sets relations apart, so that types matter."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "deviation" in name:
                parameter.normal_(std=30)


@pytest.mark.parametrize("name", MODELS)
def test_relations_matter_after_training(name):
    model = converted(name)
    part(model)
    types = gp.splitting.resolve_split("degree")(gp.splitting.Graph(EDGES, N))
    out = model(X, EDGES)
    assert torch.equal(model(X, EDGES, edge_type=types), out)
    assert relative_error(model(X, EDGES, edge_type=(types + 1) % 3), out) > 1e-3


def test_split_is_computed_once_for_the_same_tensor():
    split = Counted()
    model = converted(split=split, num_relations=3)
    edges = EDGES.clone()
    model(X, edges), model(2 * X, edges), model(X, edges, WEIGHT)
    assert split.calls == 1
    model(X, edges.clone())
    assert split.calls == 2


def test_split_is_computed_again_after_a_change_in_place_and_for_more_nodes():
    split = Counted()
    model = converted(split=split, num_relations=3)
    edges = EDGES.clone()
    model(X, edges)
    edges[0, 0] = 0
    model(X, edges)
    assert split.calls == 2
    model(torch.randn(N + 1, F), edges)
    assert split.calls == 3


def test_split_that_reads_features_is_computed_again_for_others():
    model = converted(split="features")
    part(model)
    other = X.flip(0).clone()
    model(X, EDGES)
    assert torch.equal(model(other, EDGES), copy.deepcopy(model)(other, EDGES))


def test_split_by_an_argument_of_the_call():
    bonds = (torch.arange(EDGES.size(1)) % 2).float()[:, None]
    model = gp.to_mrs(GAT(F, 8, 2, OUT, edge_dim=1), gp.splitting.by_attribute("edge_attr", num_relations=2))
    part(model)
    out = model(X, EDGES, edge_attr=bonds)
    assert torch.equal(model(X, EDGES, edge_attr=bonds, edge_type=bonds[:, 0].long()), out)


@pytest.mark.parametrize("name", ["edges", "bonds"])
def test_values_that_numpy_writes_are_split_anew(name):
    split = gp.splitting.by_attribute("edge_attr", num_relations=2) * gp.splitting.by_order("degree")
    model = gp.to_mrs(GAT(F, 8, 2, OUT, edge_dim=1), split)
    part(model)
    other = copy.deepcopy(model)  # which keeps the split of other tensors
    edges, bonds = EDGES.numpy().copy(), (torch.arange(EDGES.size(1)) % 2).float()[:, None].numpy()
    shared = torch.from_numpy(edges), torch.from_numpy(bonds)
    for step in range(4):
        if name == "edges":
            edges[:, step] = step
        else:
            bonds[step] = 1 - bonds[step]
        expected = other(X, torch.tensor(edges), edge_attr=torch.tensor(bonds))
        for _ in range(2):
            torch.testing.assert_close(model(X, shared[0], edge_attr=shared[1]), expected)


def test_edges_are_not_kept_alive():
    model, edges = converted(), EDGES.clone()
    model(X, edges)
    watched = weakref.ref(edges)
    del edges
    gc.collect()
    assert watched() is None


def test_tensor_at_the_address_of_a_dead_one_is_split_anew():
    split = Counted()
    model = converted(split=split, num_relations=3)
    for _ in range(5):
        model(X, torch.randint(0, N, (2, 40)))
    assert split.calls == 5


class Drops(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(F, OUT)

    def forward(self, x, edge_index, keep=None):
        return self.conv(x, edge_index if keep is None else edge_index[:, keep])


def test_convolution_with_other_edges_needs_types():
    model = gp.to_mrs(Drops())
    model(X, EDGES)
    with pytest.raises(ValueError, match="or `edge_type=` with another one"):
        model(X, EDGES, torch.arange(5))
    few = EDGES[:, :5]
    assert model.model.conv(X, few, edge_type=torch.zeros(5, dtype=torch.long)).shape == (N, OUT)


@pytest.mark.parametrize("name", ["gcn", "generic"])
def test_convolution_outside_of_the_model_needs_types(name):
    conv = converted(name).model.convs[0]
    with pytest.raises(ValueError, match="must get the `edge_index` that the model was called with"):
        conv(X, EDGES)
    assert conv(X, EDGES, edge_type=torch.zeros(EDGES.size(1), dtype=torch.long)).size(0) == N


def test_sampled_batch_needs_types():
    model = converted()
    with pytest.raises(ValueError, match="`edge_type` must be given for a sampled batch"):
        model(X, EDGES, num_sampled_nodes_per_hop=[4, 8], num_sampled_edges_per_hop=[10, 20])


@pytest.mark.parametrize("make", [lambda: GraphSAGE(4, 8, 2, 3), lambda: EdgeCNN(4, 8, 2, 3, norm=None)])
def test_layers_on_a_trimmed_batch_compute_what_its_seeds_need(make):
    # two seeds with their neighbours, and the neighbours of these
    x, edges = torch.randn(7, 4), torch.tensor([[2, 3, 4, 5, 6, 6], [0, 1, 2, 3, 3, 2]])
    types = torch.tensor([0, 1, 2, 1, 0, 2])
    hops = {"num_sampled_nodes_per_hop": [2, 2, 3], "num_sampled_edges_per_hop": [2, 4]}
    model = gp.to_mrs(make().eval())
    part(model)
    found, whole = model(x, edges, edge_type=types, **hops), model(x, edges, edge_type=types)
    torch.testing.assert_close(found[:2], whole[:2])
    others = model(x, edges, edge_type=types.flip(0), **hops)
    assert relative_error(others[:2], whole[:2]) > 0.01


def test_other_edges_in_the_memory_of_the_call_are_refused():
    model = converted("sage")
    conv = model.model.convs[1]
    for wrong in (lambda edges: edges[:, 1:], lambda edges: edges[:, ::2], lambda edges: edges[:, :-1].clone()):
        model.model.convs[1] = Calls(conv, wrong)
        with pytest.raises(ValueError, match="must get the `edge_index` that the model was called with"):
            model(X, EDGES)


class Calls(torch.nn.Module):
    """A convolution with other edges."""

    def __init__(self, conv, wrong) -> None:
        super().__init__()
        self.conv, self.wrong = conv, wrong

    def forward(self, x, edge_index):
        return self.conv(x, self.wrong(edge_index))


class TakesData(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(F, OUT)

    def forward(self, data):
        return self.conv(data.x, data.edge_index)


def test_data_object_brings_its_types():
    model = gp.to_mrs(TakesData())
    part(model)
    data = Data(x=X, edge_index=EDGES)
    out = model(data)
    types = (gp.SplitEdges("degree")(data.clone()).edge_type + 1) % 3
    data = gp.SplitEdges(gp.splitting.by_function(lambda graph: types, num_relations=3))(data)
    assert torch.equal(data.edge_type, types)
    assert relative_error(model(data), out) > 1e-3
    sampled = Data(x=X, edge_index=EDGES, n_id=torch.arange(N))
    with pytest.raises(ValueError, match="must be given for a sampled batch"):
        model(sampled)


def test_data_object_with_types_of_another_source_is_refused():
    model, data = gp.to_mrs(TakesData()), Data(x=X, edge_index=EDGES)
    part(model)
    data.edge_type = torch.arange(EDGES.size(1)) % 3  # such as bonds, or those of `HeteroData.to_homogeneous`
    with pytest.raises(ValueError, match=r"`data.edge_type` must be of `SplitEdges`, got one of another source: rena"):
        model(data)
    given = model(data, edge_type=data.edge_type)
    assert torch.equal(given, model(Data(x=X, edge_index=EDGES), edge_type=data.edge_type))
    batch = gp.loader.with_edge_type(Data(x=X, edge_index=EDGES, e_id=torch.arange(EDGES.size(1))), data.edge_type)
    assert torch.equal(model(batch), given)
    with pytest.raises(ValueError, match=r"must be of `SplitEdges`, got one of another source"):
        model(HeteroData({"a": {"x": X}, ("a", "to", "a"): {"edge_index": EDGES, "edge_type": data.edge_type}}))


def test_data_object_of_another_split_is_refused():
    model = gp.to_mrs(TakesData(), "degree * direction")
    with pytest.raises(
        ValueError, match=r"must be of the model's split, .* with 6 relations, got one of a split with 3"
    ):
        model(gp.SplitEdges("degree")(Data(x=X, edge_index=EDGES)))
    assert model(gp.SplitEdges("degree * direction")(Data(x=X, edge_index=EDGES))).shape == (N, OUT)
    more = gp.to_mrs(TakesData(), "degree", num_relations=4)
    assert more(gp.SplitEdges("degree")(Data(x=X, edge_index=EDGES))).shape == (N, OUT)


@pytest.mark.parametrize(
    ("split", "other", "words"),
    [
        ("degree", "ppr", r"split, by_order\('degree'\), got one of by_order\('ppr'\); say that these are"),
        ("degree", "degree, ppr", r"got one of by_order\('degree', 'ppr'\)"),
        ("degree * direction", "direction * degree", r"got one of by_direction\(\) \* by_order\('degree'\)"),
        ("attr(a, 3)", "attr(b, 3)", r"got one of by_attribute\('b'\)"),
    ],
)
def test_data_object_of_another_ordering_is_refused(split, other, words):
    model, data = gp.to_mrs(TakesData(), split), Data(x=X, edge_index=EDGES)
    part(model)
    data.a = data.b = torch.arange(EDGES.size(1)) % 3
    own, data = gp.SplitEdges(split)(data.clone()), gp.SplitEdges(other)(data)
    with pytest.raises(ValueError, match=words):
        model(data)
    assert torch.equal(model(data, edge_type=own.edge_type), model(own))


def test_data_object_of_the_same_ordering_as_a_function_is_taken():
    model = gp.to_mrs(TakesData(), "degree")
    data = gp.SplitEdges(gp.splitting.by_order(gp.splitting.ORDERINGS["degree"]))(Data(x=X, edge_index=EDGES))
    assert torch.equal(model(data), model(Data(x=X, edge_index=EDGES)))


def test_data_object_of_an_unnamed_ordering_is_taken():
    model, data = gp.to_mrs(TakesData(), "degree"), gp.SplitEdges("ppr")(Data(x=X, edge_index=EDGES))
    data.split_rule = '[["order", 3, [1]]]'  # as 0.1 wrote it
    assert torch.equal(model(data), model(data, edge_type=data.edge_type))
    by_function = gp.SplitEdges(gp.splitting.by_order(lambda graph: torch.arange(N)))(Data(x=X, edge_index=EDGES))
    assert by_function.split_rule == '[["order", 3, [1]]]'
    assert model(by_function).shape == (N, OUT)


def test_edge_type_of_the_model_itself_is_its_own():
    plain = RGATConv(F, OUT, 2).eval()
    kinds = torch.arange(EDGES.size(1)) % 2
    model = gp.to_mrs(plain, example=(X, EDGES, kinds))
    assert relative_error(model(X, EDGES, edge_type=kinds), plain(X, EDGES, kinds)) < 1e-5


def test_bad_types_and_dense_matrices_are_refused():
    model = converted()
    with pytest.raises(ValueError, match=r"`edge_type` must have shape \[60\], got \[3\]"):
        model(X, EDGES, edge_type=torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"`edge_type` must hold numbers in \[0, 3\), got 3"):
        model(X, EDGES, edge_type=torch.full((60,), 3))
    with pytest.raises(ValueError, match="`num_relations` must be at least 3"):
        converted(num_relations=2)
    with pytest.raises(TypeError, match=r"must be an integer tensor \(2, E\) or a sparse tensor of torch in a conv"):
        model(X, torch.eye(N))
    with pytest.raises(ValueError, match="must give relations below 2, got 2"):
        converted(split=lambda graph: torch.full((graph.edge_index.size(1),), 2), num_relations=2)(X, EDGES)
    with pytest.raises(ValueError, match="`num_relations` must be given"):
        converted(split=lambda graph: graph.edge_index[0])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("extra", [{}, {"edge_weight": WEIGHT}])
def test_edges_that_come_again_give_the_same(name, extra):
    if extra and "gcn" not in name:
        pytest.skip("takes no weights")
    model = converted(name)
    part(model)
    out = model(X, EDGES, **extra)
    for _ in range(3):  # prepared from the second call on
        assert relative_error(model(X, EDGES, **extra), out) < 1e-5


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("how", ["deepcopy", "pickle", "save", "state_dict"])
def test_copies_compute_the_same_and_split_for_themselves(name, how):
    model = converted(name)
    part(model)
    out = model(X, EDGES)
    if how == "deepcopy":
        other = copy.deepcopy(model)
    elif how == "pickle":
        other = pickle.loads(pickle.dumps(model))
    elif how == "save":
        file = BytesIO()
        torch.save(model, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    else:
        other = converted(name)
        other.load_state_dict(model.state_dict())
    assert torch.equal(other(X, EDGES.clone()), out)
    for mine, theirs in zip(model.modules(), other.modules(), strict=True):
        assert type(mine) is type(theirs)
    inner = [module.current for module in other.model.modules() if hasattr(module, "current")]
    assert all(current is other.current for current in inner)


# torch looks at `.grad` of what passes from one compiled part to the next, and warns of its own look
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize(
    ("name", "given"),
    [("gcn", False), ("gin", True), ("generic", False)]
    + [pytest.param(name, given, marks=pytest.mark.slow) for name in MODELS for given in (False, True)],
)
def test_converted_model_compiles(name, given):
    model = converted(name)
    part(model)
    types = gp.splitting.resolve_split("degree")(gp.splitting.Graph(EDGES, N))
    options = {"edge_type": types} if given else {}
    out = model(X, EDGES)
    compiled = torch.compile(model, backend="aot_eager")
    assert relative_error(compiled(X, EDGES, **options), out) < 1e-5
    compiled(X, EDGES, **options).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("name", ["gcn, no loops", "gin"])
def test_converted_model_compiles_whole_where_types_are_given(name):
    model = converted(name)
    types = gp.splitting.resolve_split("degree")(gp.splitting.Graph(EDGES, N))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert relative_error(compiled(X, EDGES, edge_type=types), model(X, EDGES)) < 1e-5


@pytest.mark.parametrize("name", ["gcn", "gat", "generic, no loops"])
def test_converted_model_exports_where_types_are_given(name):
    model = converted(name)
    part(model)
    types = gp.splitting.resolve_split("degree")(gp.splitting.Graph(EDGES, N))
    program = torch.export.export(model, (X, EDGES), {"edge_type": types}, strict=False)
    assert relative_error(program.module()(X, EDGES, edge_type=types), model(X, EDGES)) < 1e-5


@pytest.mark.skipif(not hasattr(torch.compiler, "is_exporting"), reason="needs torch 2.7, got an older one")
@pytest.mark.parametrize("make", [GCN, GAT, GIN, GraphSAGE])
def test_converted_model_exports_with_any_size(make):
    torch.manual_seed(0)
    model = gp.to_mrs(make(5, 6, num_layers=2, out_channels=3).eval())
    example, types = (torch.randn(12, 5), torch.randint(12, (2, 30))), torch.zeros(30, dtype=torch.long)
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    shapes = {"args": ({0: nodes}, {1: edges}), "edge_type": {0: edges}}
    program = torch.export.export(model, example, {"edge_type": types}, dynamic_shapes=shapes, strict=False).module()
    for num_nodes, num_edges in ((8000, 5), (3, 4000)):  # as guards on sizes, or on their ratio, would refuse
        other = torch.randn(num_nodes, 5), torch.randint(num_nodes, (2, num_edges))
        types = torch.zeros(num_edges, dtype=torch.long)
        torch.testing.assert_close(program(*other, edge_type=types), model(*other, edge_type=types))


@pytest.mark.skipif(not hasattr(torch.compiler, "is_exporting"), reason="needs torch 2.7, got an older one")
@pytest.mark.parametrize("strict", [False, True])
def test_export_without_types_asks_for_them(strict):
    with pytest.raises(Exception, match="`edge_type` must be given to"):
        torch.export.export(converted(), (X, EDGES), strict=strict)


@pytest.mark.parametrize("name", MODELS)
def test_converted_model_trains_under_autocast(name):
    model = converted(name).train()
    with torch.autocast("cpu", torch.bfloat16):
        out = model(X, EDGES)
    out.float().square().mean().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_gets_a_gradient_and_relations_part(name):
    model = converted(name).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(X, EDGES).square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    optimizer.step()
    assert any("deviation" in name and parameter.abs().max() > 0 for name, parameter in model.named_parameters())


@pytest.mark.parametrize("given", [False, True])
def test_activation_checkpoints_find_the_split_of_the_call(given):
    class Checkpointed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(F, OUT)

        def forward(self, x, edge_index):
            return torch.utils.checkpoint.checkpoint(self.conv, x, edge_index, use_reentrant=False)

    model = gp.to_mrs(Checkpointed())
    types = gp.splitting.resolve_split("degree")(gp.splitting.Graph(EDGES, N))
    model(X, EDGES, **({"edge_type": types} if given else {})).sum().backward()
    assert model.model.conv.conv.lin.common.grad is not None


@pytest.mark.parametrize("conv", [GATConv, GATv2Conv])
def test_checkpoints_of_pyg_find_the_split_of_every_call(conv):
    class Deep(torch.nn.Module):
        def __init__(self, has_checkpoints: bool) -> None:
            super().__init__()
            norm = torch.nn.LayerNorm(F)
            self.layer = DeepGCNLayer(conv(F, F), norm, torch.nn.ReLU(), block="res+", ckpt_grad=has_checkpoints)

        def forward(self, x, edge_index):
            return self.layer(x, edge_index)

    torch.manual_seed(0)
    models = [gp.to_mrs(Deep(has_checkpoints)) for has_checkpoints in (True, False)]
    models[1].load_state_dict(models[0].state_dict())
    few, gradients = EDGES[:, :20].clone(), []
    for model in models:
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(1))
        x = X.clone().requires_grad_()
        (model(x, EDGES).square().mean() + model(x, few).square().mean()).backward()
        gradients.append(torch.cat([x.grad.flatten(), *(each.grad.flatten() for each in model.parameters())]))
    assert relative_error(*gradients) < 1e-5


def test_copies_of_the_edges_have_their_relations():
    class Copies(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(F, OUT)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index.long().clone())

    model = gp.to_mrs(Copies())
    part(model)
    types = gp.splitting.resolve_split("degree")(gp.splitting.Graph(EDGES, N))
    expected = model.model.conv(X, EDGES, edge_type=types)
    for edges in (EDGES, EDGES.int()):
        assert relative_error(model(X, edges), expected) < 1e-5


DDP = """
import os, sys, torch
from torch_geometric.nn import GAT
import graphprism as gp

rank, folder = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(gp.to_mrs(GAT(6, 8, 2, 4, heads=2, v2=True)))
torch.manual_seed(rank)
model(torch.randn(9, 6), torch.randint(0, 9, (2, 20))).square().mean().backward()
grads = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
both = [torch.empty_like(grads) for _ in range(2)]
torch.distributed.all_gather(both, grads)
assert torch.equal(*both) and grads.isfinite().all()
torch.distributed.barrier()
torch.distributed.destroy_process_group()
os._exit(0)  # all is checked; threads of gloo that still run would abort the end of the process now and then
"""


def test_converted_model_trains_in_two_processes(warm_python, tmp_path):
    ranks = [warm_python.start("-c", DDP, rank, tmp_path) for rank in range(2)]
    said = [rank.communicate()[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said


class Difference(MessagePassing):
    """Passes messages twice, with softmax over senders in the first; weights in messages and in the update."""

    def __init__(self) -> None:
        super().__init__(aggr="max")
        self.lin, self.out = torch.nn.Linear(F, F), torch.nn.Linear(F, F)

    def forward(self, x, edge_index):
        x = self.out(self.propagate(edge_index, x=x)).tanh()
        return self.out(self.propagate(edge_index, x=x))

    def message(self, x_i, x_j):
        return self.lin(x_i - x_j)


def test_generic_layer_by_its_definition():
    torch.manual_seed(0)
    plain = Difference().double()
    x = X.double()
    layer = gp.to_mrs(plain, example=(x, EDGES), decay=3.0)
    assert layer.model.names == ["lin.weight", "lin.bias", "out.weight", "out.bias"]
    part(layer)
    types = gp.splitting.resolve_split("degree")(gp.splitting.Graph(EDGES, N))
    stacks = {
        name: layer.model.together(dict(layer.model.conv.named_parameters())[name], deviation)
        for name, deviation in zip(layer.model.names, layer.model.deviations, strict=True)
    }
    # the first messages, of `lin` alone: hop by hop, each edge with the weight of its relation
    src, dst = EDGES
    out = layer.model.conv.out
    messages = torch.stack(
        [
            stacks["lin.weight"][r] @ (x[i] - x[j]) + stacks["lin.bias"][r]
            for j, i, r in zip(src, dst, types, strict=True)
        ]
    )
    first = aggregated(messages)
    each = [
        (first @ stacks["out.weight"][r].T + stacks["out.bias"][r]).tanh() for r in range(3)
    ]  # what the copies send next depends on `out`, too
    messages = torch.stack(
        [
            stacks["lin.weight"][r] @ (each[r][i] - each[r][j]) + stacks["lin.bias"][r]
            for j, i, r in zip(src, dst, types, strict=True)
        ]
    )
    torch.testing.assert_close(layer(x, EDGES), out(aggregated(messages)), rtol=1e-10, atol=1e-10)


def aggregated(messages: torch.Tensor) -> torch.Tensor:
    rows = [messages[EDGES[1] == i] for i in range(N)]
    return torch.stack([each.amax(dim=0) if len(each) else messages.new_zeros(messages.size(1)) for each in rows])


def test_multi_edges_in_several_relations_keep_theirs_beside_added_loops():
    edges = torch.tensor([[0, 0, 1, 1, 2], [1, 1, 0, 1, 1]])
    types = torch.tensor([0, 1, 2, 0, 1])
    model = converted("generic")
    part(model)
    loops = torch.arange(N).expand(2, N)
    other = converted("generic, no loops")
    other.load_state_dict(model.state_dict())
    kept = edges[0] != edges[1]
    both = torch.cat([edges[:, kept], loops], dim=1), torch.cat([types[kept], torch.full((N,), 2)])
    assert relative_error(model(X, edges, edge_type=types), other(X, both[0], edge_type=both[1])) < 1e-5


def test_edge_cnn_with_batch_norm_trains():
    model = gp.to_mrs(EdgeCNN(F, 8, 2, OUT), example=(X, EDGES)).train()
    model(X, EDGES).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_types_that_no_longer_belong_to_their_edges_are_refused():
    data = gp.SplitEdges("degree")(Data(x=X, edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]])))
    model = gp.to_mrs(TakesData())
    assert model(data).shape == (N, OUT)
    with pytest.raises(ValueError, match="edge_type"):
        model(ToUndirected()(data))


@pytest.mark.parametrize(
    "make",
    [TakesData, lambda: GCN(F, 8, num_layers=2, out_channels=OUT), lambda: GCNConv(F, OUT)],
    ids=["data", "gcn", "conv"],
)
def test_converted_models_are_measured_and_explained(make):
    data = gp.SplitEdges("degree")(Data(x=X, edge_index=EDGES))
    model = gp.to_mrs(make())
    part(model)
    assert gp.collapse(model, data).verdict
    explained = gp.explain(model, data)
    by_hand = gp.explain(
        model,
        data,
        forward=(lambda m, d: m(d)) if make is TakesData else lambda m, d: m(d.x, d.edge_index, edge_type=d.edge_type),
    )
    assert str(explained) == str(by_hand)


def test_a_converted_model_prints_its_layers_and_they_are_certified():
    model = gp.to_mrs(GCN(F, 8, num_layers=2, out_channels=OUT))
    assert "convs.0: MRSGCNConv" in str(model)
    data = gp.SplitEdges("degree")(Data(edge_index=EDGES, num_nodes=N))
    assert gp.certify(data, layer=model.model.convs[0]).layer.name == "MRSGCNConv"


@pytest.mark.parametrize("key", ["n_id", "e_id", "input_id"])
def test_converted_model_refuses_a_batch_of_a_loader_without_types(key):
    class OnData(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GCNConv(F, OUT)

        def forward(self, data):
            return self.conv(data.x, data.edge_index)

    model = gp.to_mrs(OnData())
    with pytest.raises(ValueError, match="must be given for a sampled batch"):
        model(Data(x=X, edge_index=EDGES, **{key: torch.arange(2)}))


def test_converted_model_names_edge_type_where_relations_come_as_weights():
    model, types = converted(), torch.zeros(EDGES.size(1), dtype=torch.int64)
    with pytest.raises(TypeError, match=r"got torch.int64; relations have a name, `edge_type=`$"):
        model(X, EDGES, types)
    with pytest.raises(TypeError, match=r"relations have a name, `edge_type=`$"):
        gp.to_mrs(GCNConv(F, OUT))(X, EDGES, types)


@pytest.mark.parametrize("strict", [True, False])
def test_state_of_the_plain_model_is_loaded_before_the_conversion(strict):
    plain = GCN(4, 8, num_layers=2)
    with pytest.raises(RuntimeError, match="must be loaded before the conversion, `to_mrs`, got"):
        gp.to_mrs(GCN(4, 8, num_layers=2), "degree").load_state_dict(plain.state_dict(), strict=strict)


@pytest.mark.parametrize("name", MODELS)
def test_tensors_made_in_inference_mode_are_split_in_every_call(name):
    model = converted(name)
    part(model)
    with torch.inference_mode():
        x, edges = X.clone(), EDGES.clone()
        for _ in range(3):
            torch.testing.assert_close(model(x, edges), model(X, EDGES))
        edges[:, :4] = edges[:, 4:8]  # has no version to notice it by
        torch.testing.assert_close(model(x, edges), model(X, edges.clone()))


@pytest.mark.parametrize("make", [lambda: GCN(8, 16, 2, 4), lambda: GAT(8, 16, 2, 4, v2=True)])
def test_threads_share_a_converted_model(make):
    model = gp.to_mrs(make(), "degree", start="independent").eval()
    calls = [(torch.randn(n, 8), torch.randint(n, (2, 6 * n))) for n in range(100, 500, 50)]
    with torch.no_grad():
        wanted = [model(*call) for call in calls]

    def run(call):
        with torch.no_grad():
            return model(*call)

    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for found, alone in zip(pool.map(run, calls), wanted, strict=True):
                torch.testing.assert_close(found, alone)

"""Layers are PyG's `MessagePassing`: masks, hooks, explainers and other tools of PyG, each against its own layer."""

import copy
import importlib.util
import pickle
import warnings
from typing import NamedTuple

import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.explain import AttentionExplainer, CaptumExplainer, Explainer, GNNExplainer
from torch_geometric.explain.algorithm.utils import set_masks
from torch_geometric.nn import GATConv, GCNConv, GINConv, MessagePassing, SAGEConv, summary, to_hetero
from torch_geometric.utils import (
    get_embeddings,
    get_num_hops,
    to_torch_coo_tensor,
    to_torch_csc_tensor,
    to_torch_csr_tensor,
)

from graphprism.nn import GNN, MRSConv, MRSGATConv, MRSGCNConv, MRSGINConv, MRSSAGEConv
from graphprism.ops import RelationalAdj
from graphprism.testing import random_graph, tolerance
from tests.nn.conv import cases
from tests.nn.conv.cases import IN, LAYERS, OUT, Difference, make_layer, mlp
from tests.pairwise import in_turn

CLOSE = tolerance(torch.double)
GRAPH = random_graph(12, 40, 0)
named = pytest.mark.parametrize("name", LAYERS)


class Arguments(NamedTuple):
    x: torch.Tensor
    edge_index: torch.Tensor
    edge_type: torch.Tensor
    edge_weight: torch.Tensor | None


def make_example(graph, relations=3, **options):
    example = cases.make_example(graph, relations, **options)
    return Arguments(example.x, example.edge_index, example.edge_type, example.edge_weight)


def convolutions(module):
    return [each for each in module.modules() if isinstance(each, MessagePassing)]


def look(module):
    """Registers a hook that changes nothing; returns the messages of each call."""
    seen = []
    for conv in convolutions(module):
        conv.register_message_forward_hook(lambda conv, arguments, out: seen.append((arguments[0], out)))
    return seen


def set_mask(module, mask):
    for conv in convolutions(module):
        conv.explain, conv._edge_mask, conv._apply_sigmoid = True, mask, False


def unset_mask(module):
    for conv in convolutions(module):
        conv.explain, conv._edge_mask, conv._apply_sigmoid = False, None, True


def partners(num_relations=1):
    """Layers of PyG with ours that have their weights."""
    torch.manual_seed(0)
    gcn, sage = GCNConv(IN, OUT, add_self_loops=False), SAGEConv(IN, OUT)
    gat, gin = GATConv(IN, OUT, heads=2, add_self_loops=False), GINConv(mlp(), eps=0.1)
    plain = {"gcn": gcn.double(), "sage": sage.double(), "gat": gat.double(), "gin": gin.double()}
    ours = {
        "gcn": MRSGCNConv(IN, OUT, num_relations=num_relations),
        "sage": MRSSAGEConv(IN, OUT, num_relations=num_relations),
        "gat": MRSGATConv(IN, OUT, heads=2, num_relations=num_relations),
        "gin": MRSGINConv(copy.deepcopy(gin.nn), eps=0.1, num_relations=num_relations),
    }
    for layer in ours.values():
        layer.double()
    ours["gcn"].lin.set_(gcn.lin.weight.t())
    ours["sage"].lin.set_(sage.lin_l.weight.t())
    ours["sage"].lin_root, ours["sage"].bias = sage.lin_r, sage.lin_l.bias
    ours["gat"].lin.set_(gat.lin.weight.t())
    ours["gat"].att_src, ours["gat"].att_dst = gat.att_src, gat.att_dst
    return {name: (plain[name], ours[name]) for name in plain}


class Net(torch.nn.Module):
    """Two convolutions, called with or without types."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, edge_index, edge_type=None):
        rest = () if edge_type is None else (edge_type,)
        return self.second(self.first(x, edge_index, *rest).tanh(), edge_index, *rest)


def nets(conv="gcn"):
    plain, ours = partners(3)[conv]
    wide = OUT * 2 if conv == "gat" else OUT
    torch.manual_seed(1)
    if conv == "gat":
        second = GATConv(wide, OUT, add_self_loops=False).double()
        own = MRSGATConv(wide, OUT, num_relations=3).double()
        own.att_src, own.att_dst = second.att_src, second.att_dst
    else:
        second, own = GCNConv(wide, OUT, add_self_loops=False).double(), MRSGCNConv(wide, OUT, num_relations=3).double()
    own.lin.set_(second.lin.weight.t())
    return Net(plain, second).eval(), Net(ours, own).eval()


@named
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("soft", [False, True])
def test_messages_by_edge_are_the_layer(name, weighted, soft):
    layer, example = make_layer(name), make_example(GRAPH, weighted=weighted, soft=soft)
    expected = layer(*example)
    seen = look(layer)
    found = layer(*example)
    torch.testing.assert_close(found, expected, **CLOSE)
    assert len(seen) == len(convolutions(layer))
    for arguments, messages in seen:
        assert messages.size(0) == GRAPH.edge_index.size(1)
        assert arguments["rows"].size(0) == GRAPH.edge_index.size(1)


@named
def test_messages_by_edge_have_the_gradients_of_the_layer(name):
    layer, example = make_layer(name), make_example(GRAPH, weighted=True)
    parameters = [parameter for parameter in layer.parameters() if parameter.requires_grad]
    expected = torch.autograd.grad(layer(*example).square().sum(), parameters)
    look(layer)
    found = torch.autograd.grad(layer(*example).square().sum(), parameters)
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right, **CLOSE)


@named
def test_masks_follow_the_edges_of_the_input(name):
    layer, example = make_layer(name), make_example(GRAPH, weighted=True)
    adj = RelationalAdj(*example[1:], num_relations=3, num_nodes=12).prepare()
    mask = torch.rand(GRAPH.edge_index.size(1), dtype=torch.double, requires_grad=True)
    set_mask(layer, mask)
    out = layer(*example)
    torch.testing.assert_close(layer(example.x, adj), out, **CLOSE)
    # the mask of one edge, and no other, changes its receiver (with directions also its sender)
    (gradient,) = torch.autograd.grad(out[int(GRAPH.edge_index[1, 7])].sum(), mask)
    assert gradient[7] != 0
    near = (GRAPH.edge_index == GRAPH.edge_index[1, 7]).any(0)
    assert (gradient[~near] == 0).all()
    unset_mask(layer)
    assert not layer(*example).allclose(out)


def test_mask_of_zeros_and_ones_removes_edges():
    layer, (x, edges, types, weight) = make_layer("gcn"), make_example(GRAPH, weighted=True)
    keep = torch.arange(edges.size(1)) % 3 > 0
    expected = layer(x, edges[:, keep], types[keep], weight[keep])
    set_mask(layer, keep.double())
    torch.testing.assert_close(layer(x, edges, types, weight), expected, **CLOSE)


@pytest.mark.parametrize("name", ["gcn", "sage", "gat", "gin"])
@pytest.mark.parametrize("num_relations", [1, 3])
def test_masked_layer_is_pygs(name, num_relations):
    plain, ours = partners(num_relations)[name]
    x, edges, types, _ = make_example(GRAPH, num_relations)
    mask = torch.randn(edges.size(1), dtype=torch.double, requires_grad=True)
    for layer in (plain, ours):
        layer.explain, layer._edge_mask, layer._apply_sigmoid = True, mask, True
    expected, found = plain(x, edges), ours(x, edges, types)
    torch.testing.assert_close(found, expected, **CLOSE)
    (left,), (right,) = (torch.autograd.grad(out.square().sum(), mask) for out in (found, expected))
    torch.testing.assert_close(left, right, **CLOSE)


@pytest.mark.parametrize("weighted", [False, True])
def test_masks_of_a_graph_with_loops_beside_added_ones_are_pygs(weighted):
    plain = GCNConv(IN, OUT, improved=True).double()
    ours = MRSGCNConv(IN, OUT, improved=True, add_self_loops=True, num_relations=1).double()
    ours.load_state_dict(plain.state_dict())
    x, edges, _, weight = make_example(GRAPH, 1, weighted=weighted)
    edges = torch.cat([edges, torch.tensor([[3, 5], [3, 5]])], dim=1)
    weight = torch.cat([weight, torch.tensor([0.5, 2.0], dtype=torch.double)]) if weighted else None
    mask = torch.nn.Parameter(torch.randn(edges.size(1), dtype=torch.double))
    for layer in (plain, ours):
        set_masks(layer, mask, edges)
    expected, found = plain(x, edges, weight), ours(x, edges, None, weight)
    torch.testing.assert_close(found, expected, **CLOSE)
    (left,), (right,) = (torch.autograd.grad(out.square().sum(), mask) for out in (found, expected))
    torch.testing.assert_close(left, right, **CLOSE)


def explained(model, algorithm, *types, **options):
    x, edges, _, _ = make_example(GRAPH)
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    explainer = Explainer(
        model, algorithm, explanation_type="model", edge_mask_type="object", model_config=config, **options
    )
    torch.manual_seed(3)
    kwargs = {"edge_type": types[0]} if types else {}
    return explainer(x, edges, index=5, **kwargs)


@pytest.mark.parametrize("conv", ["gcn", "sage", "gat", "gin"])
def test_gnn_explainer_finds_what_it_finds_in_pygs_layers(conv):
    plain, ours = nets(conv)
    types = make_example(GRAPH).edge_type
    options = {"node_mask_type": "attributes"}
    expected = explained(plain, GNNExplainer(epochs=5), **options)
    found = explained(ours, GNNExplainer(epochs=5), types, **options)
    torch.testing.assert_close(found.edge_mask, expected.edge_mask, rtol=1e-4, atol=1e-6)
    # PyG blanks features whose gradient is exactly zero. In attention, gradients of receivers cancel up to rounding
    # (1e-17 in both layers), which then decides.
    if conv != "gat":
        torch.testing.assert_close(found.node_mask, expected.node_mask, rtol=1e-4, atol=1e-6)
    assert found.edge_mask.count_nonzero() > 0
    assert not any(each.is_by_edge for each in convolutions(ours))


@pytest.mark.skipif(importlib.util.find_spec("captum") is None, reason="needs captum")
@pytest.mark.filterwarnings("ignore:Input Tensor 0 did not already:UserWarning")
@pytest.mark.parametrize("method", ["IntegratedGradients", "Saliency"])
def test_captum_explainer_finds_what_it_finds_in_pygs_layers(method):
    plain, ours = nets()
    types = make_example(GRAPH).edge_type
    expected = explained(plain, CaptumExplainer(method), node_mask_type="attributes")
    found = explained(ours, CaptumExplainer(method), types, node_mask_type="attributes")
    torch.testing.assert_close(found.edge_mask, expected.edge_mask, rtol=1e-4, atol=1e-6)


def test_attention_explainer_finds_what_it_finds_in_pygs_layers():
    plain, ours = nets("gat")
    types = make_example(GRAPH).edge_type
    expected = explained(plain, AttentionExplainer())
    found = explained(ours, AttentionExplainer(), types)
    torch.testing.assert_close(found.edge_mask, expected.edge_mask, **CLOSE)


@pytest.mark.parametrize("conv", ["mrs-gcn", "mrs-sage", "mrs-gat", "mrs-gin", "mrs-dir-gcn", "mrs-gated-gcn"])
def test_gnn_is_explained(conv):
    torch.manual_seed(0)
    model = GNN(conv, 8, 3, 2, in_channels=IN, normalize=True).double().eval()
    example = make_example(GRAPH)
    found = explained(model, GNNExplainer(epochs=3), example.edge_type, node_mask_type="attributes")
    assert found.edge_mask.shape == (GRAPH.edge_index.size(1),)
    assert found.edge_mask.count_nonzero() > 0


class TestAttentionWeights:
    @pytest.mark.parametrize("num_relations", [1, 3])
    def test_are_those_of_pyg(self, num_relations):
        plain, ours = partners(num_relations)["gat"]
        x, edges, types, _ = make_example(GRAPH, num_relations)
        out, (same, expected) = plain(x, edges, return_attention_weights=True)
        found, (order, alpha) = ours(x, edges, types, return_attention_weights=True)
        torch.testing.assert_close(found, out, **CLOSE)
        torch.testing.assert_close(alpha, expected, **CLOSE)
        assert order.equal(same)

    @pytest.mark.parametrize("soft", [False, True])
    def test_are_in_the_order_of_the_edges(self, soft):
        layer, (x, edges, types, weight) = make_layer("gat"), make_example(GRAPH, weighted=True, soft=soft)
        _, (_, alpha) = layer(x, edges, types, weight, return_attention_weights=True)
        total = torch.zeros(12, 2, dtype=torch.double).index_add(0, edges[1], alpha)
        assert total[edges[1]].allclose(torch.ones((), dtype=torch.double))
        turn = torch.randperm(edges.size(1))
        _, (order, turned) = layer(x, edges[:, turn], types[turn], weight[turn], return_attention_weights=True)
        assert order.equal(edges[:, turn])
        torch.testing.assert_close(turned, alpha[turn], **CLOSE)


class TestHooks:
    def test_propagate_and_aggregate(self):
        layer, example = make_layer("gcn"), make_example(GRAPH)
        plain = layer(*example)
        handles = [
            layer.register_propagate_forward_pre_hook(lambda conv, arguments: None),
            layer.register_aggregate_forward_hook(lambda conv, arguments, out: 2 * out),
        ]
        torch.testing.assert_close(layer(*example) - layer.bias, 2 * (plain - layer.bias), **CLOSE)
        for handle in handles:
            handle.remove()
        assert not layer.is_by_edge
        torch.testing.assert_close(layer(*example), plain, **CLOSE)

    def test_message_of_a_subclass(self):
        class Halved(MRSGCNConv):
            def message(self, rows, weight, x_i, x_j):
                assert x_i.shape == x_j.shape == (40, IN)
                return 0.5 * super().message(rows, weight)

        layer, example = Halved(IN, OUT, num_relations=3).double(), make_example(GRAPH)
        assert layer.is_by_edge
        plain = MRSGCNConv(IN, OUT, num_relations=3).double()
        plain.load_state_dict(layer.state_dict())
        torch.testing.assert_close(layer(*example), 0.5 * plain(*example), **CLOSE)

    def test_subclass_without_a_message_of_its_own(self):
        class Named(MRSGATConv):
            pass

        assert not Named(IN, OUT).is_by_edge

    def test_static_signals_are_refused(self):
        layer, (x, *rest) = make_layer("gcn"), make_example(GRAPH)
        look(layer)
        with pytest.raises(ValueError, match=r"`x` must have shape \[N, F\] to observe messages"):
            layer(torch.stack([x, x]), *rest)


@named
def test_copies(name):
    layer, example = make_layer(name), make_example(GRAPH)
    other = copy.deepcopy(layer)
    torch.testing.assert_close(other(*example), layer(*example))
    if name.startswith(("gcn", "sage", "gat")):
        torch.testing.assert_close(pickle.loads(pickle.dumps(layer))(*example), layer(*example))


def test_get_num_hops():
    plain, ours = nets()
    assert get_num_hops(ours) == get_num_hops(plain) == 2
    assert get_num_hops(GNN("mrs-sage", 8, 3, 5)) == 5


def test_get_embeddings():
    plain, ours = nets()
    x, edges, types, _ = make_example(GRAPH)
    expected, found = get_embeddings(plain, x, edges), get_embeddings(ours, x, edges, types)
    for left, right in zip(found, expected, strict=True):
        torch.testing.assert_close(left, right, **CLOSE)


class TestToHetero:
    class Net(torch.nn.Module):
        def __init__(self, conv):
            super().__init__()
            self.first, self.second = conv(), conv()

        def forward(self, x, edge_index, edge_type):
            return self.second(self.first(x, edge_index, edge_type).relu(), edge_index, edge_type)

    class PlainNet(Net):
        def forward(self, x, edge_index):
            return self.second(self.first(x, edge_index).relu(), edge_index)

    def test_is_that_of_pygs_layers(self):
        data = HeteroData()
        data["paper"].x, data["author"].x = torch.randn(9, 5).double(), torch.randn(4, 5).double()
        data["paper", "cites", "paper"].edge_index = torch.randint(9, (2, 20))
        data["author", "writes", "paper"].edge_index = torch.stack([torch.randint(4, (15,)), torch.randint(9, (15,))])
        data["paper", "by", "author"].edge_index = data["author", "writes", "paper"].edge_index.flip(0)
        for store in data.edge_stores:
            store.edge_type = torch.randint(3, (store.num_edges,))
        plain = to_hetero(self.PlainNet(lambda: SAGEConv((5, 5), 5)).double(), data.metadata())
        ours = to_hetero(self.Net(lambda: MRSSAGEConv((5, 5), 5, num_relations=3)).double(), data.metadata())
        for step in ("first", "second"):
            for key, conv in getattr(ours, step).items():
                partner = getattr(plain, step)[key]
                conv.lin.set_(partner.lin_l.weight.t())
                conv.lin_root, conv.bias = partner.lin_r, partner.lin_l.bias
        expected = plain(data.x_dict, data.edge_index_dict)
        found = ours(data.x_dict, data.edge_index_dict, data.edge_type_dict)
        for key in expected:
            torch.testing.assert_close(found[key], expected[key], **CLOSE)


@pytest.mark.skipif(importlib.util.find_spec("tabulate") is None, reason="needs tabulate")
def test_summary_with_a_prepared_graph():
    _, ours = nets()
    x, edges, types, _ = make_example(GRAPH)
    adj = RelationalAdj(edges, types, num_relations=3, num_nodes=12)
    text = summary(ours, x, adj, leaf_module=MessagePassing)
    assert "[12, 5], [12, 12]" in text
    assert "MRSGCNConv" in text
    assert f"[12, {OUT}]" in text


LAYOUTS = {"csr": to_torch_csr_tensor, "coo": to_torch_coo_tensor, "csc": to_torch_csc_tensor}


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
class TestSparseTensors:
    """``adj_t`` of ``T.ToSparseTensor(layout=...)``: a row for every receiver."""

    @staticmethod
    def simple():
        """A graph without repeated edges, sorted by receiver, as a sparse tensor has to be."""
        edges = torch.unique(GRAPH.edge_index.flip(0), dim=1).flip(0)
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(12, IN, generator=generator, dtype=torch.double)
        weight = torch.rand(edges.size(1), generator=generator, dtype=torch.double) + 0.5
        return x, edges, torch.randint(3, (edges.size(1),), generator=generator), weight

    @pytest.mark.parametrize("name", ["gcn", "sage", "gat", "gin"])
    def test_one_relation_is_pygs_layer(self, layout, name):
        x, edges, _, _ = self.simple()
        plain, ours = partners(1)[name]
        adj_t = LAYOUTS[layout](edges.flip(0), size=(12, 12))
        found = ours(x, adj_t)
        torch.testing.assert_close(found, plain(x, edges), **CLOSE)
        if layout == "csr" and name != "gcn":  # PyG warns of the others, or takes none
            torch.testing.assert_close(found, plain(x, adj_t.double()), **CLOSE)

    @pytest.mark.parametrize("improved", [False, True])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_self_loops_are_added_as_pyg_adds_them(self, layout, improved, weighted):
        x, edges, types, weight = self.simple()
        edges = torch.cat([edges[:, edges[0] != edges[1]], torch.tensor([[2, 5], [2, 5]])], dim=1)
        types = types.new_zeros(edges.size(1))
        plain = GCNConv(IN, OUT, improved).double()
        ours = MRSGCNConv(IN, OUT, improved, add_self_loops=True, num_relations=3).double()
        ours.load_state_dict(plain.state_dict())
        values = weight[:1].repeat(edges.size(1)) if weighted else torch.ones(edges.size(1)).double()
        adj_t = LAYOUTS[layout](edges.flip(0), values, size=(12, 12))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyG's own
            expected = plain(x, LAYOUTS["coo"](edges.flip(0), values, size=(12, 12)).coalesce())
        torch.testing.assert_close(ours(x, adj_t, types), expected, **CLOSE)

    def test_integers_are_relations(self, layout):
        x, edges, types, _ = self.simple()
        layer = make_layer("gcn")
        adj_t = LAYOUTS[layout](edges.flip(0), types, size=(12, 12))
        torch.testing.assert_close(layer(x, adj_t), layer(x, edges, types), **CLOSE)

    def test_floats_are_weights(self, layout):
        x, edges, types, weight = self.simple()
        layer = make_layer("gcn")
        adj_t = LAYOUTS[layout](edges.flip(0), weight, size=(12, 12))
        order = types
        if layout == "csc":  # types are in the order of the entries, which is by column
            order = types[(edges[0] * 12 + edges[1]).argsort()]
        torch.testing.assert_close(layer(x, adj_t, order), layer(x, edges, types, weight), **CLOSE)

    def test_errors(self, layout):
        x, edges, types, weight = self.simple()
        layer = make_layer("gcn")
        with pytest.raises(ValueError, match=r"`edge_type` must be given for 3 relations"):
            layer(x, LAYOUTS[layout](edges.flip(0), weight, size=(12, 12)))
        with pytest.raises(ValueError, match=r"`edge_type` must be None with a sparse tensor of integers"):
            layer(x, LAYOUTS[layout](edges.flip(0), types, size=(12, 12)), types)
        with pytest.raises(ValueError, match=r"`edge_weight` must be None with a sparse tensor"):
            layer(x, LAYOUTS[layout](edges.flip(0), weight, size=(12, 12)), types, weight)
        with pytest.raises(ValueError, match=r"`edge_index` must have shape \[12, 12\]"):
            layer(x, LAYOUTS[layout](edges.flip(0), weight, size=(13, 12)), types)


@named
def test_meta_device(name):
    layer, example = make_layer(name), make_example(GRAPH, weighted=True)
    expected = layer(*example)
    found = copy.deepcopy(layer).to("meta")(*(each.to("meta") for each in example))
    assert found.is_meta
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype


class TestGeneralLayer:
    """`MRSConv` as one graph, whose message functions are any modules."""

    @in_turn(start=["shared", "independent"], soft=[False, True])
    def test_compiles_to_one_graph(self, start, soft):
        torch.manual_seed(0)
        layer = MRSConv(Difference, num_relations=3, start=start).double()
        example = make_example(GRAPH, soft=soft)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(*example[:3]), layer(*example[:3]), **CLOSE)
        compiled(*example[:3]).sum().backward()

    def test_exports_with_any_size(self):
        torch.manual_seed(0)
        layer = MRSConv(Difference, num_relations=3, start="shared").double().eval()
        example = make_example(GRAPH)[:3]
        nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
        shapes = {
            "x": {0: nodes},
            "edge_index": {1: edges},
            "edge_type": {0: edges},
            "edge_weight": None,
            "edge_attr": None,
        }
        program = torch.export.export(layer, (*example, None, None), dynamic_shapes=shapes)
        other = make_example(random_graph(30, 99, 1))[:3]
        torch.testing.assert_close(program.module()(*other, None, None), layer(*other), **CLOSE)


@pytest.mark.skipif(not hasattr(torch.compiler, "is_exporting"), reason="needs torch 2.7, got an older one")
@pytest.mark.parametrize("name", ["gcn", "sage", "gat", "gin", "gated-gcn"])
def test_layers_export_with_any_size(name):
    layer, example = make_layer(name).eval(), make_example(GRAPH)[:3]
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    program = torch.export.export(layer, example, dynamic_shapes=({0: nodes}, {1: edges}, {0: edges})).module()
    for num_nodes, num_edges in ((8000, 5), (3, 4000)):  # as guards on sizes, or on their ratio, would refuse
        other = make_example(random_graph(num_nodes, num_edges, 1))[:3]
        torch.testing.assert_close(program(*other), layer(*other), **CLOSE)

"""Every baseline equals a computation with dense matrices, written from its formula alone."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from graphprism.nn import BASELINES, GNN
from graphprism.nn.models.baselines.adjacency_features import small_inverse
from graphprism.nn.models.baselines.fixed_propagation import propagated
from graphprism.splitting import Graph, by_order

NODES, FEATURES, HIDDEN, CLASSES = 9, 5, 4, 3
DOUBLE = torch.float64


def edges(undirected):
    """A connected graph with a hub, a node without outgoing edges, and one loop-free cycle; each edge once."""
    pairs = {(0, 1), (1, 2), (2, 0), (3, 0), (4, 0), (5, 0), (6, 5), (7, 6), (0, 7), (4, 8), (3, 8), (2, 8)}
    pairs |= {(b, a) for a, b in pairs} if undirected else set()
    return torch.tensor(sorted(pairs)).t()


def dense(edge_index):
    """A[i, j] is 1 for an edge i -> j."""
    matrix = torch.zeros(NODES, NODES, dtype=DOUBLE)
    matrix[edge_index[0], edge_index[1]] = 1
    return matrix


def eye():
    return torch.eye(NODES, dtype=DOUBLE)


def symmetric(matrix):
    root = torch.diag(matrix.sum(1).clamp(min=1) ** -0.5)
    return root @ matrix @ root


def made(name, layers, edge_index, edge_type=None, relations=1, fields=None, **options):
    """A network with random weights in double, its features and its graph."""
    torch.manual_seed(3)
    baseline = BASELINES[name]
    network = baseline.make(
        FEATURES, HIDDEN, CLASSES, layers, num_nodes=NODES, num_relations=relations, fields=fields, **options
    ).double().eval()  # fmt: skip
    for parameter in network.parameters():  # biases start at zero, where they would hide a mistake
        torch.nn.init.normal_(parameter, std=0.7)
    x = torch.randn(NODES, FEATURES, dtype=DOUBLE)
    split = {"edge_type": edge_type, "num_relations": relations}
    return network, x, baseline.prepare(x, edge_index, DOUBLE, num_layers=layers, **split, **options)


def linear(layer, x):
    return x @ layer.weight.t() + (0 if layer.bias is None else layer.bias)


def test_h2gcn():
    network, x, graph = made("h2gcn", 2, edges(undirected=True))
    near = dense(edges(undirected=True))
    far = ((near @ near > 0) & (near == 0)).double() * (1 - eye())
    states = [linear(network.encoder, x).relu()]
    for _ in range(2):
        states.append(torch.cat([symmetric(near) @ states[-1], symmetric(far) @ states[-1]], dim=1))
    torch.testing.assert_close(network(x, graph), linear(network.head, torch.cat(states, dim=1)))


def test_gpr_gnn():
    network, x, graph = made("gpr-gnn", 2, edges(undirected=True), steps=3)
    step = symmetric(dense(edges(undirected=True)) + eye())
    h = linear(network.lins[1], linear(network.lins[0], x).relu())
    expected = sum(network.gamma[k] * torch.linalg.matrix_power(step, k) @ h for k in range(4))
    torch.testing.assert_close(network(x, graph), expected)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_gpr_gnn_starts_as_personalised_pagerank(alpha):
    network = BASELINES["gpr-gnn"].make(FEATURES, HIDDEN, CLASSES, 2, num_nodes=NODES, steps=2, alpha=alpha)
    expected = torch.tensor([alpha, alpha * (1 - alpha), (1 - alpha) ** 2])
    torch.testing.assert_close(network.gamma.detach(), expected)


def test_fsgnn():
    network, x, graph = made("fsgnn", 3, edges(undirected=False))
    matrix, features = dense(edges(undirected=False)), [x]
    plain = looped = x
    for _ in range(3):
        plain, looped = symmetric(matrix) @ plain, symmetric(matrix + eye()) @ looped
        features += [plain, looped]
    soft = network.soft.softmax(0)
    rows = [soft[n] * normalize(each @ network.weight[n] + network.bias[n], dim=1) for n, each in enumerate(features)]
    expected = linear(network.head, torch.cat(rows, dim=1).relu())
    torch.testing.assert_close(network(x, graph), expected)
    torch.testing.assert_close(network(x, propagated(x, graph, 3)), expected)


@pytest.mark.parametrize("structure", [False, True])
def test_acm_gcn(structure):
    network, x, graph = made("acm-gcn", 2, edges(undirected=True), structure=structure)
    matrix = dense(edges(undirected=True))
    low = torch.diag(1 / (matrix + eye()).sum(1)) @ (matrix + eye())

    def layer(part, h):
        filters = (low, eye() - low, eye())
        states = [(each @ h @ weight).relu() for each, weight in zip(filters, part.weight, strict=True)]
        states += [(matrix @ part.structure).relu()] if structure else []
        count = len(states)
        scores = torch.stack([state @ part.score[c] for c, state in enumerate(states)], dim=1).sigmoid()
        alpha = (scores @ part.mix / count).softmax(dim=1)
        return (1 if structure else 3) * sum(alpha[:, c, None] * state for c, state in enumerate(states))

    torch.testing.assert_close(network(x, graph), layer(network.second, layer(network.first, x).relu()))


@pytest.mark.parametrize(("delta", "plus"), [(0.0, False), (0.4, False), (1.0, False), (0.4, True)])
def test_glognn_solves_for_all_pairs_of_nodes(delta, plus):
    options = {"alpha": 0.5, "beta": 0.8, "gamma": 0.3, "delta": delta, "orders": 2, "channel_factors": plus}
    network, x, graph = made("glognn", 2, edges(undirected=True), **options)
    matrix = dense(edges(undirected=True)) + eye()
    walk = torch.diag(1 / matrix.sum(1)) @ matrix
    h = (delta * linear(network.features, x) if delta else 0) + (
        (1 - delta) * linear(network.neighbours, walk) if delta < 1 else 0
    )
    first = h = linear(network.head, h.relu())
    hops = sum(network.orders[k] * torch.linalg.matrix_power(walk, k + 1) for k in range(2))
    factors = torch.diag(network.factors) if plus else torch.eye(CLASSES, dtype=DOUBLE)
    for _ in range(2):
        wanted = 0.7 * (h - 0.3 * first) @ factors @ h.t() + 0.8 * hops
        best = wanted @ torch.linalg.inv(0.49 * h @ h.t() + 1.3 * eye())
        h = 0.7 * best @ h @ factors + 0.3 * first
    torch.testing.assert_close(network(x, graph), h)


def test_small_inverse():
    torch.manual_seed(0)
    half = torch.randn(5, 5, dtype=DOUBLE)
    matrix = (half @ half.t() + torch.eye(5, dtype=DOUBLE)).requires_grad_()
    torch.testing.assert_close(small_inverse(matrix), torch.linalg.inv(matrix))
    assert torch.autograd.gradcheck(small_inverse, matrix)


def test_small_inverse_of_large_numbers():
    """As the states of a network grow, so does their Gram matrix."""
    torch.manual_seed(0)
    half = 1e5 * torch.randn(20, 5, dtype=DOUBLE)
    matrix = half.t() @ half + torch.eye(5, dtype=DOUBLE)
    torch.testing.assert_close(small_inverse(matrix), torch.linalg.inv(matrix), rtol=1e-9, atol=0)


def test_gradient_gating():
    network, x, graph = made("g2", 3, edges(undirected=False), exponent=2.5)
    matrix, conv = dense(edges(undirected=False)), network.conv
    mean = torch.diag(1 / matrix.sum(0).clamp(min=1)) @ matrix.t()  # of the nodes that point to a node
    own, others = conv.lin_root, conv.lin
    h = linear(network.encoder, x).relu()
    for _ in range(3):
        new = (mean @ h @ others()[0] + conv.bias + h @ own.weight.t()).relu()
        apart = (new[:, None] - new[None]).abs() ** 2.5  # (N, N, F)
        gate = (matrix[..., None] * apart).sum(1) / matrix.sum(1).clamp(min=1)[:, None]
        h = (1 - gate.tanh()) * h + gate.tanh() * new
    torch.testing.assert_close(network(x, graph), linear(network.head, h))


def test_linkx():
    network, x, graph = made("linkx", 1, edges(undirected=False))
    parts = network.network
    of_edges = dense(edges(undirected=False)) @ parts.edge_lin.weight + parts.edge_lin.bias
    of_nodes = linear(parts.node_mlp.lins[0], x)
    joined = of_edges + linear(parts.cat_lin1, of_edges) + of_nodes + linear(parts.cat_lin2, of_nodes)
    torch.testing.assert_close(network(x, graph), linear(parts.final_mlp.lins[0], joined.relu()))


def test_linkx_drops_after_the_norm_by_its_generator():
    torch.manual_seed(0)
    network = BASELINES["linkx"].make(FEATURES, 64, CLASSES, 2, num_nodes=NODES, dropout=0.5)
    x, graph = torch.randn(NODES, FEATURES), edges(undirected=False).flip(0)
    seen = []
    network.network.final_mlp.norms[0].register_forward_hook(lambda module, _, output: seen.append(output))
    outputs = [network(x, graph, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    torch.testing.assert_close(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    assert 0.4 < (seen[0] == 0).double().mean() < 0.6
    network.eval()
    network(x, graph)
    assert (seen[-1] == 0).double().mean() < 0.2  # channels that ReLU has closed


def test_digcn():
    network, x, graph = made("digcn", 2, edges(undirected=False))
    walk = dense(edges(undirected=False)) + eye()
    walk = torch.diag(1 / walk.sum(1)) @ walk
    # restarts at a node of their own, which is left with equal chances
    whole = torch.zeros(NODES + 1, NODES + 1, dtype=DOUBLE)
    whole[:NODES, :NODES], whole[:NODES, NODES], whole[NODES, :NODES] = 0.9 * walk, 0.1, 1 / NODES
    spread = torch.linalg.matrix_power(whole.t(), 500)[:NODES, 0]
    root = torch.diag((spread / spread.sum()) ** 0.5)
    both = (root @ walk @ root.inverse() + root.inverse() @ walk.t() @ root) / 2
    matrix = symmetric_by_sums(both)
    h = (matrix.t() @ x @ network.convs[0].weight + network.convs[0].bias).relu()
    expected = matrix.t() @ h @ network.convs[1].weight + network.convs[1].bias
    torch.testing.assert_close(network(x, graph), expected, rtol=1e-3, atol=1e-4)


def symmetric_by_sums(matrix):
    root = torch.diag(matrix.sum(1) ** -0.5)
    return root @ matrix @ root


def test_magnet():
    network, x, graph = made("magnet", 2, edges(undirected=False), q=0.1, order=2)
    matrix = dense(edges(undirected=False))
    both = (matrix + matrix.t()) / 2
    root = torch.diag(both.sum(1) ** -0.5)
    phase = torch.exp(2j * math.pi * 0.1 * (matrix - matrix.t()))
    scaled = -(root @ both @ root) * phase  # L - I
    h = torch.complex(x, x)
    for conv in network.convs:
        terms = [h, scaled @ h, 2 * scaled @ (scaled @ h) - h]
        h = sum(term @ weight for term, weight in zip(terms, conv.weight.to(torch.complex128), strict=True))
        h = h + torch.complex(conv.bias, conv.bias)
        h = h * (h.real >= 0)
    expected = linear(network.head, torch.cat([h.real, h.imag], dim=1))
    torch.testing.assert_close(network(x, graph), expected, rtol=1e-5, atol=1e-5)


FIELDS = {"alpha": 0.3, "jk": "cat", "normalize": True, "start": "independent", "decay": 0.0}


@pytest.mark.parametrize("relations", [1, 3])
@pytest.mark.parametrize("complex_weights", [False, True])
@pytest.mark.parametrize("order", [1, 3])
def test_fabernet(order, complex_weights, relations):
    edge_index = edges(undirected=False)
    types = torch.arange(edge_index.size(1)) % 3 if relations == 3 else None
    name = "mrs-fabernet" if relations == 3 else "fabernet"
    options = {"order": order, "complex": complex_weights, "exponent": -0.25}
    network, x, graph = made(name, 2, edge_index, types, relations, FIELDS, **options)
    matrix = dense(edge_index)
    scale = matrix.sum(1).clamp(min=1)[:, None] ** -0.25 * matrix.sum(0).clamp(min=1)[None] ** -0.25
    whole = scale * matrix
    kinds = [whole] if types is None else [scale * dense(edge_index[:, types == r]) for r in range(3)]
    states, h = [], x.to(torch.complex128)
    for conv in network.convs:
        total = torch.zeros(NODES, HIDDEN, dtype=torch.complex128)
        for way, share in (("out", 0.3), ("in", 0.7)):
            for k in range(order):
                weights = [each() for each in conv.ways[way][k::order]]
                weight = torch.complex(weights[0], weights[1] if complex_weights else torch.zeros_like(weights[0]))
                for r, kind in enumerate(kinds):
                    step, last = (whole, kind) if way == "out" else (whole.t(), kind.t())
                    path = last @ torch.linalg.matrix_power(step, k)
                    total = total + share / 2**k * path.to(torch.complex128) @ h @ weight[r]
        bias = torch.complex(conv.bias[0], conv.bias[1] if complex_weights else torch.zeros_like(conv.bias[0]))
        parts = [normalize(part.abs(), dim=1) for part in ((total + bias).real, (total + bias).imag)]
        h = torch.complex(parts[0], parts[1] if complex_weights else torch.zeros_like(parts[0]))
        states.append(torch.cat(parts if complex_weights else parts[:1], dim=1))
    torch.testing.assert_close(network(x, graph), linear(network.head, torch.cat(states, dim=1)))


@pytest.mark.parametrize("jk", ["cat", "max"])
def test_fabernet_with_one_real_order_is_mrs_dir_gcn(jk):
    edge_index = edges(undirected=False)
    types = by_order("degree")(Graph(edge_index, NODES))
    fields = {**FIELDS, "jk": jk}
    options = {"activation": "relu", "exponent": -0.5}
    network, x, graph = made("mrs-fabernet", 2, edge_index, types, 3, fields, **options)
    ours = GNN(
        "mrs-dir-gcn", HIDDEN, CLASSES, 2, in_channels=FEATURES, encode=False, jk=jk, normalize=True, alpha=0.3,
        start="independent",
    ).double().eval()  # fmt: skip
    with torch.no_grad():
        for mine, theirs in zip(ours.convs, network.convs, strict=True):
            for way, conv in (("out", mine.conv_out), ("in", mine.conv_in)):
                conv.lin.weight.copy_(theirs.ways[way][0]())
                conv.bias.copy_(theirs.bias[0])
        ours.head.load_state_dict(network.head.state_dict())
    torch.testing.assert_close(network(x, graph), ours(x, edge_index, types))

"""Networks on a `RelationalAdj` under `torch.compile`: compiled once, and in CUDA graphs (``reduce-overhead``)."""

import copy

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from graphprism.nn import GNN
from graphprism.ops import RelationalAdj
from graphprism.testing import tolerance
from tests.pairwise import quick

MODELS = ["mrs-gcn", "mrs-sage", "mrs-gat", "mrs-gin", "mrs-gated-gcn", "mrs-dir-gcn"]
SIZE, OTHER = (40, 120), (44, 150)
# sums by atomic additions have no fixed order on a GPU
CLOSE = {"rtol": 1e-9, "atol": 1e-10}
# torch's compiler warns of parts of torch that it uses itself, and that other precisions would be faster
compiler_may_warn = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def make_graph(nodes=40, edges=120, device="cpu"):
    torch.manual_seed(nodes)
    ends, types = torch.randint(nodes, (2, edges)), torch.randint(3, (edges,))
    x = torch.randn(nodes, 6, dtype=torch.double)
    return x.to(device), RelationalAdj(ends.to(device), types.to(device), num_relations=3, num_nodes=nodes)


def make_network(model, **options):
    torch.manual_seed(0)
    return GNN(model, 8, 2, num_layers=2, in_channels=6, **options).double()


def assert_same_training(network, compiled_twin, compiled, sizes, tolerances, device="cpu", prepare=lambda adj: adj):
    """Both take a step on graphs of these sizes, and have the same losses and weights; gives the compiled one's graphs.

    Each has graphs of its own: what one prepares the other must not find.
    """
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.05) for each in (network, compiled_twin)]
    graphs = [{size: make_graph(*size, device) for size in sizes} for _ in optimizers]
    graphs = [{size: (x, prepare(adj)) for size, (x, adj) in own.items()} for own in graphs]
    for size in sizes:
        losses = []
        for module, optimizer, own in zip((network, compiled), optimizers, graphs, strict=True):
            optimizer.zero_grad()
            loss = module(*own[size]).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().clone())
        torch.testing.assert_close(losses[1], losses[0], **tolerances)
    torch.testing.assert_close(compiled_twin.state_dict(), network.state_dict(), **tolerances)
    return [adj for _, adj in graphs[1].values()]


@pytest.mark.parametrize("model", quick(["mrs-gcn", "mrs-gat", "mrs-dir-gcn"], "mrs-gcn", "mrs-gat"))
def test_network_is_compiled_once_for_a_graph(model):
    network, counter = make_network(model), CompileCounterWithBackend("aot_eager")
    twin = copy.deepcopy(network)
    compiled = torch.compile(twin, backend=counter, fullgraph=True)
    (adj,) = assert_same_training(network, twin, compiled, [SIZE] * 3, tolerance(torch.double))
    assert counter.frame_count == 1
    assert adj._cache == adj._sorts == {}  # nothing of a call outlives it


def test_prepared_graph_is_used_as_it_is():
    x, adj = make_graph()
    network = make_network("mrs-gcn")
    expected = network(x, adj)  # prepares the graph
    out = torch.compile(network, backend="aot_eager", fullgraph=True)(x, adj)
    torch.testing.assert_close(out, expected, **tolerance(torch.double))


@pytest.mark.slow
@compiler_may_warn
@pytest.mark.parametrize("model", ["mrs-gcn", "mrs-gat"])
def test_network_compiles_to_machine_code(model):
    network = make_network(model)
    twin = copy.deepcopy(network)
    compiled = torch.compile(twin, fullgraph=True)
    assert_same_training(network, twin, compiled, [SIZE, SIZE, OTHER], tolerance(torch.double))


@pytest.mark.gpu
@compiler_may_warn
@pytest.mark.parametrize("model", MODELS)
def test_network_in_cuda_graphs(model):
    network = make_network(model).cuda()
    twin = copy.deepcopy(network)
    compiled = torch.compile(twin, mode="reduce-overhead", fullgraph=True)
    sizes = [SIZE] * 5 + [OTHER] * 5 + [SIZE, OTHER] * 3
    assert_same_training(network, twin, compiled, sizes, CLOSE, "cuda")


@pytest.mark.gpu
@compiler_may_warn
def test_network_in_cuda_graphs_on_a_prepared_graph():
    network = make_network("mrs-gcn").cuda()
    twin = copy.deepcopy(network)
    compiled = torch.compile(twin, mode="reduce-overhead", fullgraph=True)
    assert_same_training(
        network, twin, compiled, [SIZE] * 6, CLOSE, "cuda", lambda adj: adj.prepare().normalized("sym", torch.double)
    )

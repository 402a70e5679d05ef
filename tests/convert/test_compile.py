"""`torch.compile(fullgraph=True)` of every converted convolution, where PyG's own layer compiles."""

from collections.abc import Sequence

import pytest
import torch
from torch_geometric.nn import GATv2Conv

from graphprism.convert import to_mrs
from graphprism.convert.generic_layer import GenericLayer
from graphprism.convert.mrs_model import _edges, named_arguments
from tests.convert.cases import CASES, EDGES, MAKES_EDGES, NOT_WHOLE, OUT, PLAIN_NOT_WHOLE, TABLE, F, N
from tests.convert.test_convolutions import out_and_gradients, relative_error, tensors

# They take the least time: one that passes messages along the edges that it gets, and one that adds self-loops.
QUICK = ("LEConv", "AGNNConv")
CONVERTED = [name for name in CASES if f"| `{name}` | refused" not in TABLE.read_text("utf-8")]
pytestmark = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="older versions run converted layers eagerly"
)


def each(names: Sequence[str]) -> list:
    return [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in names]


def compiles(model: torch.nn.Module, *args, **kwargs) -> bool:
    torch.compiler.reset()
    try:
        torch.compile(model, backend="eager", fullgraph=True)(*args, **kwargs)
    except (torch._dynamo.exc.Unsupported, torch._dynamo.exc.UserError):
        return False
    return True


@pytest.mark.parametrize("name", each([name for name in CONVERTED if name not in NOT_WHOLE]))
def test_converted_convolution_compiles_whole_where_types_are_given(name):
    make, args = CASES[name]
    torch.manual_seed(0)
    model = to_mrs(make().double().eval(), example=args)
    for parameter in model.parameters():  # relations that differ
        parameter.data += 0.1 * torch.randn_like(parameter)
    found = list(_edges(named_arguments(model._names, args)))
    # each pair of nodes has to have one relation where a layer reorders edges
    given = {key: (edges[0] + edges[1]) % 3 for key, edges, *_ in found}
    given = given if len(found) > 1 else next(iter(given.values()))
    leaves = list(model.parameters())

    def run(function):
        if name not in MAKES_EDGES:
            return out_and_gradients(lambda *inputs: tensors(function(*inputs, edge_type=given)), args, leaves)
        with torch.no_grad():
            return tensors(function(*args, edge_type=given))

    expected = run(model)
    torch.compiler.reset()
    compiled = run(torch.compile(model, backend="aot_eager", fullgraph=True))
    assert max(map(relative_error, compiled, expected)) < 1e-12
    for layer in model.modules():  # what a call replaces is back
        if isinstance(layer, GenericLayer):
            assert not {"message", "propagate", "edge_updater"} & vars(layer.conv).keys()


@pytest.mark.parametrize("name", each(MAKES_EDGES))
def test_converted_convolution_that_makes_edges_runs_eagerly_in_training(name):
    make, args = CASES[name]
    model = to_mrs(make().double().eval(), example=args)
    leaves = list(model.parameters())
    assert not compiles(model, *args)
    torch.compiler.reset()
    compiled = out_and_gradients(torch.compile(model, backend="aot_eager"), args, leaves)
    assert max(map(relative_error, compiled, out_and_gradients(model, args, leaves))) < 1e-12


@pytest.mark.parametrize("name", each(CONVERTED))
def test_convolutions_that_make_edges_are_listed(name):
    make, args = CASES[name]
    parts = to_mrs(make().double(), example=args).modules()
    assert any(isinstance(each, GenericLayer) and each.makes_edges for each in parts) == (name in MAKES_EDGES)


@pytest.mark.parametrize("name", NOT_WHOLE)
def test_convolution_with_types_of_its_own_does_not_compile_whole(name):
    make, args = CASES[name]
    assert not compiles(to_mrs(make().double().eval(), example=args), *args)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONVERTED)
def test_plain_convolution_compiles_whole(name):
    make, args = CASES[name]
    assert compiles(make().double().eval(), *args) == (name not in PLAIN_NOT_WHOLE)


def test_compiled_convolution_raises_for_edges_of_its_own():
    class Shifted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = to_mrs(CASES["LEConv"][0]().double(), example=CASES["LEConv"][1]).model

        def forward(self, x, edge_index, types):
            return self.conv(x, edge_index, edge_type=types)

    x, edges, _ = CASES["LEConv"][1]
    model = Shifted()
    own = model.conv.conv.forward
    model.conv.conv.forward = lambda x, edge_index: own(x, (edge_index + 1) % 9)
    torch.compiler.reset()
    with pytest.raises(ValueError, match="must pass messages along the edges that it gets"):
        torch.compile(model, backend="eager", fullgraph=True)(x, edges, edges[0] % 3)


@pytest.mark.filterwarnings("ignore")
def test_torch_jit_is_refused_with_the_way_out():
    model = to_mrs(GATv2Conv(F, OUT).eval())
    with pytest.raises(ValueError, match=r"a converted GATv2Conv must be exported by `torch.export`"):
        torch.jit.trace(model, (torch.randn(N, F), EDGES))

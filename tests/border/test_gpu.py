"""On a GPU: no layer waits for the device, and no index out of range reaches foreign memory.

``python -m pytest tests/border/test_gpu.py`` takes a few minutes, as every bad index ends the process that tries it.
"""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from graphprism.nn import MRSGCNConv
from graphprism.ops import RelationalAdj
from tests.border.bad_on_gpu import CASES
from tests.border.test_no_sync import LAYERS
from tests.pairwise import all_pairs

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]


def make_input(nodes, edges, width, soft, weighted):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(nodes, width, generator=generator)
    e = torch.randint(nodes, (2, edges), generator=generator)
    e[1, : edges // 4] = 0  # a hub, whose row is cut into segments
    t = torch.rand(edges, 3, generator=generator) if soft else torch.randint(3, (edges,), generator=generator)
    w = torch.rand(edges, generator=generator) if weighted else None
    return [each if each is None else each.cuda() for each in (x, e, t, w)]


@all_pairs(
    name=[*LAYERS],
    sizes=[(30, 90, 16), (300, 900, 128), (5_000, 120_000, 64)],
    backward={"forward": False, "backward": True},
    soft={"hard": False, "soft": True},
    weighted={"plain": False, "weighted": True},
)
def test_layer_does_not_wait_for_the_device(name, backward, soft, weighted, sizes):
    nodes, edges, width = sizes
    layer = LAYERS[name](width).cuda()
    inputs = make_input(nodes, edges, width, soft, weighted)

    def step():
        out = layer(*inputs)
        if backward:
            out.sum().backward()

    step()  # kernels are compiled and loaded
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings():  # torch warns that the mode does not find every operation that waits
            warnings.simplefilter("ignore")
            torch.cuda.set_sync_debug_mode("error")
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()


def test_prepared_layer_equals_layer_of_tensors():
    x, e, t, _ = make_input(5_000, 120_000, 64, soft=False, weighted=False)
    layer = MRSGCNConv(64, 64).cuda()
    adj = RelationalAdj(e, t, num_relations=3, num_nodes=5_000)
    torch.testing.assert_close(layer(x, e, t), layer(x, adj), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("shift", "message"), [(1, "got 5"), (-1, "got -1")])
def test_relational_adj_names_the_number(shift, message):
    e = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]).cuda()
    with pytest.raises(ValueError, match=message):
        RelationalAdj(e + shift, num_nodes=5)
    torch.cuda.synchronize()  # the context lives on


@pytest.fixture(scope="module")
def verdicts():
    """What every bad index ended in: see `tests.border.bad_on_gpu`."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.border.bad_on_gpu"], cwd=ROOT, capture_output=True, text=True, timeout=1500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = (json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"'))
    return {each.pop("case"): each for each in found}


@pytest.mark.parametrize("case", CASES)
def test_bad_index_ends_in_an_assertion(case, verdicts):
    found = verdicts[case]
    assert "broken" not in found, found
    assert found["error"] is not None, "a bad index must end in an error, got none"
    # an access out of bounds would have read or written before it was noticed
    assert "illegal memory access" not in found["error"]
    assert "device-side assert" in found["error"], found
    assert not found["ran_on"], "nothing that the stream was given later may run"

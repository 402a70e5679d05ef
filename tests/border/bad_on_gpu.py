"""Runs bad indices on a GPU, each in a process of its own, as a failed assertion ends a CUDA context.

Prints one line of JSON per case; with the name of a case, the verdict of that one.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import torch

from graphprism.ops.csr import csr_sum
from tests.border.namespace import namespace

SIZES = {"small": (5, 4), "large": (4096, 1 << 19)}  # nodes and edges; the kernels of Triton start at 2^22 numbers
BAD = {
    "source": lambda e, t, n: (torch.cat([e[:, :1] + torch.tensor([[n], [0]], device=e.device), e[:, 1:]], 1), t),
    "target": lambda e, t, n: (torch.cat([e[:, :1] + torch.tensor([[0], [n]], device=e.device), e[:, 1:]], 1), t),
    "negative": lambda e, t, n: (e - 1, t),
    "far": lambda e, t, n: (e + 2**40, t),
    "type": lambda e, t, n: (e, t + 1),
    "negative type": lambda e, t, n: (e, t - 1),
}
LAYERS = ("gcn", "sage", "gat", "gated", "gin", "mrs", "dir_gcn", "dir_sage", "gnn")


def good(size):
    """Features, edges and types that are right, on the GPU; every node and every type occurs."""
    nodes, edges = SIZES[size]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(nodes, 8, generator=generator)
    e = torch.stack([torch.arange(edges) % nodes, (torch.arange(edges) + 1) % nodes])
    return x.cuda(), e.cuda(), (torch.arange(edges) % 3).cuda()


def layer_case(layer, bad, size="small"):
    """The forward pass of a layer."""
    x, e, t = good(size)
    module = namespace()[layer].cuda()
    module(x, e, t)
    wrong = BAD[bad](e, t, x.size(0))
    return lambda: module(x, *wrong)


def linear_case(bad):
    """The kernels of Triton, by a layer that is wide enough for them."""
    from graphprism.nn import MRSGCNConv

    x, e, t = good("large")
    x = x.repeat(1, 8)
    module = MRSGCNConv(64, 64).cuda()
    module(x, e, t).sum().backward()
    wrong = BAD[bad](e, t, x.size(0))
    return lambda: module(x, *wrong).sum().backward()


def csr_sum_case(impl):
    """The public sum over rows."""
    x, _, _ = good("small")
    ptr, col = torch.tensor([0, 2, 2, 4]).cuda(), torch.tensor([0, 1, 2, 3]).cuda()
    csr_sum(ptr, col, None, x, impl=impl)
    return lambda: csr_sum(ptr, col + 2**20, None, x, impl=impl)


def capture_case():
    """A captured forward pass that is replayed with other edges."""
    x, e, t = good("small")
    module = namespace()["gcn"].cuda()
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        module(x, e, t)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph, stream=stream):
        module(x, e, t)
    graph.replay()
    torch.cuda.synchronize()

    def replay():
        e.add_(2**30)
        graph.replay()

    return replay


def compiled_case():
    """A compiled layer, whose operations check their own indices."""
    x, e, t = good("small")
    module = torch.compile(namespace()["gcn"].cuda())
    with torch.no_grad():
        module(x, e, t)
    return lambda: module(x, e + 2**30, t)


CASES = {
    **{f"{layer}, {bad}": (layer_case, layer, bad) for layer in LAYERS for bad in BAD},
    **{f"{layer}, large, far": (layer_case, layer, "far", "large") for layer in LAYERS},
    **{f"kernels, {bad}": (linear_case, bad) for bad in BAD},
    "csr_sum, embedding_bag": (csr_sum_case, "embedding_bag"),
    "csr_sum, triton": (csr_sum_case, "triton"),
    "captured": (capture_case,),
    "compiled": (compiled_case,),
}


KEPT = []  # pinned memory that a copy used: freed after the context died, it would end the process with it


def verdict(make, *arguments):
    """What a bad call ends in, and whether anything that the stream was given after it still ran."""
    call = make(*arguments)
    flag, one = torch.zeros(1, pin_memory=True), torch.ones(1, device="cuda")
    KEPT.append(flag)
    torch.cuda.synchronize()
    try:
        call()
        flag.copy_(one, non_blocking=True)
        torch.cuda.synchronize()
    except (RuntimeError, ValueError, IndexError) as error:
        return {"error": str(error).splitlines()[0], "ran_on": flag.item() != 0}
    return {"error": None, "ran_on": flag.item() != 0}


def in_child(name):
    """The verdict of a process of its own, or how it died."""
    words = [sys.executable, "-m", "tests.border.bad_on_gpu", name]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"broken": (done.stderr or "the process died")[-500:]}
    return {**json.loads(lines[-1]), "said": done.stderr[-500:]}  # with the text of the assertion


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps(verdict(*CASES[sys.argv[1]])), flush=True)
        os._exit(0)  # a context that is dead cannot be taken down in order
    with ThreadPoolExecutor(12) as pool:
        for case, found in zip(CASES, pool.map(in_child, CASES), strict=True):
            print(json.dumps({"case": case, **found}), flush=True)

"""Implementations of one layer, others' and ours: each a function that runs forward and backward once."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from published import PublishedConv, split
from torch import Tensor
from torch_geometric.nn import GCNConv, RGCNConv
from torch_geometric.utils import degree

from graphprism.nn import MRSGCNConv
from graphprism.ops import RelationalAdj, relational_linear

Run = Callable[[], Tensor]


def make_contenders(adj: RelationalAdj, channels: int) -> dict[str, Run]:
    """Layers by name. All but ``product`` and the two of PyG compute the same; those are checked against their own."""
    device = adj.device
    generator = torch.Generator(device=device).manual_seed(0)

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, device=device, generator=generator)

    num_nodes = adj.size[0]
    x, grad = draw(num_nodes, channels).requires_grad_(), draw(num_nodes, channels)
    conv = MRSGCNConv(channels, channels, num_relations=3, bias=False, start="independent").to(device)
    published = PublishedConv(channels, channels, bias=False).to(device)
    published.copy(conv)
    weight, all_at_once = conv.lin.weight, published.lin.weight
    # before the first forward, as the authors' code does for a graph that stays the same
    parts = split(adj.edge_index, adj.edge_weight, degree(adj.edge_index[0], num_nodes, dtype=torch.long))
    check(x, adj, weight, lambda: published(x, parts), all_at_once)

    def with_backward(layer: Callable[[], Tensor], leaves: list[Tensor], grad: Tensor) -> Run:
        def run() -> Tensor:
            out = layer()
            out.backward(grad)
            for leaf in leaves:  # now, so that gradients of the last run are not there when memory is measured
                leaf.grad = None
            return out

        return run

    # equal parameters: 3 d^2 = D^2
    wide = round(math.sqrt(3) * channels)
    x_wide, grad_wide = draw(num_nodes, wide).requires_grad_(), draw(num_nodes, wide)
    gcn = GCNConv(wide, wide, normalize=False, bias=False).to(device)
    rgcn = RGCNConv(channels, channels, 3, aggr="add", root_weight=False, bias=False).to(device)
    grad_product = draw(num_nodes, 3 * channels)
    ours = with_backward(lambda: relational_linear(x, adj, weight), [x, weight], grad)
    theirs = with_backward(lambda: published(x, parts), [x, all_at_once], grad)
    captured = {}
    if device.type == "cuda":
        captured = {"graphprism, captured": capture(ours)}
        try:
            captured["published, captured"] = capture(theirs)
        except RuntimeError as error:  # ours is to be timed all the same
            print(f"the published layer cannot be captured: {error}", flush=True)
    return {
        "graphprism": ours,
        "published": theirs,
        **captured,
        "product alone": with_backward(lambda: published.lin(x), [x, all_at_once], grad_product),
        "PyG GCNConv": with_backward(
            lambda: gcn(x_wide, adj.edge_index, adj.edge_weight), [x_wide, *gcn.parameters()], grad_wide
        ),
        "PyG RGCNConv": with_backward(lambda: rgcn(x, adj.edge_index, adj.edge_type), [x, *rgcn.parameters()], grad),
    }


def capture(run: Run) -> Run:
    """The same run as one CUDA graph: nothing in it waits for the device, so that a training step can be captured."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()

    def replay() -> Tensor:
        graph.replay()
        return out

    return replay


def check(x: Tensor, adj: RelationalAdj, weight: Tensor, published: Run, all_at_once: Tensor) -> None:
    """Raises unless outputs and gradients equal the reference in float64."""
    leaves = [leaf.detach().double().requires_grad_() for leaf in (x, weight)]
    exact = relational_linear(leaves[0], adj, leaves[1], impl="reference")
    exact_grads = torch.autograd.grad(exact.square().sum(), leaves)
    runs = {"graphprism": (lambda: relational_linear(x, adj, weight), weight), "published": (published, all_at_once)}
    for name, (run, matrices) in runs.items():
        out = run()
        grads = torch.autograd.grad(out.square().sum(), (x, matrices))
        if name == "published":  # (R x out, in), as one linear map has it
            grads = (grads[0], grads[1].view(3, -1, grads[1].size(1)).transpose(1, 2))
        for ours, theirs in zip((out, *grads), (exact, *exact_grads), strict=True):
            error = float((ours.detach().double() - theirs.detach()).norm() / theirs.detach().norm())
            if not error < 1e-4:
                raise SystemExit(f"{name} must agree with the reference to 1e-4, got a relative error of {error}")

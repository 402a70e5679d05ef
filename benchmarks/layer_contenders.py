"""One layer in the ways it is written elsewhere, and in ours: each a function that runs forward and backward once."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, RGCNConv
from torch_geometric.utils import scatter

from graphprism.ops import RelationalAdj, relational_linear

Run = Callable[[], Tensor]


def published(x: Tensor, adj: RelationalAdj, weight: Tensor) -> Tensor:
    """The formulation of the paper's code: a mask for each relation, chunk, gather, concatenate, scatter."""
    assert adj.edge_type is not None
    assert adj.edge_weight is not None
    parts = (x @ weight.transpose(0, 1).reshape(weight.size(1), -1)).chunk(3, dim=1)
    masks = [adj.edge_type == r for r in range(3)]
    edges = [adj.edge_index[:, mask] for mask in masks]
    messages = torch.cat([part[edge[0]] for part, edge in zip(parts, edges, strict=True)])
    messages = messages * torch.cat([adj.edge_weight[mask] for mask in masks]).unsqueeze(-1)
    return scatter(messages, torch.cat(edges, dim=1)[1], dim=0, dim_size=adj.size[1], reduce="sum")


def make_contenders(adj: RelationalAdj, channels: int) -> dict[str, Run]:
    """Layers by name. All but ``product`` and the two of PyG compute the same; those are checked against their own."""
    device = adj.device
    generator = torch.Generator(device=device).manual_seed(0)

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, device=device, generator=generator)

    num_nodes = adj.size[0]
    x, grad = draw(num_nodes, channels).requires_grad_(), draw(num_nodes, channels)
    weight = (draw(3, channels, channels) / math.sqrt(channels)).requires_grad_()
    check(x, adj, weight)

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
    leaves = [x, weight]
    ours = with_backward(lambda: relational_linear(x, adj, weight), leaves, grad)
    captured = {"graphprism, captured": capture(ours)} if device.type == "cuda" else {}
    return {
        "graphprism": ours,
        **captured,
        "published": with_backward(lambda: published(x, adj, weight), leaves, grad),
        "product alone": with_backward(lambda: x @ weight.transpose(0, 1).reshape(channels, -1), leaves, grad_product),
        "PyG GCNConv": with_backward(
            lambda: gcn(x_wide, adj.edge_index, adj.edge_weight), [x_wide, *gcn.parameters()], grad_wide
        ),
        "PyG RGCNConv": with_backward(lambda: rgcn(x, adj.edge_index, adj.edge_type), [x, *rgcn.parameters()], grad),
    }


def capture(run: Run) -> Run:
    """The same run as one CUDA graph: nothing in it waits for the device, so that a training step can be captured."""
    side = torch.cuda.Stream()
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


def check(x: Tensor, adj: RelationalAdj, weight: Tensor) -> None:
    """Refuses to time a wrong answer: outputs and gradients against the reference in float64."""
    leaves = [leaf.detach().double().requires_grad_() for leaf in (x, weight)]
    exact = relational_linear(leaves[0], adj, leaves[1], impl="reference")
    exact_grads = torch.autograd.grad(exact.square().sum(), leaves)
    for layer in (relational_linear, published):
        out = layer(x, adj, weight)
        grads = torch.autograd.grad(out.square().sum(), (x, weight))
        for ours, theirs in zip((out, *grads), (exact, *exact_grads), strict=True):
            error = float((ours.detach().double() - theirs.detach()).norm() / theirs.detach().norm())
            if not error < 1e-4:
                raise SystemExit(
                    f"{layer.__name__} must agree with the reference to 1e-4, got a relative error of {error}"
                )

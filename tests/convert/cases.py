"""Every convolution of PyG with arguments for one call, and the table of what becomes of it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch_geometric.nn import MLP, conv

from graphprism.convert import to_mrs
from graphprism.convert.generic_layer import GenericLayer
from graphprism.convert.own_layers import OwnLayer
from graphprism.convert.summed_layer import SummedLayer

TABLE = Path(__file__).parents[2] / "CONVERSION.md"
N, F, OUT, D = 9, 6, 4, 3
_generator = torch.Generator().manual_seed(0)


def _normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=_generator, dtype=torch.float64)


# undirected and directed edges, a multi-edge, a loop; node 8 has none
EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 6, 7, 0, 2, 5], [1, 0, 2, 1, 3, 2, 3, 5, 4, 7, 5, 6, 1, 0, 2]])
X, POS = _normal(N, F), _normal(N, 3)
NORMAL = torch.nn.functional.normalize(_normal(N, 3), dim=-1)
ATTR, WEIGHT = _normal(EDGES.size(1), D), _normal(EDGES.size(1)).abs()
KINDS = torch.arange(EDGES.size(1)) % 2
NODES = {"a": X, "b": _normal(5, F)}
BETWEEN = {("a", "to", "a"): EDGES, ("a", "to", "b"): torch.tensor([[0, 1, 2, 3], [0, 0, 1, 2]])}
METADATA = (["a", "b"], list(BETWEEN))


def _mlp(*sizes: int) -> MLP:
    return MLP(list(sizes), norm=None)


CASES = {
    "SimpleConv": (lambda: conv.SimpleConv(), (X, EDGES)),
    "GCNConv": (lambda: conv.GCNConv(F, OUT), (X, EDGES, WEIGHT)),
    "ChebConv": (lambda: conv.ChebConv(F, OUT, 3), (X, EDGES)),
    "SAGEConv": (lambda: conv.SAGEConv(F, OUT), (X, EDGES)),
    "CuGraphSAGEConv": None,
    "GraphConv": (lambda: conv.GraphConv(F, OUT), (X, EDGES, WEIGHT)),
    "GravNetConv": (lambda: conv.GravNetConv(F, OUT, 2, 2, 2), (X,)),
    "GatedGraphConv": (lambda: conv.GatedGraphConv(F, 2), (X, EDGES, WEIGHT)),
    "ResGatedGraphConv": (lambda: conv.ResGatedGraphConv(F, OUT, edge_dim=D), (X, EDGES, ATTR)),
    "GATConv": (lambda: conv.GATConv(F, OUT, 2, edge_dim=D), (X, EDGES, ATTR)),
    "CuGraphGATConv": None,
    "FusedGATConv": None,
    "GATv2Conv": (lambda: conv.GATv2Conv(F, OUT, 2, edge_dim=D), (X, EDGES, ATTR)),
    "TransformerConv": (lambda: conv.TransformerConv(F, OUT, 2, edge_dim=D), (X, EDGES, ATTR)),
    "AGNNConv": (lambda: conv.AGNNConv(), (X, EDGES)),
    "TAGConv": (lambda: conv.TAGConv(F, OUT), (X, EDGES)),
    "GINConv": (lambda: conv.GINConv(_mlp(F, 5, OUT), train_eps=True), (X, EDGES)),
    "GINEConv": (lambda: conv.GINEConv(_mlp(F, OUT), edge_dim=D), (X, EDGES, ATTR)),
    "ARMAConv": (lambda: conv.ARMAConv(F, OUT, num_stacks=2, num_layers=2), (X, EDGES, WEIGHT)),
    "SGConv": (lambda: conv.SGConv(F, OUT), (X, EDGES)),
    "SSGConv": (lambda: conv.SSGConv(F, OUT, 0.1), (X, EDGES)),
    "APPNP": (lambda: conv.APPNP(2, 0.1), (X, EDGES)),
    "MFConv": (lambda: conv.MFConv(F, OUT), (X, EDGES)),
    "RGCNConv": (lambda: conv.RGCNConv(F, OUT, 2), (X, EDGES, KINDS)),
    "FastRGCNConv": (lambda: conv.FastRGCNConv(F, OUT, 2), (X, EDGES, KINDS)),
    "CuGraphRGCNConv": None,
    "RGATConv": (lambda: conv.RGATConv(F, OUT, 2), (X, EDGES, KINDS)),
    "SignedConv": (lambda: conv.SignedConv(F, OUT, first_aggr=True), (X, EDGES, EDGES.flip(0))),
    "DNAConv": (lambda: conv.DNAConv(F), (_normal(N, 3, F), EDGES)),
    "PointNetConv": (lambda: conv.PointNetConv(_mlp(F + 3, OUT), _mlp(OUT, OUT)), (X, POS, EDGES)),
    "GMMConv": (lambda: conv.GMMConv(F, OUT, dim=D, kernel_size=2), (X, EDGES, ATTR)),
    "SplineConv": None,
    "NNConv": (lambda: conv.NNConv(F, OUT, _mlp(D, F * OUT)), (X, EDGES, ATTR)),
    "CGConv": (lambda: conv.CGConv(F, dim=D), (X, EDGES, ATTR)),
    "EdgeConv": (lambda: conv.EdgeConv(_mlp(2 * F, OUT)), (X, EDGES)),
    "DynamicEdgeConv": (lambda: conv.DynamicEdgeConv(_mlp(2 * F, OUT), k=2), (X,)),
    "XConv": (lambda: conv.XConv(F, OUT, dim=3, kernel_size=2), (X, POS)),
    "PPFConv": (lambda: conv.PPFConv(_mlp(F + 4, OUT)), (X, POS, NORMAL, EDGES)),
    "FeaStConv": (lambda: conv.FeaStConv(F, OUT, heads=2), (X, EDGES)),
    "PointTransformerConv": (lambda: conv.PointTransformerConv(F, OUT), (X, POS, EDGES)),
    "HypergraphConv": (lambda: conv.HypergraphConv(F, OUT), (X, EDGES)),
    "LEConv": (lambda: conv.LEConv(F, OUT), (X, EDGES, WEIGHT)),
    "PNAConv": (
        lambda: conv.PNAConv(
            F, OUT, ["mean", "max", "std"], ["identity", "amplification"], torch.tensor([1, 2, 4, 2]), edge_dim=D
        ),
        (X, EDGES, ATTR),
    ),
    "ClusterGCNConv": (lambda: conv.ClusterGCNConv(F, OUT), (X, EDGES)),
    "GENConv": (lambda: conv.GENConv(F, OUT, edge_dim=D), (X, EDGES, ATTR)),
    "GCN2Conv": (lambda: conv.GCN2Conv(F, 0.1, 0.5, 1), (X, X, EDGES)),
    "PANConv": (lambda: conv.PANConv(F, OUT, 2), (X, EDGES)),
    "WLConv": (lambda: conv.WLConv(), (torch.arange(N), EDGES)),
    "WLConvContinuous": (lambda: conv.WLConvContinuous(), (X, EDGES)),
    "FiLMConv": (lambda: conv.FiLMConv(F, OUT), (X, EDGES)),
    "SuperGATConv": (lambda: conv.SuperGATConv(F, OUT, 2), (X, EDGES)),
    "FAConv": (lambda: conv.FAConv(F), (X, X, EDGES)),
    "EGConv": (lambda: conv.EGConv(F, OUT, ["symnorm", "max"], num_heads=2), (X, EDGES)),
    "PDNConv": (lambda: conv.PDNConv(F, OUT, D, 5), (X, EDGES, ATTR.sigmoid())),
    "GeneralConv": (lambda: conv.GeneralConv(F, OUT, D, attention=True), (X, EDGES, ATTR)),
    "HGTConv": (lambda: conv.HGTConv(F, OUT, METADATA, heads=2), (NODES, BETWEEN)),
    "HEATConv": (lambda: conv.HEATConv(F, OUT, 2, 2, 3, D, 3), (X, EDGES, torch.arange(N) % 2, KINDS, ATTR)),
    "HeteroConv": (
        lambda: conv.HeteroConv({kind: conv.SAGEConv((F, F), OUT) for kind in BETWEEN}),
        (NODES, BETWEEN),
    ),
    "HANConv": (lambda: conv.HANConv(F, OUT, METADATA, heads=2), (NODES, BETWEEN)),
    "LGConv": (lambda: conv.LGConv(), (X, EDGES)),
    "PointGNNConv": (lambda: conv.PointGNNConv(_mlp(F, 3), _mlp(F + 3, OUT), _mlp(OUT, F)), (X, POS, EDGES)),
    "GPSConv": (lambda: conv.GPSConv(F, conv.GCNConv(F, F)), (X, EDGES)),
    "AntiSymmetricConv": (lambda: conv.AntiSymmetricConv(F), (X, EDGES)),
    "DirGNNConv": (lambda: conv.DirGNNConv(conv.GATv2Conv(F, OUT, add_self_loops=False)), (X, EDGES)),
    "MixHopConv": (lambda: conv.MixHopConv(F, OUT), (X, EDGES)),
    "MeshCNNConv": (lambda: conv.MeshCNNConv(F, OUT), (_normal(2, F), torch.tensor([[0, 1], [1, 0]]).repeat(1, 4))),
}
# What cannot be tried here, or is no message passing.
REASONS = {
    "CuGraphSAGEConv": "needs cuGraph",
    "CuGraphGATConv": "needs cuGraph",
    "CuGraphRGCNConv": "needs cuGraph",
    "FusedGATConv": "needs dgNN",
    "SplineConv": "needs pyg-lib or torch-spline-conv",
    "PANConv": "passes messages along paths, not along the edges that it gets",
    "GravNetConv": "builds its own edges in every call",
    "DynamicEdgeConv": "builds its own edges in every call",
    "XConv": "is no message passing: it builds neighbourhoods of points itself",
}

# An argument `edge_type` of the layer itself leaves no place to give relations, and a split cannot be traced.
# They pass messages along tensors of edges that they make, mostly with self-loops: whole without gradients only.
MAKES_EDGES = (
    "GATv2Conv",
    "AGNNConv",
    "DNAConv",
    "PointNetConv",
    "PPFConv",
    "FeaStConv",
    "PointTransformerConv",
    "HypergraphConv",
    "SuperGATConv",
    "FAConv",
    "EGConv",
    "PDNConv",
    "HGTConv",
)
NOT_WHOLE = ("RGCNConv", "FastRGCNConv", "RGATConv", "FiLMConv", "HEATConv")
# PyG's own layers that do not compile whole.
PLAIN_NOT_WHOLE = ("RGCNConv", "HEATConv")


def outcome(name: str) -> tuple[str, str]:
    """What becomes of a convolution: ``own``, ``generic``, ``summed``, ``parts`` or ``refused``, and why."""
    if name in REASONS:
        return "refused", REASONS[name]
    make, args = CASES[name]
    torch.manual_seed(0)
    layer = make().double().eval()
    try:
        model = to_mrs(layer, example=args).model
    except ValueError as error:
        return "refused", str(error).partition(f"{name}: ")[2] or str(error)
    if isinstance(model, OwnLayer):
        return "own", f"`{type(model.conv).__name__}`"
    if isinstance(model, SummedLayer):
        return "summed", ", ".join(f"`{each}`" for each in _short(model.names))
    if isinstance(model, GenericLayer):
        return "generic", ", ".join(f"`{each}`" for each in _short(model.names))
    inner = sorted({type(each.conv).__name__ for each in model.modules() if isinstance(each, OwnLayer | GenericLayer)})
    return "parts", ", ".join(f"`{each}`" for each in inner)


def _short(names: list[str]) -> list[str]:
    short = list(dict.fromkeys(name.partition(".")[0] for name in names))
    return short if len(short) <= 6 else [*short[:6], "..."]


# What other options of a convolution make of it.
NOTES = {
    "GINEConv": "; without `edge_dim` our layer, with the first matrix of its network",
    "GENConv": "; with equal sizes and no `edge_dim` the first matrix of its network, on sums",
}


def table() -> str:
    """CONVERSION.md."""
    found = {name: outcome(name) for name in conv.__all__ if name != "MessagePassing"}
    words = {
        "own": "our layer {}",
        "generic": "generic: a copy per relation of {}",
        "summed": "sums: a copy per relation of {}",
        "parts": "its parts: {}",
        "refused": "refused: {}",
    }
    work = sum(kind != "refused" for kind, _ in found.values())
    rows = [f"| `{name}` | {words[kind].format(text)}{NOTES.get(name, '')} |" for name, (kind, text) in found.items()]
    lines = [
        "# What `to_mrs` makes of each convolution of PyG",
        "",
        "Generated by `python tests/convert/cases.py`; a test compares. *Our layer*: replaced by our layer, which",
        "takes over weights and options. *Generic*: each relation gets a copy of the parameters of messages, which",
        "are aggregated once; an attention has one softmax over the edges of a node, whatever their relations.",
        "*Sums*: the messages have no parameters; the sum of each relation gets a copy of those that act on sums.",
        "*Its parts*: a container, whose convolutions are converted. *Refused*: there are no parameters, so nothing to",
        f"make relational, or messages do not follow the given edges. {work} of {len(found)} work.",
        "",
        f"With `edge_type` given, {work - len(NOT_WHOLE)} of them, each alone, compile with",
        f"`torch.compile(fullgraph=True)`, from torch 2.13 on, {len(MAKES_EDGES)} of these without gradients only,",
        "since they make edges, mostly self-loops, of which each copy of messages has its own number:",
        f"{', '.join(f'`{name}`' for name in MAKES_EDGES)}.",
        "In training these run eagerly within compiled code, and need compilation without `fullgraph`.",
        f"The others, {', '.join(f'`{name}`' for name in NOT_WHOLE)}, have an argument `edge_type` of their own, so",
        "that edges are split in the call, which cannot be traced: they compile without `fullgraph`.",
        f"{' and '.join(f'`{name}`' for name in PLAIN_NOT_WHOLE)} do not compile whole in PyG either; all others do.",
        "",
        "| convolution | becomes |",
        "|---|---|",
        *rows,
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")

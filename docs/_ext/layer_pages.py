"""A page for each layer: formula, picture of its messages, plain partner, cost and what it takes.

The formula and the words are those of the docstring. What a layer takes and costs is tried on a small graph.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from api_pages import listed
from torch_geometric.nn import MLP

import graphprism.nn as gnn
from graphprism.nn import CONVOLUTIONS
from graphprism.ops import RelationalAdj

ROOT = Path(__file__).parents[2]
CHANNELS = 64
CAPTION = (
    "Node *i* and three neighbours *j*; a relation has the colour of its arrow. An edge is *up* where it goes to a "
    "node of larger degree."
)
CAPTIONS = {
    "LMGCConv": "Node *i* and three neighbours *j*. No split is needed: every edge mixes all matrices by its scores.",
    "DegreeGATConv": "Node *i* and three neighbours *j*. There is one matrix; the attention reads the degrees.",
    "DirConv": CAPTION + " Bent arrows are the other direction, with matrices of its own.",
}


@dataclass(frozen=True)
class Case:
    """How to make a layer for trials: of input width, output width and more arguments."""

    make: Callable[..., torch.nn.Module]
    relations: str | None = "num_relations"
    edge_dim: bool = False
    deviation: bool = True
    more: dict[str, Any] = field(default_factory=dict)


def _own(name: str, **more: Any) -> Case:
    layer = getattr(gnn, name)
    takes = inspect.signature(layer).parameters
    relations = "num_relations" if "num_relations" in takes else None
    return Case(lambda i, o, **k: layer(i, o, **more, **k), relations, "edge_dim" in takes, "deviation" in takes)


def _linear(i: int, o: int) -> torch.nn.Module:
    return torch.nn.LazyLinear(o) if i == -1 else torch.nn.Linear(i, o)


class _Sender(torch.nn.Module):
    """The message of `MRSConv` in trials: a linear map of the sender."""

    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.map = _linear(i, o)

    def forward(self, x_i: torch.Tensor, x_j: torch.Tensor, edge_attr: torch.Tensor | None = None) -> torch.Tensor:
        return self.map(x_j)


CASES: dict[str, Case] = {
    "MRSGCNConv": _own("MRSGCNConv"),
    "MRSSAGEConv": _own("MRSSAGEConv"),
    "MRSGATConv": _own("MRSGATConv"),
    "MRSGINConv": Case(lambda i, o, **k: gnn.MRSGINConv(lambda: MLP([i, o, o], norm=None), **k)),
    "MRSGatedGCNConv": _own("MRSGatedGCNConv"),
    "MRSGCNEConv": _own("MRSGCNEConv"),
    "MRSGINEConv": _own("MRSGINEConv"),
    "MRSConv": Case(lambda i, o, **k: gnn.MRSConv(lambda: _Sender(i, o), **k)),
    "DirConv": Case(lambda i, o, **k: gnn.DirConv(lambda: gnn.MRSSAGEConv(i, o, **k))),
    "LMGCConv": _own("LMGCConv"),
    "DegreeGATConv": _own("DegreeGATConv"),
}


@cache
def _graph() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(1000, (2, 5000), generator=generator)
    return torch.randn(1000, CHANNELS, generator=generator), edges, torch.arange(5000) % 3


def _layer(name: str, i: int = CHANNELS, **options: Any) -> torch.nn.Module:
    case = CASES[name]
    wanted = {key: value for key, value in options.items() if key != "num_relations" or case.relations}
    return case.make(i, CHANNELS, **wanted)


def _works(trial: Callable[[], Any]) -> bool:
    try:
        trial()
    except (TypeError, ValueError, RuntimeError, AttributeError, NotImplementedError):
        return False
    return True


def _call(layer: torch.nn.Module, x: Any, edges: Any, types: Any = None, **more: Any) -> torch.Tensor:
    takes = inspect.signature(layer.forward).parameters
    if types is not None and "edge_type" in takes:
        more["edge_type"] = types
    return layer(x, edges, **more)


def supports(name: str) -> dict[str, str]:
    """What a layer takes, found by trying."""
    x, edges, types = _graph()
    layer = _layer(name)
    weight = torch.rand(edges.size(1))
    relational = CASES[name].relations is not None
    types = types if relational else None
    few = torch.stack([edges[0], edges[1] % 700])
    trials = {
        "edge weights `edge_weight`": lambda: _call(layer, x, edges, types, edge_weight=weight),
        "edge features `edge_attr`": lambda: _call(
            _layer(name, **({"edge_dim": 5} if CASES[name].edge_dim else {})),
            x,
            edges,
            types,
            edge_attr=torch.rand(5000, 5),
        ),
        "scores of relations, `edge_type` (E, R)": lambda: _call(layer, x, edges, torch.rand(5000, 3)),
        "a bipartite graph, `(x_source, x_target)`": lambda: _call(
            _layer(name, (CHANNELS, CHANNELS) if name == "MRSGATConv" else CHANNELS),
            (x, x[:700]),
            few,
            types,
            edge_weight=weight,
        ),
        "input width from the first input, `-1`": lambda: _call(_layer(name, -1), x, edges, types),
        "a leading dimension of `x`": lambda: _same_shape(
            _call(layer, torch.stack([x, x]), edges, types), (2, 1000, CHANNELS)
        ),
        "a prepared `RelationalAdj`": lambda: layer(
            x, RelationalAdj(edges, types, num_relations=3 if relational else 1, num_nodes=1000)
        ),
    }
    if not relational:
        trials.pop("scores of relations, `edge_type` (E, R)")
    return {what: "✓" if _works(trial) else "" for what, trial in trials.items()}


def _same_shape(out: torch.Tensor, shape: tuple[int, ...]) -> None:
    if tuple(out.shape) != shape:
        raise ValueError(f"the output must have shape {shape}, got {tuple(out.shape)}")


def _cost(name: str, **options: Any) -> tuple[int, float]:
    """Parameters, and megabytes that forward keeps for backward."""
    layer, (x, edges, types) = _layer(name, **options), _graph()
    types = types % options["num_relations"] if CASES[name].relations else None
    seen: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    own = {each.untyped_storage().data_ptr() for each in layer.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = _call(layer, x.clone().requires_grad_(), edges, types)
    out.sum().backward()
    kept = sum(size for place, size in seen.items() if place not in own)
    return sum(each.numel() for each in layer.parameters()), kept / 1e6


def cost(name: str) -> str:
    """A table of parameters and memory, plain beside split."""
    rows = [("one relation, the plain layer", {"num_relations": 1}), ("three relations", {"num_relations": 3})]
    if CASES[name].deviation or name in ("MRSGINConv", "MRSConv", "DirConv"):
        rows.append(('three relations, `deviation="diagonal"`', {"num_relations": 3, "deviation": "diagonal"}))
    if CASES[name].relations is None:
        rows = [("the layer", {})]
    lines = []
    for label, options in rows:
        count, kept = _cost(name, **options)
        lines.append(f"| {label} | {count:,} | {kept:.1f} MB |")
    return (
        f"| {CHANNELS} to {CHANNELS} channels | parameters | kept for backward |\n|---|---:|---:|\n"
        + "\n".join(lines)
        + "\n\n"
        "Kept for backward: by one call on 1,000 nodes and 5,000 edges, without its input graph being prepared before."
    )


def description(name: str) -> tuple[str, str, str]:
    """First line, formula with its words, and example of a docstring."""
    text = inspect.getdoc(getattr(gnn, name)) or ""
    head, _, rest = text.partition("\n\n")
    body = re.split(r"^(?:Args|Shapes|Example|Attributes)\b.*?:", rest, maxsplit=1, flags=re.MULTILINE)[0]
    example = text.partition("Example:\n")[2]
    return head.replace("\n", " "), body.strip(), inspect.cleandoc(example).strip()


def shapes(name: str) -> str:
    """The sentence about shapes."""
    text = inspect.getdoc(getattr(gnn, name)) or ""
    found = re.search(r"^Shapes: (.*?)(?=\n\n|\nExample|\Z)", text, re.MULTILINE | re.DOTALL)
    return "" if found is None else " ".join(found[1].split())


def partner(name: str) -> str:
    """The plain layer that it is with one relation, as the docstring says it."""
    text = " ".join((inspect.getdoc(getattr(gnn, name)) or "").split())
    found = re.search(r"One relation is (.*?)\.(?: |$)", text) or re.search(r"which is (PyG's ``\w+``)", text)
    return "" if found is None else found[1].replace("``", "`")


def model_names(name: str) -> list[str]:
    """Names of the convolutions of `GNN` that are made of this layer."""
    kind, found = getattr(gnn, name), []
    for each in CONVOLUTIONS.values():
        made = each.make(8, 8)
        if type(made) is kind and (each.relational or CASES[name].relations is None):
            found.append(each.name)
    return found


def converted(name: str) -> list[str]:
    """Layers of PyG that `to_mrs` turns into this one."""
    return re.findall(rf"^\| `(\w+)` \| our layer `{name}`", (ROOT / "CONVERSION.md").read_text("utf-8"), re.MULTILINE)


def page(name: str) -> str:
    """One layer."""
    head, body, example = description(name)
    facts = []
    if partner(name):
        facts.append(f"**Plain partner.** One relation is {partner(name)}.")
    if model_names(name):
        facts.append("**In `GNN` and `--model`.** " + ", ".join(f"`{each}`" for each in model_names(name)) + ".")
    if converted(name):
        facts.append("**From PyG.** `to_mrs` makes it of " + ", ".join(f"`{each}`" for each in converted(name)) + ".")
    table = "| takes | |\n|---|---|\n" + "\n".join(f"| {what} | {mark} |" for what, mark in supports(name).items())
    parts = [
        f"# {name}",
        head,
        f":::{{picture}} messages:{name}\n{CAPTIONS.get(name, CAPTION)}\n:::",
        "## Formula\n\n```{eval-rst}\n.. currentmodule:: graphprism.nn\n\n" + body + "\n```",
        f"**Shapes.** {shapes(name)}" if shapes(name) else "",
        "## Partner and names\n\n" + "\n\n".join(facts) if facts else "",
        "## What it takes\n\nTried when this page was built.\n\n" + table,
        "## Cost\n\n" + cost(name),
        f"## Example\n\n```pycon\n{example}\n```" if example else "",
        f"All arguments: {{py:obj}}`graphprism.nn.{name}`.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def index() -> str:
    """The list of all layers."""
    rows = "\n".join(
        f"| [`{name}`]({name}.md) | {listed()['graphprism.nn'][name]} | {partner(name) or '-'} |" for name in CASES
    )
    names = "\n".join(CASES)
    return (
        "# Layers\n\nA layer has weights and one formula. It takes `x`, `edge_index` and `edge_type`, the relation of "
        "every edge, or a prepared `RelationalAdj`. Except for `DirConv`, which holds two of them, all are PyG's "
        "`MessagePassing`: explainers, message hooks and `to_hetero` work.\n\n"
        "| layer | what it is | with one relation |\n|---|---|---|\n" + rows + "\n\n"
        "Not sure? Take the layer whose plain partner you would take; [`DirConv`](DirConv.md) around it on a directed "
        "graph; [`MRSConv`](MRSConv.md) for a message function of your own. A model that you have: "
        "[convert it](../../convert.md).\n\n"
        "[The start](../../concepts.md#the-start) says how relations begin: together, as the plain layer, or apart.\n\n"
        "```{toctree}\n:hidden:\n\n" + names + "\n```\n"
    )


def pages() -> dict[str, str]:
    """All layers and the list of them."""
    return {"index": index(), **{name: page(name) for name in CASES}}

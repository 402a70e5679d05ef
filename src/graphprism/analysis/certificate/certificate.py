"""The certificate: results that are proven about a split of a graph, as figures and text."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from graphprism._text import percent, rich_table, text_table, two_decimals

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class RelationCertificate:
    """Figures of one relation, over all graphs that were certified.

    Attributes:
        name: Name of the relation.
        num_edges: Number of its edges; with a soft split every edge with a score other than 0 counts.
        acyclic: True if no graph has a cycle of its edges.
        acyclic_graphs: Number of graphs without such a cycle.
        cycle: Nodes of one cycle in order, numbered within their graph; empty if there is none. A loop is a cycle of
            one.
        cycle_graph: Number of the graph of that cycle.
        num_roots: Number of nodes without incoming edges of the relation.
        num_sources: Number of roots with outgoing edges of the relation.
        ergodic: True if every graph is strongly connected and aperiodic under the relation.
        ergodic_graphs: Number of such graphs.
    """

    name: str
    num_edges: int
    acyclic: bool
    acyclic_graphs: int
    cycle: tuple[int, ...]
    cycle_graph: int | None
    num_roots: int
    num_sources: int
    ergodic: bool
    ergodic_graphs: int


@dataclass(frozen=True)
class LayerCertificate:
    """Properties of the certified layer, besides the figures.

    Attributes:
        name: Name of the layer.
        norm: Kind of `graphprism.ops.edge_norm` that the layer applies; "none" if it uses weights unchanged.
        channels: Number of output channels, which the rank cannot exceed; None if unknown.
        silenced_edges: Number of edges of nonzero weight whose coefficient is 0 after the norm.
        merged_pairs: Number of structurally independent pairs with all edges in one relation; None for soft splits.
        is_linear: True if the output is linear in the weights, with coefficients that do not depend on the input.
        shared_start: True if all relations start with the same weights.
        notes: Sentences on parts of the layer that the figures omit.
        unproven: Why nothing is proven about the layer; None if something is.
    """

    name: str
    norm: str
    channels: int | None
    silenced_edges: int
    merged_pairs: int | None
    is_linear: bool
    shared_start: bool
    notes: tuple[str, ...]
    unproven: str | None


HEADER = ("relation", "edges", "share", "acyclic", "a cycle", "roots", "ergodic")
_LONGEST_CYCLE = 4


def relation_rows(certificate: Certificate) -> list[list[str]]:
    """One row of text per relation, under `HEADER`."""
    return [_relation_row(relation, certificate) for relation in certificate.relations]


def figures(certificate: Certificate) -> str:
    """The figures over all relations together, one line each."""
    graphs = f"{certificate.num_graphs:,} graph{'' if certificate.num_graphs == 1 else 's'}"
    sizes = f"{graphs}, {certificate.num_nodes:,} nodes, {certificate.num_edges:,} edges"
    lines = [
        f"{sizes}; {_aggregation_text(certificate)}",
        f"structural rank: {_rank_text(certificate)}",
        f"structurally independent pairs: {certificate.independent_pairs:,} of {certificate.total_pairs:,}",
        f"witnesses: {_witness_text(certificate)}",
    ]
    return "\n".join(lines)


def sentence_of(certificate: Certificate) -> str:
    """The conclusion as a sentence, with its conditions: sufficient, for generic weights and input."""
    layer = certificate.layer
    if layer is not None and layer.unproven is not None:
        return f"Nothing is proven about {layer.name} on {_graphs_text(certificate)}: {layer.unproven}."
    if layer is None and certificate.num_relations == 1:
        return (
            "There is one relation: no two nodes are structurally independent, whatever the aggregation. It says "
            "nothing about accuracy."
        )
    return " ".join([_claim(certificate), *layer_warnings(certificate)])


def layer_warnings(certificate: Certificate) -> list[str]:
    """Warnings about the layer that the figures do not show."""
    layer = certificate.layer
    if layer is None:
        return []
    warnings = list(layer.notes)
    if layer.silenced_edges:
        share = percent(layer.silenced_edges, certificate.num_edges)
        warnings.append(
            f'Its norm "{layer.norm}" silences {share} of the edges ({layer.silenced_edges:,} of '
            f"{certificate.num_edges:,} weigh 0)."
        )
    if layer.shared_start:
        warnings.append(
            "Its relations share their start: this holds only once training has moved them apart; before, it is the "
            "plain layer."
        )
    return warnings


def _claim(certificate: Certificate) -> str:
    layer = certificate.layer
    subject = f'A layer with aggregation "{certificate.aggregation}"' if layer is None else layer.name
    if certificate.independent_pairs == 0:
        return (
            f"{subject}: no two nodes are structurally independent on {_graphs_text(certificate)}; nothing is proven "
            "to keep the output from rank one. It says nothing about accuracy."
        )
    share = percent(certificate.independent_pairs, certificate.total_pairs)
    ends = " `layer=` certifies the layer that will run." if layer is None else ""
    return (
        f"{subject} has, for generic weights and input (almost all, not all), {_floor_text(certificate)}; {share} of "
        f"node pairs are distinguished (mapped to linearly independent vectors){_merged_text(certificate)}. Proven "
        f"for {_condition_text(certificate)}; sufficient, not necessary. It says nothing about accuracy.{ends}"
    )


def _graphs_text(certificate: Certificate) -> str:
    return "this graph" if certificate.num_graphs == 1 else f"these {certificate.num_graphs:,} graphs"


def _floor_text(certificate: Certificate) -> str:
    if certificate.num_graphs == 1:
        return f"rank at least {certificate.rank}"
    mean = two_decimals(certificate.mean_rank)
    return f"rank at least {certificate.rank} on each of {certificate.num_graphs:,} graphs ({mean} on average)"


def _merged_text(certificate: Certificate) -> str:
    merged = 0 if certificate.layer is None else certificate.layer.merged_pairs
    return "" if merged is None else f", on one relation {percent(merged, certificate.total_pairs)}"


def _condition_text(certificate: Certificate) -> str:
    layer = certificate.layer
    # one channel for each matrix of weights: the rank of no graph is larger
    channels = "" if layer and layer.channels else f"at least {len(certificate.rank_counts) - 1} channels and "
    if layer is not None and not layer.is_linear:
        return f"{channels}no activation or tanh"
    return f"{channels}an injective activation, such as tanh, or none"


def _relation_row(relation: RelationCertificate, certificate: Certificate) -> list[str]:
    total = sum(other.num_edges for other in certificate.relations)
    return [
        relation.name,
        f"{relation.num_edges:,}",
        percent(relation.num_edges, total, decimals=1) if total else "",
        _on_graphs(relation.acyclic, relation.acyclic_graphs, certificate.num_graphs),
        _cycle_text(relation, certificate.num_graphs),
        f"{relation.num_roots:,} ({relation.num_sources:,} with edges)",
        _on_graphs(relation.ergodic, relation.ergodic_graphs, certificate.num_graphs),
    ]


def _on_graphs(holds: bool, graphs: int, num_graphs: int) -> str:
    if num_graphs == 1 or graphs in (0, num_graphs):
        return "yes" if holds else "no"
    return f"on {graphs:,} of {num_graphs:,} graphs"


def _cycle_text(relation: RelationCertificate, num_graphs: int) -> str:
    if not relation.cycle:
        return ""
    nodes = [str(node) for node in relation.cycle[:_LONGEST_CYCLE]]
    more = len(relation.cycle) - _LONGEST_CYCLE
    middle = [f"({more:,} more)"] if more > 0 else []
    where = "" if num_graphs == 1 else f" in graph {relation.cycle_graph}"
    return " → ".join([*nodes, *middle, nodes[0]]) + where


def _aggregation_text(certificate: Certificate) -> str:
    layer = certificate.layer
    if layer is None:
        return f"aggregation: {certificate.aggregation}"
    return f"layer: {layer.name}, norm: {layer.norm}"


def _rank_text(certificate: Certificate) -> str:
    if certificate.num_graphs == 1:
        of = "relations" if certificate.layer is None else "weight matrices"
        return f"{certificate.rank} of {len(certificate.rank_counts) - 1} {of}"
    counts = [f"{rank} on {count:,}" for rank, count in enumerate(certificate.rank_counts) if count]
    return f"{', '.join(counts)} graphs; mean {two_decimals(certificate.mean_rank)}"


def _witness_text(certificate: Certificate) -> str:
    if certificate.witness is None or certificate.witness_in_degrees is None:
        return "none"
    nodes = [
        f"{node} ({', '.join(f'{entry:g}' for entry in row)})"
        for node, row in zip(certificate.witness, certificate.witness_in_degrees, strict=True)
    ]
    where = "" if certificate.num_graphs == 1 else f" of graph {certificate.witness_graph}"
    return f"nodes {nodes[0]} and {nodes[1]}{where}"


@dataclass(frozen=True)
class Certificate:
    r"""Figures of a split and the sentence that follows from them.

    A layer :math:`\mathbf{X}' = \sigma(\sum_r \mathbf{A}_r \mathbf{X} \mathbf{W}_r)` with one weight matrix
    :math:`\mathbf{W}_r \in \mathbb{R}^{d \times d'}` per relation has a rank of at least the structural rank, and
    maps every structurally independent pair of nodes to linearly independent vectors, for almost every choice of all
    :math:`\mathbf{W}_r`, almost every :math:`\mathbf{X}` (also among those of rank one), :math:`d'` at least the
    number of relations, and :math:`\sigma` injective or absent. Why: column :math:`k` of the sum is
    :math:`[\mathbf{A}_1\mathbf{X} \cdots \mathbf{A}_R\mathbf{X}]` times a free vector; that block matrix has at least
    the rank of the in-degrees :math:`\mathbf{E}` for :math:`\mathbf{X} = \mathbf{1}\mathbf{v}^\top`, so by continuity
    of its minors, which are polynomials, for almost every :math:`\mathbf{X}`; and a square matrix whose entries are
    injective functions of independent continuous variables is almost surely regular. The condition is sufficient. It
    is not necessary: a pair that is not counted may be distinguished as well. ReLU is not injective, and almost every
    is not every.

    With a layer, the matrices are the layer's `graphprism.ops.Coefficients`, and those that it adds count as relations:
    the row of the receiver (:math:`\mathbf{A} = \mathbf{I}`) and, in `DirConv`, the other direction. A bias changes
    nothing: for :math:`\mathbf{W}` large enough it is small, and the rank of almost every :math:`\mathbf{W}` is the
    largest one. Attention and gates are not fixed, but analytic in their own weights (those of attention on each cone
    of weights where no logit changes its sign), and equal where those are zero; so the rank that they have there is a
    floor almost everywhere, with an activation that is analytic as well. Fewer channels than matrices cap the rank.

    Attributes:
        num_graphs, num_nodes, num_edges: Sizes of the certified data.
        aggregation: Aggregation whose weighted in-degrees were used; "layer" for those of a layer.
        tolerance: Directions that differ by at most this are equal, if in-degrees are not whole numbers.
        rank_counts: Number of graphs with structural rank 0, 1, ..., K, for K weight matrices: R without a layer.
        independent_pairs: Number of structurally independent pairs of nodes of the same graph.
        total_pairs: Number of all pairs of nodes of the same graph.
        witness: Two structurally independent nodes, numbered within their graph, or None if there are none.
        witness_graph: Number of the graph of the witnesses.
        witness_in_degrees: The weighted in-degrees of the two witnesses.
        relations: One certificate for each relation.
        layer: Properties of the layer, if one was certified.
    """

    num_graphs: int
    num_nodes: int
    num_edges: int
    aggregation: str
    tolerance: float
    rank_counts: tuple[int, ...]
    independent_pairs: int
    total_pairs: int
    witness: tuple[int, int] | None
    witness_graph: int | None
    witness_in_degrees: tuple[tuple[float, ...], tuple[float, ...]] | None
    relations: tuple[RelationCertificate, ...]
    layer: LayerCertificate | None = None

    @property
    def num_relations(self) -> int:
        """Number of relations R."""
        return len(self.relations)

    @property
    def rank(self) -> int:
        """Smallest structural rank of a graph: the floor of the next layer's rank that holds on all graphs."""
        return next(rank for rank, count in enumerate(self.rank_counts) if count)

    @property
    def mean_rank(self) -> float:
        """Structural rank, averaged over the graphs."""
        return sum(rank * count for rank, count in enumerate(self.rank_counts)) / self.num_graphs

    @property
    def share(self) -> float | None:
        """Share of the pairs that are structurally independent; None without pairs."""
        return self.independent_pairs / self.total_pairs if self.total_pairs else None

    @property
    def balance(self) -> tuple[float, ...]:
        """Share of each relation in the edges of all relations; zeros without edges."""
        total = sum(relation.num_edges for relation in self.relations)
        return tuple(relation.num_edges / max(total, 1) for relation in self.relations)

    @property
    def sentence(self) -> str:
        """The conclusion as text, claiming no more than is proven."""
        return sentence_of(self)

    def to_json(self) -> str:
        """The fields as JSON text; `from_json` reads it back."""
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """The certificate that `to_json` wrote."""
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Certificate:
        """The certificate with these fields, as `json` reads them: lists stand for tuples."""
        relations = tuple(
            RelationCertificate(**{**relation, "cycle": tuple(relation["cycle"])}) for relation in fields["relations"]
        )
        witness, in_degrees, layer = fields["witness"], fields["witness_in_degrees"], fields.get("layer")
        changed = {
            "rank_counts": tuple(fields["rank_counts"]),
            "relations": relations,
            "witness": None if witness is None else tuple(witness),
            "witness_in_degrees": None if in_degrees is None else tuple(tuple(row) for row in in_degrees),
            "layer": None if layer is None else LayerCertificate(**{**layer, "notes": tuple(layer["notes"])}),
        }
        return cls(**{**fields, **changed})

    def __str__(self) -> str:
        return "\n\n".join([text_table(HEADER, relation_rows(self)), figures(self), self.sentence])

    def __rich__(self) -> Table:
        return rich_table(
            "Certificate of the split", HEADER, relation_rows(self), f"{figures(self)}\n\n{self.sentence}"
        )

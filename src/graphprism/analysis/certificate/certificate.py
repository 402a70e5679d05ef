"""What is proven about a split of the edges of a graph."""

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
        num_roots: Number of nodes that no edge of the relation enters.
        num_sources: Number of those that an edge of the relation leaves.
        ergodic: True if every graph is strongly connected and aperiodic under the relation.
        ergodic_graphs: Number of graphs that are.
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


HEADER = ("relation", "edges", "share", "acyclic", "a cycle", "roots", "ergodic")
_LONGEST_CYCLE = 4


def relation_rows(certificate: Certificate) -> list[list[str]]:
    """One row of text per relation, under `HEADER`."""
    return [_relation_row(relation, certificate) for relation in certificate.relations]


def figures(certificate: Certificate) -> str:
    """The figures that concern all relations together, a line each."""
    graphs = f"{certificate.num_graphs:,} graph{'' if certificate.num_graphs == 1 else 's'}"
    sizes = f"{graphs}, {certificate.num_nodes:,} nodes, {certificate.num_edges:,} edges"
    lines = [
        f"{sizes}; aggregation: {certificate.aggregation}",
        f"structural rank: {_rank_text(certificate)}",
        f"structurally independent pairs: {certificate.independent_pairs:,} of {certificate.total_pairs:,}",
        f"witnesses: {_witness_text(certificate)}",
    ]
    return "\n".join(lines)


def sentence_of(certificate: Certificate) -> str:
    """The sentence a user needs; sufficient, for almost every weight and input, with its conditions."""
    if certificate.num_relations == 1:
        return "There is one relation: no two nodes are structurally independent, whatever the aggregation."
    if certificate.independent_pairs == 0:
        return (
            "No two nodes are structurally independent: with these relations nothing is proven to keep the next layer "
            "from rank one."
        )
    share, channels = percent(certificate.independent_pairs, certificate.total_pairs), certificate.num_relations
    return (
        f"{_floor_text(certificate)} for almost every weight and input; {share} of node pairs are told apart (mapped "
        "to linearly independent vectors); on one relation, with mean or any other aggregation, it would be 0 %. "
        f"Proven for at least {channels} channels and an activation that is injective, such as tanh, or none; "
        "sufficient, not necessary."
    )


def _floor_text(certificate: Certificate) -> str:
    if certificate.num_graphs == 1:
        return f"The next layer has rank at least {certificate.rank}"
    return (
        f"On each of {certificate.num_graphs:,} graphs the next layer has rank at least {certificate.rank} "
        f"({two_decimals(certificate.mean_rank)} on average)"
    )


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


def _rank_text(certificate: Certificate) -> str:
    if certificate.num_graphs == 1:
        return f"{certificate.rank} of {certificate.num_relations} relations"
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
    is not necessary: a pair that is not counted may be told apart as well. ReLU is not injective, and almost every is
    not every.

    Attributes:
        num_graphs, num_nodes, num_edges: Sizes of what was certified.
        aggregation: Aggregation whose weighted in-degrees were looked at.
        tolerance: Differences of direction up to this count as none, where in-degrees are not whole numbers.
        rank_counts: Number of graphs with structural rank 0, 1, ..., R.
        independent_pairs: Number of structurally independent pairs of nodes of the same graph.
        total_pairs: Number of all pairs of nodes of the same graph.
        witness: Two structurally independent nodes, numbered within their graph, or None if there are none.
        witness_graph: Number of the graph of the witnesses.
        witness_in_degrees: The weighted in-degrees of the two witnesses.
        relations: One certificate for each relation.
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
        """Share of the pairs that are structurally independent; None where there is no pair."""
        return self.independent_pairs / self.total_pairs if self.total_pairs else None

    @property
    def balance(self) -> tuple[float, ...]:
        """Share of each relation in all edges of all relations; zeros where there are none."""
        total = sum(relation.num_edges for relation in self.relations)
        return tuple(relation.num_edges / max(total, 1) for relation in self.relations)

    @property
    def sentence(self) -> str:
        """What follows, in words, claiming no more than is proven."""
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
        witness, in_degrees = fields["witness"], fields["witness_in_degrees"]
        changed = {
            "rank_counts": tuple(fields["rank_counts"]),
            "relations": relations,
            "witness": None if witness is None else tuple(witness),
            "witness_in_degrees": None if in_degrees is None else tuple(tuple(row) for row in in_degrees),
        }
        return cls(**{**fields, **changed})

    def __str__(self) -> str:
        return "\n\n".join([text_table(HEADER, relation_rows(self)), figures(self), self.sentence])

    def __rich__(self) -> Table:
        return rich_table(
            "Certificate of the split", HEADER, relation_rows(self), f"{figures(self)}\n\n{self.sentence}"
        )

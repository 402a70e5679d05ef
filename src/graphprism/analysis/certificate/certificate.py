"""What is proven about a split of the edges of a graph."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from graphprism.analysis.certificate._certificate_text import HEADER, figures, relation_rows, sentence_of
from graphprism.analysis.certificate._text_table import rich_table, text_table
from graphprism.analysis.certificate.relation_certificate import RelationCertificate

if TYPE_CHECKING:
    from rich.table import Table


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

"""The words of a certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphprism.analysis.certificate._percent import percent, two_decimals

if TYPE_CHECKING:
    from graphprism.analysis.certificate.certificate import Certificate
    from graphprism.analysis.certificate.relation_certificate import RelationCertificate

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

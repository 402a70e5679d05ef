"""Figure 2: the distance to one signal over 128 iterations."""

from __future__ import annotations

from dataclasses import dataclass

from graphprism._checks import check_positive

GRAPHS = ("zinc", "molecules", "cora")


@dataclass(frozen=True)
class Figure2Spec:
    """Settings of the experiment; the defaults are the paper's.

    The features go through one linear map to ``channels``; then every iteration is one message-passing step with fresh
    weights, and ReLU, after which the rank-one distance is taken. Layers start as they do in training, with their
    biases.

    Attributes:
        models: Names of `graphprism.nn.models.CONVOLUTIONS`.
        graphs: "zinc" (one random molecule for each seed), "molecules" (the same with molecules made up here), or
            "cora" (its largest connected component for all seeds).
        seeds: Number of seeds.
        layers: Number of iterations.
        channels: Width of the states.
        split: How the edges are split for the MRS models.
        source: Where the paper describes it.
    """

    models: tuple[str, ...] = ("gcn", "mrs-gcn", "sage", "mrs-sage")
    graphs: str = "zinc"
    seeds: int = 50
    layers: int = 128
    channels: int = 16
    split: str = "degree"
    source: str = "Figure 2; section 'More Informative Node Representations' and appendix 'Preventing Rank Collapse'"

    def __post_init__(self) -> None:
        for name in ("seeds", "layers", "channels"):
            check_positive(name, getattr(self, name))
        if self.graphs not in GRAPHS:
            raise ValueError(f"`graphs` must be one of {list(GRAPHS)}, got {self.graphs!r}")
        if not self.models or len(set(self.models)) != len(self.models):
            raise ValueError(f"`models` must name at least one model and none twice, got {list(self.models)}")


FIGURE_2 = Figure2Spec()

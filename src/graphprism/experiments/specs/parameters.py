"""Width and number of parameters of eight layers on ZINC."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ParametersRow:
    """One row: the model, its published width and count, and why ours may differ; no model where it is quoted."""

    row: str
    model: str | None
    width: int | None
    parameters: int | None
    note: str = ""


PARAMETERS = (
    ParametersRow("GCN", "gcn", 247, 498_200),
    ParametersRow("MRS-GCN", "mrs-gcn", 143, 496_656, "published with two constants per layer, which are not trained"),
    ParametersRow("SAGE", "sage", 175, 497_176),
    ParametersRow("MRS-SAGE", "mrs-sage", 124, 497_117),
    ParametersRow("GAT", "gat", 174, 497_119),
    ParametersRow("GAT+degree", None, 174, 497_151, "quoted"),
    ParametersRow("MRS-GAT", "mrs-gat", 101, 497_022),
    ParametersRow("GIN", "gin", 143, 498_928),
    ParametersRow("MRS-GIN", "mrs-gin", 101, 497_830),
    ParametersRow("GatedGCN", "gated-gcn", 110, 495_551),
    ParametersRow("MRS-GatedGCN", "mrs-gated-gcn-9", 82, 495_363, "nine maps, as the published count needs"),
    ParametersRow("MRS-GatedGCN (formula)", "mrs-gated-gcn", None, None, "seven maps, as the printed formula has"),
)
PARAMETERS_SOURCE = "tab:parameter_count (appendix)"

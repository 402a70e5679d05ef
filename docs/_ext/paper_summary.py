"""Tables of the paper in short, from the cells of benchmarks/PAPER.md."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Table, its title, the rows and the columns to show; columns without a published number are shown alone.
SHOWN = (
    ("orderings", "Orderings on ZINC12k, 8 layers", (), ("Train (MAE)", "Test (MAE)")),
    ("depth", "Depth on ZINC12k, test MAE", (), ()),
    ("directed", "Directed graphs, accuracy", ("MLP", "GCN", "Dir-GNN", "MRS-Dir-GNN", "Look-up"), ()),
    ("homophilic", "Homophilic graphs, accuracy", ("GCN", "MRS-GCN"), ()),
)


def cells(table: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Ours and the published number as they are written, by row and column."""
    text = (ROOT / "benchmarks" / "PAPER.md").read_text("utf-8")
    section = text.partition(f"\n## {table}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:2] == "| "]
    return {(row[0], row[1]): (row[2], row[5]) for row in rows if len(row) >= 6 and row[0] and row[0] != "---"}


def means(table: str) -> dict[tuple[str, str], tuple[float | None, float | None]]:
    """The same as numbers; None where there is none."""

    def mean(text: str) -> float | None:
        return float(_number(text)) if _number(text) else None

    return {place: (mean(ours), mean(published)) for place, (ours, published) in cells(table).items()}


def _number(text: str) -> str:
    """The first number of a text as it is written; empty where there is none."""
    found = re.search(r"-?\d+\.\d+", text)
    return found[0] if found else ""


def page() -> str:
    """All short tables: ours, and in brackets the published mean."""
    parts = []
    for table, title, rows, columns in SHOWN:
        found = cells(table)
        names = rows or tuple(dict.fromkeys(row for row, _ in found))
        run = {column for (_, column), (ours, _) in found.items() if _number(ours)}
        heads = columns or tuple(dict.fromkeys(column for _, column in found if column in run))
        lines = [f"| {title} | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
        for row in names:
            pairs = [found.get((row, column), ("", "")) for column in heads]
            # deviations where there is room for them
            shown = [_shown(ours if len(heads) < 5 else _number(ours), published) for ours, published in pairs]
            if any(shown):
                lines.append(f"| {row} | " + " | ".join(shown) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _shown(ours: str, published: str) -> str:
    if not _number(ours):
        return ""
    return f"{ours} ({_number(published)})" if _number(published) else ours

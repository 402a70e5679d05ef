"""Small folders of tables, as people have them."""

from pathlib import Path

import numpy as np

TOWNS = ("Bonn", "Ulm", "Jena")


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text, "utf-8")
    return folder


def write_people(folder: Path, count: int = 60, **columns: list[object]) -> Path:
    """A ring of people with numbers, a category, a flag and targets of all kinds."""
    draw = np.random.default_rng(0)
    age = draw.normal(40, 10, count).round(2)
    data: dict[str, list[object]] = {
        "person": [f"p{number}" for number in range(count)],
        "age": list(age),
        "town": [TOWNS[number % 3] for number in range(count)],
        "member": list(draw.integers(0, 2, count)),
        "sick": ["yes" if value > 40 else "no" for value in age],
        "group": [["red", "green", "blue"][number % 3] for number in range(count)],
        "income": list((age * 100 + draw.normal(0, 10, count)).round(1)),
        "likes_a": list(draw.integers(0, 2, count)),
        "likes_b": list(draw.integers(0, 2, count)),
        **columns,
    }
    rows = [",".join("" if value is None else str(value) for value in row) for row in zip(*data.values(), strict=True)]
    nodes = "\n".join([",".join(data), *rows]) + "\n"
    ring = "\n".join(f"p{number},p{(number + step) % count}" for number in range(count) for step in (1, 7))
    return write(folder, nodes=nodes, edges=f"from,to\n{ring}\n")


def write_molecules(folder: Path, count: int = 40) -> Path:
    """Paths of atoms; the target says whether there is oxygen."""
    nodes, edges, graphs = ["mol_id,atom,element"], ["mol_id,source,target,bond"], ["mol_id,toxic,energy"]
    for number in range(count):
        size = 3 + number % 4
        has_oxygen = number % 2 == 0
        for atom in range(size):
            nodes.append(f"m{number},{atom},{'O' if has_oxygen and atom == 1 else 'C'}")
        edges += [f"m{number},{atom},{atom + 1},{'single' if atom % 2 else 'double'}" for atom in range(size - 1)]
        graphs.append(f"m{number},{int(has_oxygen)},{size + 0.5 * has_oxygen}")
    return write(folder, nodes="\n".join(nodes), edges="\n".join(edges), graphs="\n".join(graphs))

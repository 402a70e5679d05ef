"""A citation graph small enough to write, in the pickles of Planetoid, as Python 2 and scipy wrote them."""

import pickle
from pathlib import Path

import numpy as np

TRAIN, OTHERS, TEST, FEATURES, CLASSES = 6, 520, 9, 11, 3


class _Rows:
    """Pickles as ``scipy.sparse.csr.csr_matrix``, whether scipy is there or not."""


def _sparse(dense: np.ndarray) -> _Rows:
    rows = _Rows()
    row, column = np.nonzero(dense)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(dense)))]).astype(np.int32)
    rows.__dict__.update(_shape=dense.shape, format="csr", maxprint=50, indptr=indptr, indices=column.astype(np.int32))
    rows.__dict__["data"] = dense[row, column].astype(np.float32)
    return rows


def dumps(value: object) -> bytes:
    """Protocol 2 with the names of that time."""
    content = pickle.dumps(value, protocol=2)
    for new, old in (
        (f"c{_Rows.__module__}\n_Rows\n", "cscipy.sparse.csr\ncsr_matrix\n"),
        ("cnumpy._core.multiarray\n", "cnumpy.core.multiarray\n"),
    ):
        content = content.replace(new.encode(), old.encode())
    return content


def write_planetoid(folder: Path, name: str = "Cora", skip: int = 0) -> Path:
    """Writes all files; ``skip`` numbers before the last test document are no document, as in CiteSeer."""
    raw = folder / "pyg" / "Planetoid" / name / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(0)
    test = OTHERS + rng.permutation(TEST)
    test[test == OTHERS + TEST - 1] += skip
    allx, tx = ((rng.random((rows, FEATURES)) < 0.4) * 1.0 for rows in (OTHERS, TEST))
    ally, ty = (np.eye(CLASSES, dtype=np.int32)[rng.integers(0, CLASSES, rows)] for rows in (OTHERS, TEST))
    documents = [*range(OTHERS), *sorted(test.tolist())]
    graph = {node: [] for node in documents}
    for a, b in rng.choice(documents, (900, 2)).tolist():  # some twice, some loops
        graph[a].append(b)
        graph[b].append(a)
    values = {"x": _sparse(allx[:TRAIN]), "allx": _sparse(allx), "tx": _sparse(tx), "graph": graph}
    for key, value in {**values, "y": ally[:TRAIN], "ally": ally, "ty": ty}.items():
        (raw / f"ind.{name.lower()}.{key}").write_bytes(dumps(value))
    (raw / f"ind.{name.lower()}.test.index").write_text("".join(f"{number}\n" for number in test))
    return raw

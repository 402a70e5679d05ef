import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from graphprism.datasets.raw import safe_object_array
from tests.datasets.raw.raw_node_files import write_object_array


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def test_arrays_and_tensors(tmp_path):
    path = write_object_array(
        tmp_path / "a.npy", [{"a": np.arange(3)}, {"b": torch.arange(4), "c": [1, 2]}, {"d": torch.ones(2, 2).bool()}]
    )
    first, second, third = safe_object_array(path)
    assert first["a"].tolist() == [0, 1, 2]
    assert second["b"].tolist() == [0, 1, 2, 3]
    assert second["c"] == [1, 2]
    assert third["d"].tolist() == [[True, True], [True, True]]


def test_files_of_the_old_numpy(tmp_path):
    path = write_object_array(tmp_path / "a.npy", [{"a": np.arange(3)}])
    new, old = b"\x8c\x16numpy._core.multiarray", b"\x8c\x15numpy.core.multiarray"
    content = path.read_bytes()
    assert new in content or old in content
    # A frame of protocol 4 names its length, so it is left out along with the name.
    header, body = content[:128], content[128:]
    body = body[:2] + body[11:] if body[2:3] == b"\x95" else body
    path.write_bytes(header + body.replace(new, old))
    assert safe_object_array(path)[0]["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "inside", [lambda touch: touch, lambda touch: {"a": touch}, lambda touch: [np.arange(2), touch]]
)
def test_nothing_else_is_called(tmp_path, inside):
    made = tmp_path / "made"
    path = write_object_array(tmp_path / "a.npy", [{"a": 1}, inside(Touch(made))])
    with pytest.raises(ValueError, match=r"holds more than arrays \(it asks for (posix|nt)\.mkdir\)"):
        safe_object_array(path)
    assert not made.exists()
    np.load(path, allow_pickle=True)
    assert made.exists(), "the file does not do what the test needs it to"


class Storage:
    """Loads a file of torch within the pickle, which is what a tensor does."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __reduce__(self) -> tuple[object, ...]:
        return torch.storage._load_from_bytes, (self.content,)


def test_nothing_is_called_within_a_tensor_either(tmp_path):
    made, inner = tmp_path / "made", tmp_path / "inner.pt"
    torch.save(Touch(made), inner, _use_new_zipfile_serialization=False)
    path = write_object_array(tmp_path / "a.npy", [Storage(inner.read_bytes())])
    with pytest.raises(ValueError, match="holds more than arrays"):
        safe_object_array(path)
    assert not made.exists()


def test_other_files(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(3))
    with pytest.raises(ValueError, match="must hold objects, got int64"):
        safe_object_array(path)
    whole = write_object_array(path, [{"a": np.arange(30)}]).read_bytes()
    for content in (b"", b"no array", pickle.dumps([1]), *(whole[:size] for size in range(0, len(whole), 9))):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"magic|EOF|damaged|read"):
            safe_object_array(path)

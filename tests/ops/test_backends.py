"""The choice of a backend, and what keeps Triton's kernels from running."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from graphprism.ops import kernels
from graphprism.ops.backends import Backends

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
MODULE = "graphprism.ops.kernels.planted"


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with a GPU and the Triton of a version; what it has is not asked twice, so forget it afterwards."""

    def set_up(version="3.6.0", cuda=True, interpreted=False, compiler="cc", headers=True, capability=(9, 0)):
        kernels._missing.cache_clear()
        fake = SimpleNamespace(__version__=version, __spec__=SimpleNamespace())
        monkeypatch.setitem(sys.modules, "triton", fake if version else None)
        monkeypatch.setattr("importlib.util.find_spec", lambda name: fake.__spec__ if version else None)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(torch.cuda, "get_device_capability", [(9, 0), capability].__getitem__)
        monkeypatch.setenv("TRITON_INTERPRET", "1" if interpreted else "0")
        monkeypatch.setenv("CC", compiler)
        monkeypatch.setattr("shutil.which", lambda name: None)
        monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
        if headers:
            (tmp_path / "Python.h").touch()

    yield set_up
    kernels._missing.cache_clear()


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Writes a module of kernels."""

    def plant(source):
        (tmp_path / "planted.py").write_text(source)
        monkeypatch.setattr(kernels, "__path__", [*kernels.__path__, str(tmp_path)])

    yield plant
    sys.modules.pop(MODULE, None)


def reference():
    return "reference"


def scatter():
    return "scatter"


def make():
    return Backends(reference=reference, triton=f"{MODULE}:run")


def test_kernel_is_chosen_where_it_can_run_and_fits(machine, planted):
    machine()
    planted("WIDTH = 3\ndef run():\n    return 'triton'\n")
    backends = make()
    assert list(backends) == ["reference", "triton"]
    assert backends.choose(None, CUDA)() == "triton"
    assert backends.choose(None, CUDA, lambda module: module.WIDTH == 3)() == "triton"
    assert backends.choose(None, CUDA, lambda module: module.WIDTH == 4)() == "reference"
    assert backends.choose("reference", CUDA)() == "reference"
    assert backends.choose(None, CPU)() == "reference"
    assert backends.choose("triton", CPU)() == "triton"


def test_kernel_is_loaded_only_when_it_is_chosen(machine, planted):
    machine()
    planted("def run():\n    return 'triton'\n")
    backends = make()
    assert "triton" in backends
    backends.choose(None, CPU)
    assert MODULE not in sys.modules
    backends.choose(None, CUDA)
    assert MODULE in sys.modules


@pytest.mark.parametrize(
    ("have", "reason"),
    [
        ({"version": None}, "triton is not installed"),
        ({"version": "3.3.1"}, r"Triton 3\.4 or later is needed, got 3\.3\.1"),
        ({"cuda": False}, "torch finds no CUDA device"),
        ({"capability": (6, 1)}, r"Triton needs GPUs of compute capability 7\.0 or later, got 6\.1"),
        ({"compiler": ""}, "Triton needs a C compiler, and neither gcc nor clang nor the variable CC was found"),
        ({"headers": False}, r"Triton needs Python's headers \(python3-dev\), and .* has no Python.h"),
    ],
)
def test_missing_kernel_raises_with_the_reason_or_falls_back(machine, have, reason):
    machine(**have)
    backends = make()
    assert list(backends) == ["reference"]
    assert backends.choose(None, CUDA) is reference
    with pytest.raises(ValueError, match=rf"must be one of \['reference'\] on this machine, got 'triton': {reason}"):
        backends.choose("triton", CUDA)


@pytest.mark.parametrize("version", ["3.4.0", "3.10.1+git0", "4.0.0"])
def test_recent_triton_is_enough(machine, version):
    machine(version)
    assert "triton" in make()


def test_csr_sum_takes_an_older_triton(machine):
    machine("3.2.0")
    assert kernels.missing("graphprism.ops.kernels.csr_sum") is None
    assert kernels.missing("graphprism.ops.kernels.slot_sum") is not None


@pytest.mark.parametrize("interpreted", [False, True])
def test_fused_kernel_needs_an_nvidia_gpu(machine, monkeypatch, interpreted):
    monkeypatch.setattr(torch.version, "hip", "6.4")
    machine(interpreted=interpreted)
    reason = None if interpreted else "an NVIDIA GPU is needed, got PyTorch for AMD GPUs"
    assert kernels.missing("graphprism.ops.kernels.linear") == reason
    assert kernels.missing("graphprism.ops.kernels.slot_sum") is None


def test_products_in_parts_of_tf32_need_an_nvidia_gpu(machine, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.4")
    machine()
    files = [each for each in Path(kernels.__file__).parent.glob("[!_]*.py") if '"tf32x3"' in each.read_text()]
    assert "row_maps" in {each.stem for each in files}
    for each in files:
        assert kernels.missing(f"graphprism.ops.kernels.{each.stem}") is not None, each.stem


def test_interpreter_needs_no_gpu_and_no_compiler(machine):
    machine(cuda=False, interpreted=True, compiler="", headers=False)
    assert "triton" in make()


@pytest.mark.parametrize("impl", [None, "triton"])
def test_broken_import_of_our_own_is_not_hidden(machine, planted, impl):
    machine()
    planted("from graphprism.ops import no_such_name\n")
    with pytest.raises(ImportError, match="no_such_name"):
        make().choose(impl, CUDA)


def test_transformed_code_gets_scatter():
    backends = Backends(reference=reference, scatter=scatter)
    assert backends.choose(None, CPU)() == "reference"
    found = []
    torch.vmap(lambda x: found.append(backends.choose(None, x.device)()) or x)(torch.ones(2))
    assert found == ["scatter"]


def test_unknown_backend_is_an_error():
    with pytest.raises(ValueError, match=r"`impl` must be one of \['reference'\] on this machine, got 'fast'"):
        Backends(reference=reference).choose("fast", CPU)

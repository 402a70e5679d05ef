"""What `import graphprism as gp` gives, and when it loads it."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import graphprism as gp
from graphprism import analysis
from graphprism.splitting import Graph

# A process of its own finds the package where this one did, installed or not.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(gp.__file__).parents[1])}


def test_import_waits_for_nothing():
    code = "import sys, graphprism; assert not {'torch', 'numpy', 'torch_geometric'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT)


def test_every_public_name_is_there():
    for name in gp.__all__:
        assert getattr(gp, name) is not None
    assert {"certify", "compare_splits", "collapse", "CollapseMonitor", "rank_one_distance"} <= set(gp.__all__)
    assert set(gp.__all__) <= set(dir(gp))


def test_public_names_are_those_of_their_packages():
    for name, package in gp._NAMES.items():
        assert getattr(gp, name) is getattr(importlib.import_module(f"graphprism.{package}"), name)
    for name in gp._PACKAGES:
        assert getattr(gp, name) is importlib.import_module(f"graphprism.{name}")
    assert {*gp._NAMES, *gp._PACKAGES, "__version__"} == set(gp.__all__)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'graphprism' has no attribute 'colapse'"):
        _ = gp.colapse


def test_certify_by_the_public_door():
    path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    assert gp.certify(path, "degree").rank == 2


@pytest.mark.parametrize("package", ["certificate", "collapse"])
def test_analysis_exports_what_its_packages_export(package):
    module = importlib.import_module(f"graphprism.analysis.{package}")
    for name in module.__all__:
        assert getattr(analysis, name) is getattr(module, name)
        assert name in analysis.__all__


def test_collapse_is_the_function_and_its_package_can_still_be_imported_from(warm_python):
    code = (
        "import graphprism.analysis\n"
        "from graphprism.analysis.collapse import collapse, rank_one_distance\n"
        "from graphprism.analysis.collapse.rank import distance\n"
        "import graphprism as gp\n"
        "assert gp.collapse is graphprism.analysis.collapse is collapse and callable(collapse)\n"
        "assert gp.rank_one_distance is rank_one_distance\n"
    )
    done = warm_python.run("-W", "ignore", "-c", code)
    assert done.returncode == 0, done.stderr

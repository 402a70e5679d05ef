"""Names that a user imports today can still be imported."""

import importlib

import pytest

from tests.pins.pinned import pinned

PACKAGES = (
    "graphprism",
    "graphprism.splitting",
    "graphprism.ops",
    "graphprism.nn",
    "graphprism.transforms",
    "graphprism.analysis",
    "graphprism.testing",
    "graphprism.datasets",
    "graphprism.training",
    "graphprism.experiments",
    "graphprism.report",
    "graphprism.cli",
)
# The command line has one public name and no __all__.
NAMES = {"graphprism.cli": ["main"]}

# What may go, with the reason: helpers of one caller inside the package, and halves of what becomes one.
MAY_GO = {
    "graphprism.ops": {
        "Batches": "layout of the batched ops of lockstep training",
        "BlockDiagonal": "layout of the batched ops of lockstep training",
        "PaddedAdj": "layout of the batched ops of lockstep training",
        "absolute_loss": "step of lockstep training",
        "adam_step": "step of lockstep training",
        "at_receivers": "rows of entries, for layers with attention",
        "at_senders": "rows of entries, for layers with attention",
        "csr_sum": "backend of relational_aggregate",
        "entry_sum": "sum over entries, for layers with attention",
        "index_sum": "backend of relational_aggregate",
        "relational_stack": "all layers at once, for lockstep training",
        "relational_sum": "definition of a backend",
        "relational_transform": "half of relational_linear",
        "batched_linear": "batched linear map of lockstep training",
        "select_graphs": "step of lockstep training",
        "take_row": "step of lockstep training",
        "type_rows": "embedding of node types in lockstep training",
        "type_sums": "embedding of node types in lockstep training",
    },
    "graphprism.nn": {
        "RelationalWeight": "weight of the layers",
    },
    "graphprism.analysis": {
        "find_cycle": "step of certify",
        "ergodic_graphs": "step of certify",
        "root_nodes": "step of certify",
        "independent_pairs": "step of certify",
        "independent_witness": "step of certify",
    },
    "graphprism.datasets": {
        "DATA_VARIABLE": "name of an environment variable",
        "molecule_target": "step of molecules",
        "named_folder": "step of load",
        "packed_path": "step of load",
    },
    "graphprism.training": {
        "NodeRun": "one Run for all tasks",
        "PreparedDataset": "step of train",
        "build_node_model": "one build_model for all tasks",
        "epoch_order": "step of train",
        "forget_lockstep": "step of run_missing",
        "learning_rate": "step of train",
        "lockstep_key": "step of train_lockstep",
        "parameters_of": "step of parameters_table",
        "train_node": "one train for all tasks",
        "train_nodes": "one train for many runs of all tasks",
    },
    "graphprism.experiments": {
        "Listener": "type of a callback of run_missing",
        "figure_2_spec": "step of the command line",
        "find_graph": "step of run_figure_2",
        "run_missing": "step of Reproduction.run",
        "write_table": "step of Reproduction.run",
    },
}


def public_names(package):
    module = importlib.import_module(package)
    return sorted(NAMES.get(package) or module.__all__)


def measure():
    """All names by package; those that may go stand apart, with the reason."""
    keep = {
        package: [name for name in public_names(package) if name not in MAY_GO.get(package, {})] for package in PACKAGES
    }
    may_go = {package: dict(sorted(names.items())) for package, names in MAY_GO.items()}
    unknown = [
        f"{package}.{name}" for package in may_go for name in may_go[package] if name not in public_names(package)
    ]
    assert not unknown, f"names that may go must be public, got {unknown}"
    return {"keep": keep, "may_go": may_go}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_kept_name_can_be_imported(package):
    module, kept = importlib.import_module(package), pinned("public")["keep"][package]
    missing = [name for name in kept if getattr(module, name, None) is None or name not in public_names(package)]
    assert not missing, f"{package} must have the names {kept}, got it without {missing}"

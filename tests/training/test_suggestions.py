"""A misspelt name in a `Run` names the nearest known one."""

import re

import pytest

from graphprism.datasets import load, molecules
from graphprism.splitting import by_order
from graphprism.training import Run, Task


@pytest.mark.parametrize(
    ("options", "nearest"),
    [
        ({"model": "mrs-gnc"}, "mrs-gcn"),
        ({"model": "MRS-GCN"}, "mrs-gcn"),
        ({"model": "gpr_gnn"}, "gpr-gnn"),
        ({"split": "dergee"}, "degree"),
        ({"split": "degree(knid=in)"}, "kind"),
        ({"head": "halfing"}, "halving"),
        ({"activation": "rleu"}, "relu"),
        ({"pe_encoder": "deepsets"}, "deepset"),
        ({"optimizer": "Adam"}, "adam"),
        ({"schedule": "cosin"}, "cosine"),
        ({"precision": "float23"}, "float32"),
        ({"start": "share"}, "shared"),
        ({"model": "g2", "options": "exponend=2"}, "exponent"),
    ],
)
def test_run_suggests_the_nearest_name(options, nearest):
    with pytest.raises(ValueError, match=rf"; did you mean {re.escape(nearest)}\?"):
        Run(**options)


def test_run_suggests_nothing_where_nothing_is_close():
    with pytest.raises(ValueError, match=r"got 'transformer'$"):
        Run(model="transformer")
    with pytest.raises(ValueError, match=r"got 3$"):
        Run(model=3)


def test_run_from_dict_suggests_the_nearest_field():
    with pytest.raises(ValueError, match=r"got \['modle'\]; did you mean model\?$"):
        Run.from_dict({"modle": "gcn"})


def test_metric_of_a_run_suggests_the_nearest_name():
    with pytest.raises(ValueError, match=r"`metric` must be one of .*, got 'mea'; did you mean mae\?$"):
        Task.of(molecules(12), Run(metric="mea"))


def test_load_suggests_the_nearest_data_set(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^zinc21k: no data set of that name; did you mean zinc12k\?"):
        load("zinc21k", tmp_path)


def test_order_suggests_the_nearest_ordering():
    with pytest.raises(ValueError, match=r"got 'dergee'; did you mean degree\?$"):
        by_order("dergee")

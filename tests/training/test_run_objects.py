"""Fields of a `Run` are text; the error for an object says which text, or what to do instead."""

import re

import pytest
import torch

from graphprism.splitting import by_function, by_order
from graphprism.training import METRICS, Run

OWN = "write one of your own to the graph, data.edge_attr = split(data), and name it, attr(edge_attr)"


@pytest.mark.parametrize(
    ("split", "words"),
    [
        (by_order("degree", "ppr"), "`split` must be text, got ByOrder; write it as 'degree, ppr'"),
        ([by_order("degree"), by_order("ppr")], "`split` must be text, got list; write it as 'degree; ppr'"),
        (by_function(lambda graph: graph.edge_index[0], num_relations=5), f"got ByFunction; {OWN}"),
        (lambda graph: graph.edge_index[0], f"got function; {OWN}"),
        (torch.arange(3), f"got Tensor; {OWN}"),
        (3, "`split` must be text, got int"),
    ],
)
def test_run_split_given_as_an_object(split, words):
    with pytest.raises(TypeError, match=re.escape(words) + "$"):
        Run(split=split)


@pytest.mark.parametrize(
    ("metric", "came"), [(METRICS["mae"], "Metric"), (lambda output, target: 0.0, "function"), (3, "int")]
)
def test_run_metric_given_as_an_object(metric, came):
    hint = "with a metric of your own, score the outputs of graphprism.load(folder)(graphs)"
    words = f"`metric` must be None or a name of graphprism.training.METRICS, got {came}; {hint}"
    with pytest.raises(TypeError, match=re.escape(words) + "$"):
        Run(metric=metric)

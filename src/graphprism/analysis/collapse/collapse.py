"""Collapse of node states, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.batchnorm import _BatchNorm

from graphprism._checks import check_flag, check_function, check_type
from graphprism._text import counted
from graphprism.analysis.collapse.probe import (
    Call,
    Loss,
    Probe,
    attribute,
    call_model,
    check_model,
    find_layers,
    form_loss,
    preserved,
)
from graphprism.analysis.collapse.rank import num_graphs
from graphprism.analysis.collapse.report import CollapseReport, LayerCollapse


class Gradients(TypedDict):
    """The fields of `LayerCollapse` that need a loss."""

    output_gradient: float | None
    parameter_gradient: float | None


def collapse(
    model: Module,
    data: Any,
    labels: Tensor | None = None,
    loss: Loss | None = None,
    forward: Callable[[Any, Any], Any] | None = None,
    *,
    whole: bool = False,
    layers: Sequence[str] | None = None,
) -> CollapseReport:
    """Runs ``model`` once on ``data`` and measures the output of every convolution: is it collapsing, and where?

    A convolution is any `torch_geometric.nn.MessagePassing` and any layer of graphprism or of PyG; nested convolutions
    count as one, and repeated calls give several rows. Each row holds the metrics of the states and, if there is a
    loss, the norm of its gradient with respect to the output and to the parameters of the layer. This distinguishes a
    model that loses its signal in the forward pass from one that loses its gradient in the backward pass.

    The model runs in its current mode (training or evaluation) and is restored, also after an exception: modes, hooks,
    gradients, buffers such as running means, attributes such as caches, and the state of the random number generators.

    Args:
        model: Any module. It is called with the attributes of ``data`` that its ``forward`` names (``x``,
            ``edge_index``, ``edge_type``, ``batch`` and so on), or with ``data`` if that is the only argument.
        data: A `torch_geometric.data.Data` or `Batch`, or any object with such attributes, on the model's device.
        labels: Targets of the loss; ``data.y`` if None.
        loss: Called as ``loss(output, labels)``. If None: cross entropy for integer labels, mean squared error for
            floating-point labels of the output's shape. Output and labels are restricted to ``data.train_mask`` if
            present.
        forward: Called as ``forward(model, data)`` instead of the model, for models with other arguments.
        whole: Measures the states of all nodes as one matrix, instead of means over the graphs of ``data.batch``.
        layers: Names of the modules to measure, instead of all convolutions.

    If a model changes the number of nodes (pooling), the rows after that have no Dirichlet energies, and their states
    are measured as one matrix.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from torch_geometric.nn import GCN
        >>> data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> report = collapse(GCN(3, 8, num_layers=2), data)
        >>> [(row.name, row.shape) for row in report.rows]
        [('convs.0', (3, 8)), ('convs.1', (3, 8))]
    """
    check_model(model)
    if data is None:
        raise TypeError("`data` must be a graph with the attributes that the model needs, got None")
    if loss is None and labels is not None:
        check_type("labels", labels, Tensor, "a torch.Tensor if no `loss` is given")
    check_flag("whole", whole)
    for name, function in (("loss", loss), ("forward", forward)):
        if function is not None:
            check_function(name, function, "None or a function")
    model = getattr(model, "_orig_mod", model)  # hooks inside a compiled model would not be called
    modules = find_layers(model, layers)
    probe = _probe(data, whole)
    wants_loss = not (labels is None and loss is None and attribute(data, "y") is None)
    tracking = torch.enable_grad() if wants_loss else torch.no_grad()
    # Without this a caller in inference mode would get no gradients.
    with torch.inference_mode(False), tracking, preserved(model):
        with probe.watching(modules):
            output = call_model(model, data, forward)
        if not probe.calls:
            raise ValueError(f"`model` must call a layer that returns node states, got no call of {', '.join(modules)}")
        value, name = form_loss(output, data, labels, loss) if wants_loss else (None, "no loss: labels are missing")
        norms = _gradient_norms(value, probe.calls)
    rows = (
        LayerCollapse(number, call.name, type(call.module).__name__, **call.measures, **gradients)
        for number, (call, gradients) in enumerate(zip(probe.calls, norms, strict=True), start=1)
    )
    number, loss_value = num_graphs(probe.batch), None if value is None else value.item()
    return CollapseReport(tuple(rows), type(model).__name__, number, loss_value, name, _notices(model))


def _notices(model: Module) -> tuple[str, ...]:
    """A sentence about batch norms that are the identity until they see data, if there are any."""
    norms = [each for each in model.modules() if isinstance(each, _BatchNorm) and not each.training]
    count = sum(each.num_batches_tracked is not None and int(each.num_batches_tracked) == 0 for each in norms)
    if not count:
        return ()
    which = f"{counted(count, 'batch norm')} in evaluation mode {'has' if count == 1 else 'have'} not seen data yet"
    return (f"{which}, so that states stay as they are; train first, or measure after model.train()",)


def _probe(data: Any, whole: bool) -> Probe:
    edge_index, batch = attribute(data, "edge_index"), None if whole else attribute(data, "batch")
    usable = isinstance(edge_index, Tensor) and edge_index.dim() == 2 and edge_index.size(0) == 2
    x, num_nodes = attribute(data, "x"), attribute(data, "num_nodes")
    num_nodes = x.size(0) if num_nodes is None and isinstance(x, Tensor) else num_nodes
    return Probe(num_nodes, edge_index if usable else None, batch)


def _gradient_norms(loss: Tensor | None, calls: Sequence[Call]) -> list[Gradients]:
    """Norms for every call, by `torch.autograd.grad`, which does not write ``.grad`` of the parameters."""
    if loss is None:
        return [Gradients(output_gradient=None, parameter_gradient=None) for _ in calls]
    parameters = [[p for p in call.module.parameters() if p.requires_grad] for call in calls]
    wanted = list(dict.fromkeys([call.output for call in calls] + [p for group in parameters for p in group]))
    found = dict(zip(wanted, torch.autograd.grad(loss, wanted, allow_unused=True), strict=True))
    return [
        Gradients(output_gradient=_norm([found[call.output]]), parameter_gradient=_norm([found[p] for p in group]))
        for call, group in zip(calls, parameters, strict=True)
    ]


def _norm(gradients: Sequence[Tensor | None]) -> float | None:
    norms = [torch.linalg.vector_norm(gradient.double()) for gradient in gradients if gradient is not None]
    return torch.stack(norms).norm().item() if norms else None

"""K networks of one shape, run as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphprism.datasets import PackedDataset
from graphprism.nn.conv.relational_weight import RelationalParameter
from graphprism.ops.batched.type_rows import type_sums
from graphprism.training.build_model import build_model, make_network
from graphprism.training.lockstep.data import Inputs, TableDataset
from graphprism.training.lockstep.stacked_parameters import StackedParameters
from graphprism.training.prepared_data import readout_is_mean
from graphprism.training.run import Run


class OwnerReadout(torch.nn.Module):
    """Sum or mean over the nodes of each graph, for many runs at once under `torch.vmap`.

    It replaces PyG's readout in the networks of lockstep runs; it holds no weights. Sums are at least float32, whatever
    the layers compute in.

    Args:
        mean: Whether to divide by the number of nodes; a graph without nodes gives zeros.

    Attributes:
        num_graphs: B, the graphs of a batch; set before every call.

    Shapes: ``h`` (N, F), ``owner`` (N,) the graph of each row, -1 for none -> (B, F)

    >>> readout = OwnerReadout(mean=True)
    >>> readout.num_graphs = 2
    >>> readout(torch.tensor([[1.0], [5.0], [3.0], [9.0]]), torch.tensor([0, 1, 0, -1])).tolist()
    [[2.0], [5.0]]
    """

    num_graphs: int

    def __init__(self, mean: bool) -> None:
        super().__init__()
        self.mean = mean

    def forward(self, h: Tensor, owner: Tensor) -> Tensor:
        """One row for each graph."""
        total = type_sums(h, owner, self.num_graphs)
        if not self.mean:
            return total
        nodes = type_sums(h.new_ones(h.size(0), 1), owner, self.num_graphs)
        return total / nodes.clamp(min=1)


# Most relations: the kernel of the optimiser loads the values of all relations at one position at once.
_MOST_RELATIONS = 16
# Channels are padded to a multiple of this: otherwise matrix units are not used.
_CHANNELS = 16


class Networks:
    """The networks of runs that differ only in seed and optimiser, with their parameters stacked.

    Outputs equal those of the single networks: `torch.vmap` runs the same layers over all of them.

    Args:
        runs: The runs.
        dataset: What they train on.
        data: The same as tables.
        device: Where they run.
    """

    def __init__(self, runs: Sequence[Run], dataset: PackedDataset, data: TableDataset, device: torch.device) -> None:
        networks = [build_model(run, dataset) for run in runs]
        run = runs[0]
        self.width: int = networks[0].hidden_channels
        wide = -(-self.width // _CHANNELS) * _CHANNELS
        if run.precision == "float64":
            networks = [network.double() for network in networks]
        with torch.random.fork_rng(devices=[]):
            template = make_network(run, dataset, wide)
        held = _release(template)
        self._readout = template.readout = OwnerReadout(readout_is_mean(template))
        self._template = template.to(device, next(networks[0].parameters()).dtype)
        low = torch.bfloat16 if run.precision == "bf16" else None
        self.count: int = sum(parameter.numel() for parameter in networks[0].parameters())
        self.parameters = StackedParameters(
            networks, self._template, run.pe, device, low, summed_last=data.leaves_out_pairs, held=held
        )
        self._data = data

    def __call__(self, leaves: dict[str, Tensor], inputs: Inputs, num_graphs: int, training: bool) -> Tensor:
        """Outputs of all networks for batches of B graphs, (K, B, T); training updates running statistics."""
        self._template.train(training)
        self._readout.num_graphs = num_graphs
        in_dims = (0, 0, *(None if each is None else 0 for each in inputs.tensors()))
        batched: Any = torch.vmap(self._one, in_dims=in_dims, randomness="different")
        out: Tensor = batched(leaves, self.parameters.buffers, *inputs.tensors())
        return out

    def _one(
        self,
        parameters: dict[str, Tensor],
        buffers: dict[str, Tensor],
        x: Tensor,
        numbers: Tensor,
        weights: Tensor,
        owner: Tensor,
        is_node: Tensor | None,
        edge_attr: Tensor | None,
        pe: Tensor | None,
        edge_pe: Tensor | None,
        active: Tensor | None,
    ) -> Tensor:
        edges, walks = (None if each is None else each.flatten(0, 1) for each in (edge_attr, edge_pe))
        named = {"batch": owner, "edge_attr": edges, "pe": pe, "edge_pe": walks}
        adj = self._data.adj(numbers, weights, is_node, active)
        out: Tensor = torch.func.functional_call(self._template, (parameters, buffers), (x, adj), named)
        return out


def _release(template: torch.nn.Module) -> dict[str, tuple[Tensor, Tensor]]:
    """Calls `RelationalParameter.release` where relations are held; returns its results by the name of the weight.

    Under `torch.vmap` the sum of a common tensor and deviations would be several kernels for each layer, and as many
    in backward: 0.35 of 0.82 ms in a step of nine runs. Weights that are not a `RelationalParameter`, as in GIN, and
    diagonal deviations stay held.
    """
    return {
        f"{name}.weight": module.release()
        for name, module in template.named_modules()
        if isinstance(module, RelationalParameter)
        and module.is_held
        and module.form == "full"
        and module.num_relations <= _MOST_RELATIONS
    }

"""A training step of any network, captured in a CUDA graph and replayed for every batch."""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphprism._checks import check_function, check_number, check_positive, check_type, check_whole
from graphprism.ops import RelationalAdj
from graphprism.splitting.check_split import split_relations
from graphprism.training.lockstep.captured import recording
from graphprism.training.padded_batch import PaddedBatch, masked_batch_norms

# Steps before the capture, in which kernels are compiled and libraries allocate their workspaces.
_WARM_UP = 3
# Largest relative change of the loss by padding: the order of sums on a GPU is not fixed, so they round differently.
_ROUNDING = {torch.float64: 1e-8, torch.float32: 1e-3}
_ROUNDING_OF_HALVES = 0.05
_NO_SYNC = (
    "`loss` must not cause a host-device sync: give readouts the number of graphs (`data.num_graphs`), mask rows by "
    "`torch.where` instead of indexing by a mask, and do not call `.item()`; `capture=False` runs the step without a "
    "capture"
)

Loss = Callable[[torch.nn.Module, Data], Tensor]


class CapturedStep:
    """A training step: forward, loss, backward, clipping and optimiser, on a GPU as one CUDA graph.

    A GPU runs the kernels of a small step faster than Python launches them; a captured step is a single launch. It
    needs tensors of fixed sizes: batches are copied into buffers and padded by extra graphs, which send nothing to real
    nodes and are masked in the loss and in batch normalisation. The first call checks that the loss does not depend on
    padding in another way, and raises if it does. On a CPU the same step runs without a capture.

    The first three steps are warm-up, the fourth is captured. A later batch that does not fit into the buffers
    allocates larger ones; then, and when an option of the optimiser or ``requires_grad`` of a parameter changes, the
    step is captured again. Learning rates are float32 tensors on the device: a scheduler, or a float assigned to
    ``lr``, takes effect in the next step.

    Args:
        model: A network whose Python code does not branch on values of tensors.
        optimizer: An optimiser of its parameters; for a capture with ``capturable=True``, SGD with ``fused=True``.
        loss: Function of the model and of a graph with the tensors of the batch, ``num_graphs``, ``ptr``, ``adj``
            (their `RelationalAdj`), ``node_mask``, ``edge_mask`` and ``graph_mask``. It returns one loss per graph or
            per node, of which the mean without padding is taken, or a scalar, which must not include padding. It is
            also called outside of steps, to check the padding.
        data: The graph of all steps, for training on a single graph: it gets a prepared ``adj``, but no padding and no
            masks.
        num_relations: R; needed where ``edge_type`` has one dimension and `graphprism.SplitEdges` did not write it.
        clip: Largest norm of the gradient; `None` for no clipping.
        autocast: ``torch.bfloat16`` for mixed precision; `None` for none.
        room: Size of the buffers as a multiple of the first batch.
        sizes: Largest numbers of nodes, edges and graphs of a batch, where known: buffers for these and a ``room`` of 1
            do not depend on which batch is the first.
        capture: Whether to capture; `None` for a capture on CUDA devices.

    Example:
        >>> from torch_geometric.datasets import FakeDataset
        >>> from torch_geometric.loader import DataLoader
        >>> import graphprism as gp
        >>> graphs = FakeDataset(8, avg_num_nodes=9, avg_degree=3, num_channels=4, transform=gp.SplitEdges("degree"))
        >>> model = gp.nn.GNN("mrs-gcn", 8, 10, num_layers=2, in_channels=4, readout="mean")
        >>> optimizer = torch.optim.Adam(model.parameters(), lr=0.01, capturable=torch.cuda.is_available())
        >>> def loss(model, data):
        ...     out = model(data.x, data.adj, batch=data.batch, batch_size=data.num_graphs)
        ...     return torch.nn.functional.cross_entropy(out, data.y, reduction="none")
        >>> step = CapturedStep(model, optimizer, loss)
        >>> losses = [float(step(batch)) for _ in range(10) for batch in DataLoader(graphs, batch_size=3)]
        >>> losses[-1] < losses[0]
        True
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        loss: Loss,
        data: Data | None = None,
        *,
        num_relations: int | None = None,
        clip: float | None = None,
        autocast: torch.dtype | None = None,
        room: float = 1.25,
        sizes: tuple[int, int, int] | None = None,
        capture: bool | None = None,
    ) -> None:
        check_type("model", model, torch.nn.Module, "a torch.nn.Module")
        check_type("optimizer", optimizer, torch.optim.Optimizer, "an optimiser of torch")
        check_function("loss", loss, "a function of a model and a graph")
        if num_relations is not None:
            check_positive("num_relations", num_relations)
        if clip is not None and not check_number("clip", clip) > 0:
            raise ValueError(f"`clip` must be None or above 0, got {clip}")
        if autocast not in (None, torch.bfloat16):
            raise ValueError(f"`autocast` must be None or torch.bfloat16, which needs no loss scaling, got {autocast}")
        if not check_number("room", room) >= 1:
            raise ValueError(f"`room` must be at least 1, got {room}")
        if sizes is not None:
            check_type("sizes", sizes, tuple, "None or a tuple of three whole numbers")
            for size in sizes:
                check_whole("sizes", size)
            if len(sizes) != 3:
                raise ValueError(f"`sizes` must be the numbers of nodes, edges and graphs, got {sizes}")
        self.model, self.optimizer = model, optimizer
        self._loss, self._relations = loss, num_relations
        self._clip, self._autocast, self._room, self._sizes = clip, autocast, float(room), sizes or (0, 0, 0)
        self._parameters = [each for group in optimizer.param_groups for each in group["params"]]
        self._device = self._parameters[0].device
        self._captures = self._device.type == "cuda" if capture is None else capture
        if self._captures and self._device.type != "cuda":
            raise ValueError(f"`capture` must be None or False for a model on {self._device.type}, got True")
        self._data = None if data is None else self._whole(data)
        self._padded: PaddedBatch | None = None
        self._value = torch.zeros((), device=self._device)
        self._rates: list[Tensor] = []
        self._graph: torch.cuda.CUDAGraph | None = None
        self._key: Hashable = None
        self._warm_ups = 0
        if self._captures:
            self._stream = torch.cuda.Stream(self._device)
            self._put_rates_on_device()
            _forget_on_load(self)

    def __call__(self, batch: Data | None = None) -> Tensor:
        """Takes one step and returns its loss, on the device; without a batch if all steps share one graph."""
        if (batch is None) == (self._data is None):
            must = "given: the steps share no graph" if batch is None else "left out: the steps share the graph `data`"
            raise TypeError(f"`batch` must be {must}, got {'none' if batch is None else type(batch).__name__}")
        if batch is not None:
            self._stage(batch)
        if not self._captures:
            self._step()
            return self._value.clone()
        self._read_rates()
        key = self._options()
        if key != self._key:
            self._graph, self._key = None, key
        if self._graph is None and self._warm_ups >= _WARM_UP:
            self._capture()
        if self._graph is None:
            self._step_aside()
        else:
            self._graph.replay()
        return self._value.clone()

    def _whole(self, data: Data) -> Data:
        """The one graph of all steps on the device, with its prepared `RelationalAdj`."""
        check_type("data", data, Data, "a Data of PyG")
        data = copy.copy(data).to(self._device)
        types, weight = getattr(data, "edge_type", None), getattr(data, "edge_weight", None)
        relations, nodes = self._count_relations(data), int(data.num_nodes or 0)
        data.adj = RelationalAdj(data.edge_index, types, weight, num_relations=relations, num_nodes=nodes).prepare()
        if not hasattr(data, "num_graphs"):
            data.num_graphs = 1
        return data

    def _count_relations(self, data: Data) -> int:
        types = getattr(data, "edge_type", None)
        if types is None:
            return 1
        found = types.size(1) if types.dim() == 2 else self._relations or split_relations(data)
        if found is None:
            raise ValueError("`num_relations` must be given where SplitEdges did not write `edge_type`, got None")
        return int(found)

    def _stage(self, batch: Data) -> None:
        """Copies a batch into the buffers; allocates larger ones if it does not fit."""
        if self._padded is None or not self._padded.fits(batch):
            before, relations = self._padded, self._count_relations(batch)
            padded = PaddedBatch(batch, self._room, self._device, relations, before, self._sizes)
            padded.fill(batch)
            self._padded = padded
            self._forget()
            if before is None:
                self._check_padding(padded)
        else:
            self._padded.fill(batch)

    def _check_padding(self, padded: PaddedBatch) -> None:
        """Raises if the loss depends on the features, relations or ends of padding nodes and edges."""
        kept = [(each, each.clone()) for each in self.model.buffers()]
        found = []
        for other in (False, True):
            with torch.random.fork_rng([self._device] if self._device.type == "cuda" else []):
                found.append(self._mean_loss(padded.graph(other)).detach())
            for buffer, value in kept:
                buffer.copy_(value)
        gap, size = float((found[0] - found[1]).abs()), float(found[0].abs())
        rounding = _ROUNDING.get(found[0].dtype, _ROUNDING_OF_HALVES) if self._autocast is None else _ROUNDING_OF_HALVES
        if gap > rounding * max(size, 1e-3):
            raise ValueError(
                "`loss` must not depend on padding: a norm or readout over all rows needs `data.batch`, a scalar loss "
                "must be masked by `data.node_mask` or `data.graph_mask`; "
                f"other padding changed the loss from {found[0].item():.4g} to "
                f"{found[1].item():.4g}"
            )

    def _step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        data = self._padded.graph() if self._padded is not None else self._data
        assert data is not None  # a batch was staged, or the graph was given
        loss = self._mean_loss(data)
        loss.backward()
        if self._clip is not None:
            torch.nn.utils.clip_grad_norm_(self._parameters, self._clip)
        self.optimizer.step()
        self._value = loss.detach()

    def _mean_loss(self, data: Data) -> Tensor:
        norms = masked_batch_norms(self.model, data) if self._padded is not None else nullcontext()
        # without the autocast cache: a captured step would treat the cast weights in it as constants
        enabled = self._autocast is not None
        with norms, torch.autocast(self._device.type, self._autocast, enabled=enabled, cache_enabled=False):
            found: Tensor = self._loss(self.model, data)
        check_type("loss(model, data)", found, Tensor, "a tensor")
        if found.dim() == 0:
            return found
        found = found if found.dtype == torch.float64 else found.float()
        if self._padded is None:
            return found.mean()
        masks = {mask.size(0): mask for mask in (data.node_mask, data.graph_mask)}
        if found.dim() != 1 or found.size(0) not in masks:
            rows = f"[{data.num_graphs}] for graphs, [{data.num_nodes}] for nodes"
            raise ValueError(f"`loss` must return one number or shape {rows}, got shape {list(found.shape)}")
        mask: Tensor = masks[found.size(0)]
        return torch.where(mask, found, 0).sum() / mask.sum()

    def _put_rates_on_device(self) -> None:
        for group in self.optimizer.param_groups:
            if not (group.get("capturable") or (isinstance(self.optimizer, torch.optim.SGD) and group.get("fused"))):
                name = type(self.optimizer).__name__
                must = "fused=True" if isinstance(self.optimizer, torch.optim.SGD) else "capturable=True"
                raise ValueError(f"`optimizer` must be made with {must} for a capture, got a {name} without it")
            # fused optimisers only read rates of this type
            self._rates.append(torch.tensor(float(group["lr"]), dtype=torch.float32, device=self._device))
            group["lr"] = self._rates[-1]

    def _read_rates(self) -> None:
        """Copies rates that were assigned since the last step into the tensors that the captured step reads."""
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            if group["lr"] is not rate:
                rate.fill_(group["lr"])
                group["lr"] = rate

    def _options(self) -> Hashable:
        """Values that a capture treats as constants."""
        groups = self.optimizer.param_groups
        options = [(name, group[name]) for group in groups for name in group if name not in ("params", "lr")]
        values = tuple((name, id(value) if isinstance(value, Tensor) else value) for name, value in options)
        trained = tuple(each.requires_grad for each in self._parameters)
        return values, trained, self.model.training, self._parameters[0].data_ptr()

    def _forget(self) -> None:
        self._graph, self._warm_ups = None, 0

    def _step_aside(self) -> None:
        """A warm-up step on the stream of the capture, where gradients must be allocated."""
        self._warm_ups += 1
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream), _refusing_syncs(self._warm_ups == _WARM_UP):
            self._step()
        torch.cuda.current_stream().wait_stream(self._stream)

    def _capture(self) -> None:
        graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        # errors of this thread only: a loader may pin memory in another
        with recording(graph, self._stream, "thread_local"):
            self._step()
        self._graph = graph


def _forget_on_load(step: CapturedStep) -> None:
    """Captures anew after the optimiser has loaded a state: a captured step would not read its new tensors."""
    found = weakref.ref(step)  # a hook that held the step would keep its graph and its buffers

    def forget(_: torch.optim.Optimizer) -> None:
        if (step := found()) is not None:
            step._forget()

    step.optimizer.register_load_state_dict_post_hook(forget)


@contextmanager
def _refusing_syncs(enabled: bool) -> Iterator[None]:
    """Turns a host-device sync into an error that says what to do; a capture would raise a less clear one."""
    if not enabled:
        yield
        return
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that it may not find all of them
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    except RuntimeError as error:
        if "synchronizing" in str(error):
            raise RuntimeError(_NO_SYNC) from error
        raise
    finally:
        torch.cuda.set_sync_debug_mode(before)

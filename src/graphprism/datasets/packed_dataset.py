"""A data set as a few long tensors."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from graphprism._checks import check_choice, check_integer, check_no_nan, check_shape, check_type
from graphprism.known import KnownDataset


def row_normalise(x: Tensor, lowest: float | None = None) -> Tensor:
    r"""Divides every row by its sum: (N, F) -> (N, F), in float32 or the precision of ``x``.

    .. math:: x'_{if} = \frac{x_{if} - m}{\sum_g (x_{ig} - m)}, \qquad m = \min(0, \min_{jg} x_{jg})

    A row whose sum is zero stays zero. If there are negative entries, as in word vectors, the smallest of all entries
    is subtracted first; ``lowest`` replaces it for new data, by the smallest entry of the training features. If no sum
    lies between 0 and 1, as in all sets here, this is PyG's `NormalizeFeatures`.

    >>> import torch
    >>> row_normalise(torch.tensor([[1, 3], [0, 0]]))
    tensor([[0.2500, 0.7500],
            [0.0000, 0.0000]])
    """
    check_shape("x", x, ["N", "F"])
    check_no_nan("x", x)
    lifted = x.clone() if x.is_floating_point() else x.float()
    if lifted.numel() == 0:
        return lifted
    lifted -= lifted.min().clamp(max=0) if lowest is None else min(lowest, 0.0)
    total = lifted.sum(1, keepdim=True)
    return lifted.div_(total.masked_fill_(total == 0, 1))


def pack_ids(ids: Sequence[str]) -> Tensor | None:
    """Texts as one tensor of bytes, UTF-8 separated by zeros; None where a text holds that separator.

    >>> unpack_ids(pack_ids(["a", "b c"]))
    ['a', 'b c']
    """
    if any("\0" in text for text in ids):
        return None
    return torch.from_numpy(np.frombuffer("\0".join(ids).encode(), np.uint8).copy())


def unpack_ids(packed: Tensor) -> list[str]:
    """The texts that `pack_ids` packed."""
    return packed.numpy().tobytes().decode().split("\0")


def as_weight(weight: Tensor) -> Tensor:
    """Weights of edges in float64 if they have it, else in float32.

    >>> as_weight(torch.tensor([2, 1]))
    tensor([2., 1.])
    """
    return weight if weight.dtype == torch.float64 else weight.float()


SPLITS = ("train", "val", "test")
MASKS = ("train_mask", "val_mask", "test_mask")


@dataclass(frozen=True, eq=False, repr=False)
class PackedDataset:
    r"""Concatenated graphs in a few tensors, with targets, official folds, task and metric.

    Graph :math:`g` owns rows ``node_ptr[g]`` to ``node_ptr[g + 1]`` of ``x`` and ``edge_ptr[g]`` to ``edge_ptr[g + 1]``
    of ``edge_index[0]``; its nodes are numbered from 0. The tensors keep the small dtypes of the file; `graph` and
    `batch` convert to what a model takes: int64 for types and classes, float32 for everything else. `graph` returns
    views where the dtypes agree.

    It is indexed like a data set of PyG: a number gives a `Data`, whose masks are (N,) where there is one fold, else
    (N, S); a slice, numbers, also from the end, or a mask give the set of these graphs, as `select` does.

    Shapes, with G graphs: ``x`` (ΣN, F), ``edge_index`` (2, ΣE), ``edge_attr`` (ΣE, D), ``edge_weight`` (ΣE,),
    ``node_ptr`` and ``edge_ptr`` (G + 1,). Graph level: ``y`` (G, T), or (G,) for classes, and ``split`` (G,), 0 train,
    1 validation, 2 test. Node level: ``y`` (ΣN,) for classes, else (ΣN, T), and the masks (ΣN, S), one column per
    official fold; a node without a target is in none of them. Of several targets NaN is a missing one. Link level, one
    graph: ``pairs`` (2, P) of nodes, ``y`` (P, 1) whether there is an edge, ``split`` (P,); ``edge_index`` holds only
    training edges, and negative training pairs are sampled.

    Attributes:
        name: Name in `graphprism.datasets.load`.
        level: ``"graph"``, ``"node"`` or ``"link"``: what has a target.
        task: ``"regression"``, ``"binary"``, ``"multiclass"`` or ``"multilabel"``.
        metric: Such as ``"mae"``, ``"ap"``, ``"accuracy"``; a name of `graphprism.training.METRICS`.
        node_types: Number of types in each column of ``x``; empty where ``x`` holds features.
        edge_types: The same for ``edge_attr``.
        directed: Whether an edge may lack its reverse edge.
        num_classes: Classes of a multiclass task where the set declares them, else 0.
        note: Caveat for anyone who reports a score.
        sha256: Checksum of the file it was read from, if the file has one.
        pairs: Pairs of nodes that have a target, at link level.
        preprocessing: How columns of the user's files became these tensors, to apply it to new files, and the scale of
            the target, as plain values; None where the tensors were given and the target was not scaled.
        node_ids: Ids of the nodes in the user's tables, see `pack_ids`; None where nodes have numbers alone.
        edge_weight: Weight of each edge, which models of a run normalise on top of; None where all edges count alike.

    >>> from graphprism.datasets import molecules
    >>> dataset = molecules(30)
    >>> dataset
    PackedDataset('molecules', 30 graphs, graph regression by mae)
    >>> dataset[0]
    Data(x=[24, 1], edge_index=[2, 50], edge_attr=[50, 1], y=[1, 1])
    >>> dataset[:10]
    PackedDataset('molecules', 10 graphs, graph regression by mae)
    >>> dataset.batch(dataset.subset("val")).num_graphs
    2
    """

    name: str
    level: str
    task: str
    metric: str
    x: Tensor
    edge_index: Tensor
    y: Tensor
    node_ptr: Tensor
    edge_ptr: Tensor
    edge_attr: Tensor | None = None
    split: Tensor | None = None
    train_mask: Tensor | None = None
    val_mask: Tensor | None = None
    test_mask: Tensor | None = None
    node_types: tuple[int, ...] = ()
    edge_types: tuple[int, ...] = ()
    directed: bool = False
    note: str = ""
    sha256: str = ""
    num_classes: int = 0
    pairs: Tensor | None = None
    preprocessing: dict[str, Any] | None = None
    node_ids: Tensor | None = None
    edge_weight: Tensor | None = None

    def __len__(self) -> int:
        return self.node_ptr.numel() - 1

    def __iter__(self) -> Iterator[Data]:
        return (self[number] for number in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Data: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int]) -> PackedDataset: ...

    @overload
    def __getitem__(self, index: Tensor | np.ndarray[Any, Any]) -> Data | PackedDataset: ...

    def __getitem__(self, index: int | slice | Sequence[int] | Tensor | np.ndarray[Any, Any]) -> Data | PackedDataset:
        if isinstance(index, slice):
            return self.select(range(*index.indices(len(self))))
        if isinstance(index, Sequence | Tensor | np.ndarray) and np.ndim(index):
            return self.select(index)
        if (number := _whole(index)) is None:
            raise TypeError(f"`index` must be a whole number, a slice, whole numbers or a mask, got {index!r}")
        data = self.graph(number)
        for key in MASKS:
            if key in data and data[key].size(1) == 1:
                data[key] = data[key].view(-1)
        return data

    def __repr__(self) -> str:
        graphs = "1 graph" if len(self) == 1 else f"{len(self)} graphs"
        return f"PackedDataset({self.name!r}, {graphs}, {self.level} {self.task} by {self.metric})"

    @property
    def num_node_types(self) -> int | None:
        """Number of node types if ``x`` is a single column of types, else None."""
        return self.node_types[0] if len(self.node_types) == 1 else None

    @property
    def num_edge_types(self) -> int | None:
        """Number of edge types if ``edge_attr`` is a single column of types, else None."""
        return self.edge_types[0] if len(self.edge_types) == 1 else None

    @property
    def has_scaled_features(self) -> bool:
        """Whether any node feature is a standardised column."""
        columns = [] if self.preprocessing is None else self.preprocessing["nodes"]
        return any(column["kind"] == "number" for column in columns)

    @property
    def num_outputs(self) -> int:
        """Output channels of a model: classes of a multiclass task, else targets."""
        if self.task == "multiclass":
            return self.num_classes or int(self.y.max()) + 1
        return self.y.size(1) if self.y.dim() == 2 else 1

    def subset(self, name: str) -> Tensor:
        """Indices of the graphs, or pairs, in ``"train"``, ``"val"`` or ``"test"``, ascending."""
        check_choice("name", name, SPLITS)
        if self.split is None:
            raise ValueError(f"{self.name} is split by node: take {name}_mask of its graph")
        return (self.split == SPLITS.index(name)).nonzero().view(-1)

    def graph(self, index: int | Tensor) -> Data:
        """One graph, with masks (N, S) for any number of folds; negative indices count from the end."""
        if (number := _whole(index)) is None:
            raise TypeError(f"`index` must be a whole number, got {index!r}")
        if not -len(self) <= number < len(self):
            raise IndexError(f"`index` must be in [{-len(self)}, {len(self)}), got {number}")
        one = self.batch([number])
        return Data(**{key: value for key, value in one.to_dict().items() if key not in ("batch", "ptr")})

    def batch(self, indices: Sequence[int] | Tensor | np.ndarray[Any, Any]) -> Batch:
        """These graphs as one batch, equal to `Batch.from_data_list`, without a loop over graphs.

        Args:
            indices: Indices of graphs, where negative ones count from the end, or a boolean mask over all graphs.
        """
        chosen = self._chosen(indices)
        nodes, ptr = rows_of(self.node_ptr, chosen)
        edges, edge_ptr = rows_of(self.edge_ptr, chosen)
        owner = torch.arange(chosen.numel(), device=chosen.device)
        edge_index = self.edge_index[:, edges].long()
        shift = ptr[:-1].repeat_interleave(edge_ptr.diff(), output_size=edge_index.size(1))
        x = self._node_input(self.x[nodes])
        found = Batch(
            x=x,
            edge_index=edge_index + shift,
            y=self._target(self.y[{"graph": chosen, "node": nodes}.get(self.level, slice(None))]),
            batch=owner.repeat_interleave(ptr.diff(), output_size=x.size(0)),
            ptr=ptr,
        )
        if self.edge_attr is not None:
            found.edge_attr = _types_or_features(self.edge_attr[edges])
        if self.edge_weight is not None:
            found.edge_weight = self.edge_weight[edges].float()
        for key in MASKS:
            if (mask := getattr(self, key)) is not None:
                found[key] = mask[nodes]
        return found

    def select(self, indices: Sequence[int] | Tensor | np.ndarray[Any, Any]) -> PackedDataset:
        """A subset of the graphs, with their targets and folds, as a data set.

        Args:
            indices: As in `batch`.

        >>> from graphprism.datasets import molecules
        >>> molecules(30).select([3, -1])
        PackedDataset('molecules', 2 graphs, graph regression by mae)
        """
        if self.level == "link":
            raise ValueError(f"{self.name} must have targets of graphs or nodes to select some, got those of links")
        chosen = self._chosen(indices)
        nodes, node_ptr = rows_of(self.node_ptr, chosen)
        edges, edge_ptr = rows_of(self.edge_ptr, chosen)
        masks: dict[str, Any] = {key: mask[nodes] for key in MASKS if (mask := getattr(self, key)) is not None}
        return replace(
            self,
            x=self.x[nodes],
            edge_index=self.edge_index[:, edges],
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
            edge_weight=None if self.edge_weight is None else self.edge_weight[edges],
            y=self.y[chosen if self.level == "graph" else nodes],
            split=None if self.split is None else self.split[chosen],
            node_ptr=node_ptr,
            edge_ptr=edge_ptr,
            # Counted in all graphs: the chosen ones may lack the last class.
            num_classes=self.num_outputs if self.task == "multiclass" else self.num_classes,
            # Ids are those of a set of one graph.
            node_ids=self.node_ids if chosen.numel() == len(self) else None,
            sha256="",
            **masks,
        )

    def normalised(self) -> PackedDataset:
        """The same set with row-normalised features, see `graphprism.datasets.row_normalise`."""
        if self.node_types:
            raise ValueError(f"{self.name} has types of nodes, which cannot be normalised like features")
        return replace(self, x=row_normalise(self.x))

    def to(self, device: torch.device | str) -> PackedDataset:
        """The same set on another device, where `batch` then works without copies between devices."""
        check_type("device", device, (str, int, torch.device), "a device of torch")
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: dict[str, Any] = {key: value.to(device) for key, value in values.items() if isinstance(value, Tensor)}
        return replace(self, **moved)

    def _chosen(self, indices: Sequence[int] | Tensor | np.ndarray[Any, Any]) -> Tensor:
        """Indices of graphs, (n,), from indices, also from the end, or from a mask (G,)."""
        check_type("indices", indices, (Tensor, Sequence, np.ndarray), "numbers of graphs or a mask")
        found = torch.as_tensor(indices, device=self.node_ptr.device)
        if found.dtype == torch.bool:
            check_shape("indices", found, [len(self)])
            return found.nonzero().view(-1)
        if found.numel():  # an empty list becomes a float tensor
            check_integer("indices", found)
        chosen, count = found.long().view(-1), len(self)
        if chosen.numel():
            low, high = torch.stack(torch.aminmax(chosen)).tolist()
            if low < -count or high >= count:
                wrong = low if low < -count else high
                raise ValueError(f"`indices` must hold numbers in [{-count}, {count}), got {wrong}")
        return torch.where(chosen < 0, chosen + count, chosen)

    def _node_input(self, x: Tensor) -> Tensor:
        # Counts and bags of words of a node-level set are features although they are integers.
        return _types_or_features(x) if self.level == "graph" or self.node_types else x.float()

    def _target(self, y: Tensor) -> Tensor:
        return y.long() if self.task == "multiclass" else y.float()


def _whole(value: object) -> int | None:
    """The number that ``value`` is, also as a scalar of numpy or torch; None for booleans and all else."""
    number = value.item() if isinstance(value, Tensor | np.ndarray) and value.ndim == 0 else value
    return None if isinstance(number, bool) or not hasattr(number, "__index__") else operator.index(number)


def _types_or_features(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor.long()


def rows_of(ptr: Tensor, chosen: Tensor) -> tuple[Tensor | slice, Tensor]:
    """Concatenated rows of the chosen graphs, and the offset of each graph among them."""
    start, count = ptr[chosen], ptr[chosen + 1] - ptr[chosen]
    new_ptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
    total = int(new_ptr[-1])
    if chosen.numel() == 1:
        # Without a copy: the features of a single large graph are gigabytes.
        return slice(int(start), int(start) + total), new_ptr
    rows = torch.arange(total, device=ptr.device)
    return rows + (start - new_ptr[:-1]).repeat_interleave(count, output_size=total), new_ptr


def pack_nodes(
    name: str,
    known: KnownDataset,
    x: Tensor,
    edge_index: Tensor,
    y: Tensor,
    masks: tuple[Tensor, Tensor, Tensor],
    note: str = "",
) -> PackedDataset:
    """Packs a graph with features (N, F), edges (2, E), classes (N,) and masks (N, S) of the three folds.

    Features that are small integers are stored in one byte, a quarter of float32.
    """
    train_mask, val_mask, test_mask = (mask.bool() for mask in masks)
    return PackedDataset(
        name=name,
        level="node",
        task=known.task,
        metric=known.metric,
        x=small_whole(x),
        edge_index=edge_index,
        y=y,
        node_ptr=torch.tensor([0, x.size(0)]),
        edge_ptr=torch.tensor([0, edge_index.size(1)]),
        train_mask=train_mask,
        val_mask=val_mask,
        test_mask=test_mask,
        directed=known.directed,
        num_classes=known.num_classes,
        note=note,
    )


def small_whole(x: Tensor) -> Tensor:
    """Features that are integers in [0, 255] as uint8; others as float32."""
    if not x.is_floating_point() or x.numel() == 0:
        return x
    # In slices: a copy of all features would double the peak memory.
    whole = all(bool(torch.equal(part, part.clamp(0, 255).floor())) for part in x.split(1 << 16))
    return x.to(torch.uint8) if whole else x.float()

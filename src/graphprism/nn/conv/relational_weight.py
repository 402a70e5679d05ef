"""One weight per relation: free tensors, or a common tensor and deviations from it; sizes may be inferred later."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import Parameter, UninitializedParameter, is_lazy

from graphprism._checks import check_choice, check_positive
from graphprism.nn.conv.operands import check_in_channels, has_hooks
from graphprism.ops import relational_transform
from graphprism.ops.mix_rows import mix
from graphprism.ops.mixed_linear import Mixture

STARTS = ("shared", "independent")
DEVIATIONS = ("full", "diagonal")
# Found on Cora, CiteSeer, PubMed and ZINC12k (benchmarks/README.md, "Never worse"), the same for all of them.
DECAY = 1000.0
# With more relations than this cumulative sums are used: a matrix of R x R would be larger than the weights.
_MATRIX = 64


def check_start(start: str, decay: float, deviation: str = "full") -> None:
    """Raises unless ``start``, ``decay`` and ``deviation`` are valid values that can be combined."""
    check_choice("start", start, STARTS)
    check_choice("deviation", deviation, DEVIATIONS)
    if deviation != "full" and start != "shared":
        raise ValueError(f'`deviation` must be "full" with start="independent", got {deviation!r}')
    if isinstance(decay, bool) or not isinstance(decay, int | float):
        raise TypeError(f"`decay` must be a number, got {decay!r}")
    if not decay >= 0:
        raise ValueError(f"`decay` must be at least 0, got {decay}")


def contrasts(num_relations: int) -> Tensor:
    """Orthonormal columns that sum to zero: a basis of the differences of R relations, (R, R - 1) in float64.

    >>> contrasts(3).sum(dim=0).abs().max() < 1e-15
    tensor(True)
    """
    return _whole_contrasts(num_relations) / _norms(num_relations)


def _whole_contrasts(num_relations: int) -> Tensor:
    """The same in whole numbers: column k compares the k relations before the k-th with it."""
    columns = torch.zeros(num_relations, num_relations - 1, dtype=torch.float64)
    for k in range(1, num_relations):
        columns[:k, k - 1], columns[k, k - 1] = 1, -k
    return columns


def deviation_size(shape: tuple[int, ...], num_relations: int, deviation: str, dim: int = -1) -> tuple[int, ...]:
    """Shape of the deviations of R tensors: a number for each entry, or for each channel of a matrix.

    >>> deviation_size((8, 4), 3, "full"), deviation_size((8, 4), 3, "diagonal"), deviation_size((4,), 3, "diagonal")
    ((2, 8, 4), (2, 4), (2, 4))
    """
    is_diagonal = deviation == "diagonal" and len(shape) == 2
    return num_relations - 1, *((shape[dim],) if is_diagonal else shape)


def _norms(num_relations: int) -> Tensor:
    k = torch.arange(1, num_relations, dtype=torch.float64)
    return (k * (k + 1)).sqrt()


class Together(torch.nn.Module):
    """Computes a tensor for each relation from a common tensor and deviations.

    Args:
        num_relations: R.
        decay: how strongly relations are tied to the common tensor; see `RelationalParameter`.

    Attributes:
        decay: part of the state, since it scales the stored deviations.

    Shapes: ``common`` (...), ``deviation`` (R - 1, ...) -> (R, ...); a deviation (R - 1, F) of a matrix scales the F
    channels in dimension ``dim`` of it, by one plus the deviation
    """

    columns: Tensor
    adjoint: Tensor | None
    decay: Tensor

    def __init__(self, num_relations: int, decay: float) -> None:
        super().__init__()
        self.num_relations, self.scale, self._decay = num_relations, 1 / math.sqrt(1 + decay), decay
        self.register_buffer("columns", self._columns(torch.empty(0)), persistent=False)
        self.register_buffer("adjoint", self._adjoint(), persistent=False)
        self.register_buffer("decay", torch.tensor(decay, dtype=torch.float32))

    def forward(self, common: Tensor, deviation: Tensor, dim: int = -1) -> Tensor:
        """The common tensor plus each relation's deviation."""
        columns = self.columns.to(deviation.dtype)
        is_long = self.num_relations > _MATRIX
        if deviation.dim() == common.dim():
            # no product of matrices: small next to one, deviations would be rounded away in TF32 or under autocast
            spread = _spread(deviation, columns) if is_long else (columns[:, :, None] * deviation).sum(dim=1)
            return common * (1 + spread).unsqueeze(1 if dim == -1 else -1)
        return common + _spread(deviation, columns) if is_long else mix(common, deviation, columns)

    def mixture(self, common: Tensor, deviation: Tensor) -> Mixture | None:
        """The summands of matrices, for a layer that fuses their sum; `None` if it must call this module."""
        buffers: dict[str, Any] = self._buffers  # read where they lie, as in `RelationalParameter.mixture`
        columns, adjoint = buffers["columns"], buffers["adjoint"]
        is_full = common.dim() == 2 and deviation.dim() == 3
        if adjoint is None or not is_full or columns.dtype != common.dtype or has_hooks(self):
            return None
        return Mixture(common, deviation, columns, adjoint, self._decay)

    def apart(self, tensors: Tensor, deviation: str = "full") -> tuple[Tensor, Tensor]:
        """The ``common`` and the ``deviation`` that give ``tensors``, (R, ...)."""
        # from the first one, so that equal tensors are their own mean without rounding
        common = tensors[0] + (tensors - tensors[0]).mean(dim=0)
        wide = (tensors - common).double()
        if self.scale == 0 and not wide.is_meta and wide.abs().max() > 0:
            raise ValueError("relations must be equal where `decay` is infinite, got different ones")
        if deviation == "diagonal" and common.dim() == 2:
            wide = _channel_scales(common.double(), wide)
        # rows before the k-th minus k times the k-th: the transpose of the contrasts, without their matrix
        k = torch.arange(1, self.num_relations, dtype=torch.float64, device=wide.device)
        k = k.view(-1, *[1] * (wide.dim() - 1))
        contrast = (wide.cumsum(dim=0)[:-1] - k * wide[1:]) / (k * (k + 1)).sqrt() / (self.scale or 1.0)
        return common, contrast.to(tensors)

    def adopt(self, state: dict[str, Any], prefix: str, deviations: list[str]) -> None:
        """Converts a saved state to this decay: rescales the tensors named ``deviations`` to give the same weights.

        States without a decay, written before 0.2, are assumed to have this one.
        """
        saved = state.get(f"{prefix}decay")
        values = next((state[key] for key in deviations if key in state and not is_lazy(state[key])), None)
        if self.columns.is_meta and values is not None and not values.is_meta:  # as `load_state_dict(assign=True)` does
            self._fill(values)
        state[f"{prefix}decay"] = self._own_decay(self.columns.device)
        if saved is None or saved.is_meta or float(saved) == float(self._own_decay("cpu")):
            return
        for key in deviations:
            values = state.get(key)
            if values is None or is_lazy(values):
                continue
            there = values.double() / math.sqrt(1 + float(saved))
            if self.scale == 0 and bool(there.any()):
                raise ValueError(f"`{key}` must be zero where `decay` is infinite, got relations that differ")
            state[key] = (there / (self.scale or 1.0)).to(values)

    def _columns(self, like: Tensor) -> Tensor:
        if self.num_relations > _MATRIX:
            k = torch.arange(1, self.num_relations, dtype=torch.float64)
            return (self.scale / (k * (k + 1)).sqrt()).to(like.device, like.dtype)
        return (contrasts(self.num_relations) * self.scale).to(like.device, like.dtype)

    def _adjoint(self) -> Tensor | None:
        """From the gradient of the tensors to those of the common one and of the deviations."""
        if self.num_relations > _MATRIX:
            return None
        return torch.cat([self.columns.new_ones(1, self.num_relations), self.columns.t()])

    def _own_decay(self, device: torch.device | str) -> Tensor:
        return torch.tensor(self._decay, dtype=torch.float32, device=device)

    def _fill(self, like: Tensor) -> None:
        """Computes the buffers in the type and on the device of ``like``."""
        self.columns = self._columns(like)
        self.adjoint = self._adjoint()
        self.decay = self._own_decay(like.device)

    def _apply(self, fn: Any, recurse: bool = True) -> Together:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._fill(self.columns)  # recomputed: the previous type may have had a lower precision
        return self


def _channel_scales(common: Tensor, differences: Tensor) -> Tensor:
    """What the columns of ``common`` are multiplied by to give ``differences``: (F, F'), (R, F, F') -> (R, F')."""
    scales = (common * differences).sum(dim=1) / common.square().sum(dim=0).clamp(min=1e-300)
    rest = (differences - common * scales.unsqueeze(1)).abs().max()
    if not rest.is_meta and rest > 1e-5 * max(float(common.abs().max()), float(differences.abs().max())):
        raise ValueError(
            'relations must differ by one factor for each output channel with deviation="diagonal", got others'
        )
    return scales


def _spread(deviation: Tensor, lengths: Tensor) -> Tensor:
    """Contrasts times ``deviation`` without their matrix: row r is the sum of all k > r minus r times the r-th."""
    scaled = deviation * lengths.view(-1, *[1] * (deviation.dim() - 1))
    zero = scaled.new_zeros(1, *scaled.shape[1:])
    after = torch.cat([scaled.flip(0).cumsum(dim=0).flip(0), zero])
    r = torch.arange(deviation.size(0) + 1, device=deviation.device, dtype=deviation.dtype)
    return after - r.view(-1, *[1] * (deviation.dim() - 1)) * torch.cat([zero, scaled])


class RelationalParameter(torch.nn.Module):
    r"""A tensor for each relation, :math:`\mathbf{W}_1, \dots, \mathbf{W}_R`.

    With ``start="shared"`` all relations start equal and are tied to a common tensor: their deviations from it are
    damped. Such relations are called *held*:

    .. math:: \mathbf{W}_r = \mathbf{W} + \frac{1}{\sqrt{1 + \lambda}} \sum_{k=1}^{R-1} h_{rk} \mathbf{D}_k, \qquad
        \mathbf{D}_k = 0 \text{ at first}

    where :math:`\lambda` is ``decay`` and the :math:`h_{rk}` are orthonormal and sum to zero over the relations: as
    many numbers as R free tensors. :math:`\mathbf{W}` gets the gradient, the steps and the weight decay of the plain
    layer. A deviation moves :math:`1 + \lambda` times less under gradient descent, :math:`\sqrt{1 + \lambda}` times
    less under Adam, and a weight decay of the optimiser pulls :math:`1 + \lambda` times harder on it; without one,
    training that ends early does the same. It is a change of variables, not a term in the loss or in the gradient: it
    means the same with any optimiser, loss scaling, accumulation or clipping, and a long training on much data moves
    the relations as far apart as it needs. ``decay=0`` does not damp: R free tensors that start equal. With an infinite
    one the layer stays the plain one.

    With ``deviation="diagonal"`` a deviation of a matrix is one factor for each of its output channels:

    .. math:: \mathbf{W}_r = \mathbf{W} \operatorname{diag} \Big( \mathbf{1} + \frac{1}{\sqrt{1 + \lambda}}
        \sum_{k=1}^{R-1} h_{rk} \mathbf{d}_k \Big), \qquad \mathbf{d}_k = 0 \text{ at first}

    which costs :math:`(R - 1) F'` numbers where R matrices :math:`F \times F'` cost :math:`(R - 1) F F'`: a network of
    nearly the width of the plain one for the same number of parameters. Vectors deviate in full. The certificate holds
    for it. Let all nodes send multiples of one row :math:`\mathbf{x}`, and let :math:`\mathbf{u} = \mathbf{W}^\top
    \mathbf{x}`, :math:`\mathbf{A}` be the in-degrees (N, R) and :math:`\mathbf{S}` the factors (R, F'): the output
    is :math:`\mathbf{A} \mathbf{S} \operatorname{diag}(\mathbf{u})`. For almost all weights no entry of
    :math:`\mathbf{u}` is zero and each min(R, F') rows of :math:`\mathbf{S}` are independent (the mean of the rows is
    one, the rest of them is free), so that the output has the rank min(rank A, F'), that of free matrices. One factor
    for each *input* channel would not do: an :math:`\mathbf{x}` with a single entry that is not zero, as one-hot
    features have it, gets parallel rows from all relations. What is lost is freedom: all relations read the
    input along the same F' directions.

    With ``start="independent"`` the relations are R free tensors that are drawn independently, as in the paper.

    Args:
        shape: of one relation's tensor, a vector or a matrix; `None` for a matrix while its shape is not known.
        num_relations: R.
        start: ``"shared"`` or ``"independent"``.
        decay: :math:`\lambda`, how strongly relations are tied to the common tensor.
        deviation: ``"full"`` or ``"diagonal"``.

    Attributes:
        weight: (R, ...) where the relations are free.
        is_waiting: whether the shape is still unknown.
        common: :math:`\mathbf{W}`, where they are held.
        deviation: (R - 1, ...) :math:`\mathbf{D}`, where they are held; (R - 1, F') where these are diagonal.
    """

    weight: Tensor
    common: Tensor
    deviation: Tensor

    def __init__(
        self, shape: tuple[int, ...] | None, num_relations: int, start: str, decay: float, deviation: str = "full"
    ) -> None:
        super().__init__()
        check_positive("num_relations", num_relations)
        check_start(start, decay, deviation)
        self.num_relations, self.start, self.decay = num_relations, start, float(decay)
        self.is_waiting = shape is None
        self.takes_matrices = shape is None or len(shape) == 2
        self.form = deviation if self.takes_matrices else "full"
        self.is_held = start == "shared" and (decay > 0 or self.form == "diagonal") and num_relations > 1
        for name, size in self._sizes(shape or (0, 0)).items():
            parameter: Any = UninitializedParameter() if shape is None else Parameter(torch.empty(size))
            self.register_parameter(name, parameter)
        self.together = Together(num_relations, decay) if self.is_held else None
        self._register_load_state_dict_pre_hook(self._before_load)  # type: ignore[no-untyped-call]

    def _sizes(self, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        if self.is_held:
            return {"common": shape, "deviation": deviation_size(shape, self.num_relations, self.form)}
        return {"weight": (self.num_relations, *shape)}

    def materialize(self, shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> None:
        """Gives the parameters their shape; their values are not set."""
        for name, size in self._sizes(shape).items():
            parameter = getattr(self, name)
            if isinstance(parameter, UninitializedParameter):
                parameter.materialize(size, device, dtype)
        if self.together is not None:
            self.together.to(device, dtype)
        self.is_waiting = False

    def draw(self, bound: float) -> None:
        """Uniform values in [-bound, bound]; a shared start takes those of a single relation."""
        if self.is_held:
            torch.nn.init.uniform_(self.common, -bound, bound)
            torch.nn.init.zeros_(self.deviation)
            return
        torch.nn.init.uniform_(self.weight, -bound, bound)
        if self.start == "shared":
            with torch.no_grad():
                self.weight.copy_(self.weight[:1].expand_as(self.weight).clone())

    def set_(self, tensors: Tensor) -> None:
        """Sets a tensor for each relation, (R, ...), or one for all of them, (...)."""
        with torch.no_grad():
            for name, value in self._parts(tensors).items():
                getattr(self, name).copy_(value)

    def release(self) -> tuple[Tensor, Tensor]:
        """Replaces held relations by free ones, whose values are not set.

        Returns a matrix (R, R) of integers and lengths (R,), in float64. With the common tensor and the deviations as R
        rows, the tensors of the relations are ``matrix @ (lengths * rows)``.
        """
        if self.together is None or self.is_waiting or self.form == "diagonal":
            waits = "some that wait for an input" if self.is_waiting else "diagonal ones"
            came = "free ones" if self.together is None else waits
            raise ValueError(f"relations must be held and have a known size to be released, got {came}")
        free, one = self.common.new_empty(self.num_relations, *self.common.shape), torch.ones(1, dtype=torch.float64)
        columns, lengths = _whole_contrasts(self.num_relations), self.together.scale / _norms(self.num_relations)
        del self.common, self.deviation
        self.weight = Parameter(free)
        self.together, self.is_held = None, False
        return torch.cat([one.expand(self.num_relations, 1), columns], dim=1), torch.cat([one, lengths])

    def forward(self) -> Tensor:
        """The tensor of each relation, (R, ...)."""
        return self.weight if self.together is None else self.together(self.common, self.deviation)

    def mixture(self) -> Mixture | None:
        """The summands of the matrices, for a layer that fuses their sum; `None` if it must call this module."""
        if not self.is_held or self.is_waiting or has_hooks(self):
            return None
        # read where they lie, unless pruned or parametrised: `Module.__getattr__` takes a microsecond for each
        own: dict[str, Any] = self._parameters
        common, deviation = own.get("common"), own.get("deviation")
        if common is None or deviation is None:
            common, deviation = self.common, self.deviation
        together: Any = self._modules["together"]
        found: Mixture | None = together.mixture(common, deviation)
        return found

    def _parts(self, tensors: Tensor) -> dict[str, Tensor]:
        """Values of the own parameters that give ``tensors``."""
        shape = self.common.shape if self.is_held else self.weight.shape[1:]
        tensors = tensors.expand(self.num_relations, *shape)
        if self.together is None:
            return {"weight": tensors}
        common, deviation = self.together.apart(tensors, self.form)
        return {"common": common, "deviation": deviation}

    def _before_load(self, state: dict[str, Any], prefix: str, *more: Any) -> None:
        """Converts a saved state of another start, decay or form, or the one matrix of PyG's linear map."""
        weight, common = state.get(f"{prefix}weight"), state.get(f"{prefix}common")
        saved = weight if common is None else common
        if saved is None or is_lazy(saved):
            self._adopt(state, prefix)
            return
        if common is None and saved.dim() == 2 and self.takes_matrices:
            saved = saved.t()  # PyG stores (F_out, F_in)
        is_stack = common is None and saved.dim() > 1 + self.takes_matrices
        if self.is_waiting:
            self._materialize_like(saved, is_stack)
        deviation = state.get(f"{prefix}deviation")
        relations = len(saved) if is_stack else self.num_relations if deviation is None else len(deviation) + 1
        if relations != self.num_relations:
            more[-1].append(f"`{prefix[:-1]}` must hold {self.num_relations} relations, got {relations}")
            self._adopt(state, prefix)
            return
        is_own = common is None or deviation is None or deviation.dim() == getattr(self, "deviation", saved).dim()
        if is_own and (self.is_held if common is not None else is_stack and not self.is_held):
            self._adopt(state, prefix)
            return
        decay = state.pop(f"{prefix}together.decay", None)
        if common is not None and deviation is not None:  # held there in another form, or free here
            together = Together(relations, self.decay if decay is None else float(decay)).to(saved)
            saved = together(saved, state.pop(f"{prefix}deviation"))
        state.pop(f"{prefix}{'weight' if common is None else 'common'}")
        try:
            state.update({f"{prefix}{name}": value for name, value in self._parts(saved).items()})
        except ValueError as error:
            more[-1].append(f"`{prefix[:-1]}`: {error}")
        self._adopt(state, prefix)

    def _adopt(self, state: dict[str, Any], prefix: str) -> None:
        if self.together is not None:
            self.together.adopt(state, f"{prefix}together.", [f"{prefix}deviation"])

    def _materialize_like(self, saved: Tensor, is_stack: bool) -> None:
        self.materialize(tuple(saved.shape[1:] if is_stack else saved.shape), saved.device, saved.dtype)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars or self.is_waiting)


class RelationalWeight(RelationalParameter):
    r"""A matrix for each relation, :math:`\mathbf{W}_1, \dots, \mathbf{W}_R`; a call gives them, (R, F_in, F_out).

    Args:
        in_channels: size of an input row; ``-1`` takes it from the first input.
        out_channels: size of an output row.
        num_relations: R.
        init: ``"glorot"`` or ``"kaiming_uniform"``, for each relation as for a layer of its own.
        start: ``"shared"`` or ``"independent"``; see `RelationalParameter`.
        decay: how strongly a shared start ties the relations to the common matrix.
        deviation: form of the deviations: a ``"full"`` matrix, or a ``"diagonal"`` factor of the output channels.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_relations: int,
        init: str = "glorot",
        start: str = "shared",
        decay: float = DECAY,
        deviation: str = "full",
    ) -> None:
        check_positive("out_channels", out_channels)
        check_in_channels(in_channels)
        check_choice("init", init, ("glorot", "kaiming_uniform"))
        shape = None if in_channels == -1 else (in_channels, out_channels)
        super().__init__(shape, num_relations, start, decay, deviation)
        self.in_channels, self.out_channels, self.init = in_channels, out_channels, init
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        if self.is_waiting:
            return
        fan_in, fan_out = self.in_channels, self.out_channels
        self.draw(math.sqrt(6 / (fan_in + fan_out)) if self.init == "glorot" else math.sqrt(1 / fan_in))

    def forward(self, x: Tensor | None = None) -> Tensor:
        """The matrices; their size is taken from ``x`` if it is not known yet."""
        if x is not None and self.is_waiting:
            self.in_channels = x.size(-1)
            self.materialize((self.in_channels, self.out_channels), x.device, x.dtype)
            self.reset_parameters()
        return super().forward()

    def transform(self, x: Tensor) -> Tensor:
        """What every node would send in every relation: (N, F_in) -> (N, R, F_out)."""
        return relational_transform(x, self(x))

    def _materialize_like(self, saved: Tensor, is_stack: bool) -> None:
        super()._materialize_like(saved, is_stack)
        self.in_channels = saved.size(-2)

    def extra_repr(self) -> str:
        """Sizes for ``print``."""
        return f"{self.in_channels}, {self.out_channels}, num_relations={self.num_relations}, start={self.start!r}"

"""Adam and Muon on float32 (or float64) weights, even if the model computes in lower precision."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim.adamw import adamw

from crosshead.attention.relative import ShawKeys, ShawValues, T5Buckets, TransformerXLScore
from crosshead.attention.scores import Cosine
from crosshead.errors import ConfigError
from crosshead.layers.embeddings import Embeddings, LearnedPositions
from crosshead.models.base import Model
from crosshead.recipe.train import TrainConfig
from crosshead.training.distributed import full_tensor, gather, shard_like

_SCALING, _AVERAGE = "loss_scale", "average"

FIRST_SCALE, GROWTH = 2.0**13, 1000
"""The first loss scale in float16, and the number of finite updates until it doubles."""

WITHOUT_DECAY = (
    Embeddings, nn.Embedding, LearnedPositions, T5Buckets, ShawKeys, ShawValues, TransformerXLScore,
    Cosine,
)  # fmt: skip
"""Modules none of whose parameters decay: embeddings, positions, and the scale of `cosine`."""


class Adam:
    """Adam with decoupled weight decay, and the state of each tensor.

    It is `torch.optim.AdamW(..., fused=True)`, number for number. That class imports PyTorch's
    compiler, which would take most of the time before the first update. The function does not.

    Reference:
        Kingma & Ba 2015, Algorithm 1; Loshchilov & Hutter 2019, Algorithm 2.
    """

    def __init__(
        self,
        groups: Sequence[tuple[Sequence[Tensor], float]],
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        self.groups = [(list(tensors), decay) for tensors, decay in groups if tensors]
        self.betas, self.eps = betas, eps
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Change the weights by their gradients."""
        for group, decay in self.groups:
            tensors = [each for each in group if each.grad is not None]
            states = [self._state_of(each) for each in tensors]
            adamw(
                tensors,
                [each.grad for each in tensors if each.grad is not None],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [state["step"] for state in states],
                fused=True,
                amsgrad=False,
                beta1=self.betas[0],
                beta2=self.betas[1],
                lr=learning_rate,
                weight_decay=decay,
                eps=self.eps,
                maximize=False,
            )

    def first_state(self, weights: Tensor) -> dict[str, Tensor]:
        """Return a new state of a tensor, zeros: the number of updates and both moments."""
        moments = {name: torch.zeros_like(weights) for name in ("exp_avg", "exp_avg_sq")}
        return {"step": torch.zeros((), device=weights.device), **moments}

    def _state_of(self, weights: Tensor) -> dict[str, Tensor]:
        if not self.state.get(weights):
            self.state[weights] = self.first_state(weights)
        return self.state[weights]


MOMENTUM, STEPS, RATE = 0.95, 5, 0.4
"""Muon's momentum, its steps of Newton and Schulz, and its rate beside Adam's: RATE times the root
of the longer side of a matrix. With 0.2 the weights change as much as with Adam (Liu et al. 2025).
What 0.4 gains is measured (docs/results.md)."""


class Muon(Adam):
    """Muon for some matrices: momentum whose singular values are set to about 1; Adam for the rest.

    Each matrix is changed by the learning rate times `RATE` times the root of its longer side. The
    matrices of one shape are computed together. The first group of tensors has the matrices, and
    `dtype` is the type of their products; float16 would overflow and becomes float32.

    Reference:
        Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks";
        Liu et al. 2025, "Muon is Scalable for LLM Training", section 2.2.
    """

    def __init__(
        self,
        groups: Sequence[tuple[Sequence[Tensor], float]],
        betas: tuple[float, float],
        eps: float,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(groups[1:], betas, eps)
        self.matrices, self.decay = groups[0]
        self.dtype = torch.float32 if dtype == torch.float16 else dtype

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Change the weights by their gradients."""
        super().step(learning_rate)
        alike: dict[torch.Size, list[Tensor]] = {}
        for each in self.matrices:
            alike.setdefault(each.shape, []).append(each)
        for matrices in alike.values():
            ahead = torch.stack([self._ahead(each).to(self.dtype) for each in matrices])
            rate = learning_rate * RATE * max(ahead.shape[1:]) ** 0.5
            for each, change in zip(matrices, orthogonal(ahead), strict=True):
                each.mul_(1 - learning_rate * self.decay)
                each.sub_(shard_like(each, rate * change.to(each.dtype)))

    def first_state(self, weights: Tensor) -> dict[str, Tensor]:
        """Return a new state of a tensor; a matrix has its momentum in place of both moments."""
        state = super().first_state(weights)
        if not any(weights is each for each in self.matrices):
            return state
        return {"step": state["step"], "momentum": state["exp_avg"]}

    def _ahead(self, weights: Tensor) -> Tensor:
        """Move the momentum of a matrix, and return that of Nesterov, which is a step ahead."""
        assert weights.grad is not None
        state = self._state_of(weights)
        state["step"] += 1
        momentum = state["momentum"].lerp_(weights.grad, 1 - MOMENTUM)
        return full_tensor(weights.grad.lerp(momentum, MOMENTUM))


def orthogonal(matrices: Tensor) -> Tensor:
    """Return matrices, "N R C", with the same singular vectors and singular values of about 1.

    The values are from about 0.7 to 1.2; those that are far below the norm stay smaller.

    Reference:
        Jordan et al. 2024 (five steps of Newton and Schulz with a polynomial of degree 5).
    """
    is_tall = matrices.size(1) > matrices.size(2)
    x = (matrices.mT if is_tall else matrices).contiguous()
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(STEPS):
        square = x @ x.mT
        square = torch.baddbmm(square, square, square, beta=-4.775, alpha=2.0315)
        x = torch.baddbmm(x, square, x, beta=3.4445)
    return x.mT if is_tall else x


class Optimizer:
    """Adam, or Muon, with float32 master weights, decoupled weight decay and loss scaling.

    For a model in bfloat16 the optimiser keeps float32 master weights, because an update is often
    too small to add to a bfloat16 weight. A model in float32 or float64 is its own master.

    In float16 the smallest gradients would become zero. The optimiser therefore multiplies losses
    by `scale` and divides gradients by it. The scale is halved if gradients overflow, and doubled
    after `GROWTH` updates in a row without overflow.

    Weight decay is decoupled from the gradient. It is in the unit of PyTorch's AdamW: each update
    first multiplies the parameters of `decaying` by 1 - learning rate * `weight_decay`.

    With a decay `ema` above 0, `averages` is a moving average of the masters: after n updates, the
    weights of update k count in proportion to ema^(n - k). So the average begins with the weights
    of the first update, and the initial weights do not count.

    Reference:
        Kingma & Ba 2015, Algorithm 1 and section 3 (also the correction of a moving average);
        Polyak & Juditsky 1992 (averages of weights); Loshchilov & Hutter 2019, "Decoupled Weight
        Decay Regularization", Algorithm 2; Vaswani et al. 2017, section 5.3 (betas 0.9 and 0.98,
        eps 1e-9); Micikevicius et al. 2018, section 3.2 (loss scaling).
    """

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        self.parameters = dict(model.named_parameters())
        self.masters: dict[str, Tensor] = {
            name: _master(parameter) for name, parameter in self.parameters.items()
        }
        self.clip_norm, self.ema = config.clip_norm, config.ema
        self.averages = self._copies() if config.ema else {}
        narrow = any(parameter.dtype == torch.float16 for parameter in self.parameters.values())
        self.scale = FIRST_SCALE if narrow else 1.0
        self._finite_in_a_row = 0
        matrices = decaying(model)
        by_muon = inner_matrices(model) if config.optimizer == "muon" else []
        if config.optimizer == "muon" and not by_muon:
            raise ConfigError("train.optimizer: muon is for models with linear maps in layers")
        rest = [name for name in self.masters if name not in matrices]
        parts = (
            (by_muon, config.weight_decay),
            ([name for name in matrices if name not in by_muon], config.weight_decay),
            (rest, 0.0),
        )
        groups = [([self.masters[name] for name in names], decay) for names, decay in parts]
        betas = config.adam_beta1, config.adam_beta2
        self.adam = Adam(groups, betas, config.adam_eps)
        if by_muon:
            self.adam = Muon(groups, betas, config.adam_eps, self.parameters[by_muon[0]].dtype)

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss to the gradients accumulated so far."""
        (loss if self.scale == 1.0 else loss * self.scale).backward()

    def drop_gradients(self) -> None:
        """Set all gradients to None."""
        for tensor in (*self.parameters.values(), *self.masters.values()):
            tensor.grad = None

    def step(self, learning_rate: float, replicas: Sequence[nn.Module] = ()) -> float | None:
        """Apply the gradients, unless they are not finite, and drop them."""
        others = [dict(replica.named_parameters()) for replica in replicas]
        for (name, master), gradient in zip(
            self.masters.items(), self._wide_gradients(), strict=True
        ):
            for other in others:
                further, other[name].grad = other[name].grad, None
                if further is not None:  # a batch may have too few pairs for all replicas
                    gradient.add_(further)
            master.grad = gradient if self.scale == 1.0 else gradient / self.scale
        gradients = [master.grad for master in self.masters.values() if master.grad is not None]
        total = full_tensor(get_total_norm(gradients))
        norm = float(total)
        finite = norm < float("inf")  # also false for NaN
        if finite:
            if self.clip_norm and norm > self.clip_norm:
                clip_grads_with_norm_(self.masters.values(), self.clip_norm, total)
            self.adam.step(learning_rate)
            self._copy_to_model()
            self._move_averages()
        self.drop_gradients()
        if self.scale != 1.0:
            self._rescale(finite)
        return norm if finite else None

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(iter(self.masters.values())).device

    def size(self) -> int:
        """Return the number of weights; a tied matrix counts once."""
        return sum(master.numel() for master in self.masters.values())

    def weights(self) -> dict[str, Tensor]:
        """Return the master weights by name, usually float32; they share the optimiser's memory.

        In sharded training all processes must call this, and only the main process gets the
        weights: see `gathered`.
        """
        return gather({name: master.detach() for name, master in self.masters.items()})

    def weights_to_validate(self) -> dict[str, Tensor]:
        """Return the moving average of the weights if there is one, else `weights`.

        In sharded training it is gathered in the same way as `weights`.
        """
        return gather(self.averages) if self.averages else self.weights()

    def set_weights(self, weights: dict[str, Tensor]) -> None:
        """Replace the weights of masters, model and moving average by the given weights."""
        with torch.no_grad():
            for name, master in self.masters.items():
                master.copy_(shard_like(master, weights[name]))
        self._copy_to_model()
        self.averages = self._copies() if self.ema else {}

    def state(self) -> dict[str, Tensor]:
        """Return the moments and step counts, the moving average, and the loss scale.

        They are named like `NAME.exp_avg` or `NAME.momentum`, and the average of a weight
        `NAME.average`. In sharded training they are gathered in the same way as `weights`.
        """
        moments = {
            f"{name}.{key}": value
            for name, master in self.masters.items()
            for key, value in self.adam.state.get(master, {}).items()
        }
        return {**gather({**moments, **self.averages_by_key()}), **self.scaling()}

    def contents(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return weights and state; all processes call this, so that all gather in one order."""
        return self.weights(), self.state()

    def scaling(self) -> dict[str, Tensor]:
        """Return the loss scale and its counter in float16; empty in other precisions."""
        if self.scale == 1.0:
            return {}
        return {_SCALING: torch.tensor([self.scale, float(self._finite_in_a_row)])}

    def averages_by_key(self) -> dict[str, Tensor]:
        """Return the moving average by its names in `state`; empty without one."""
        return {f"{name}.{_AVERAGE}": each for name, each in self.averages.items()}

    def set_state(self, state: dict[str, Tensor]) -> None:
        """Restore the state that `state` returned."""
        if _SCALING in state:
            self.scale, self._finite_in_a_row = float(state[_SCALING][0]), int(state[_SCALING][1])
        for name, master in self.masters.items():
            prefix = f"{name}."
            found = {
                key.removeprefix(prefix): shard_like(master, value).to(master.device, copy=True)
                for key, value in state.items()
                if key.startswith(prefix) and "." not in key.removeprefix(prefix)
            }
            if self.ema:
                self.averages[name] = found.pop(_AVERAGE)
            self.adam.state[master] = found

    def _copies(self) -> dict[str, Tensor]:
        return {name: master.detach().clone() for name, master in self.masters.items()}

    def _move_averages(self) -> None:
        """Move the averages towards the masters, after an update that was applied."""
        if not self.averages:
            return
        some = next(iter(self.masters.values()))
        updates = int(self.adam.state[some]["step"])
        share = (1 - self.ema) / (1 - self.ema**updates)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.averages.values()), list(self.masters.values()), share)

    def _rescale(self, finite: bool) -> None:
        self._finite_in_a_row = self._finite_in_a_row + 1 if finite else 0
        if not finite:
            self.scale = max(2.0, self.scale / 2)
        elif self._finite_in_a_row == GROWTH:
            self.scale, self._finite_in_a_row = self.scale * 2, 0

    def _wide_gradients(self) -> list[Tensor]:
        """Return the gradients of the model, in the types of the masters."""
        for name, parameter in self.parameters.items():
            assert parameter.grad is not None, f"{name} has no gradient"
        found = [each.grad for each in self.parameters.values() if each.grad is not None]
        return _converted(found, list(self.masters.values()))

    def _copy_to_model(self) -> None:
        names = [
            name
            for name, parameter in self.parameters.items()
            if parameter is not self.masters[name]
        ]
        if names:
            with torch.no_grad():
                torch._foreach_copy_(
                    [self.parameters[name] for name in names],
                    [self.masters[name] for name in names],
                )


def averages_in(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the moving averages in an optimiser's state, by the names of the weights."""
    ending = f".{_AVERAGE}"
    return {
        name.removesuffix(ending): each for name, each in state.items() if name.endswith(ending)
    }


def decaying(model: nn.Module) -> list[str]:
    """Return the names of the parameters that weight decay applies to: matrices and kernels.

    They are the parameters of two or more axes, except those of `WITHOUT_DECAY`. An embedding that
    is also the output projection does not decay. Biases and gains of norms have one axis.
    """
    kept = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, WITHOUT_DECAY)
        for parameter in module.parameters()
    }
    return [
        name
        for name, parameter in model.named_parameters()
        if parameter.ndim > 1 and id(parameter) not in kept
    ]


def inner_matrices(model: nn.Module) -> list[str]:
    """Return the names of the matrices that Muon applies to: linear maps inside of layers.

    Embeddings and the first and the last map of a model are outside of its layers.
    """
    layers = model.layers() if isinstance(model, Model) else ()
    inside = {
        id(module.weight)
        for layer in layers
        for module in layer.modules()
        if isinstance(module, nn.Linear)
    }
    return [name for name, parameter in model.named_parameters() if id(parameter) in inside]


def _converted(tensors: list[Tensor], like: list[Tensor]) -> list[Tensor]:
    """Return tensors in the types of others; a GPU converts all of them in a few kernels.

    If all types are equal, these are the given tensors themselves.
    """
    if all(each.dtype == other.dtype for each, other in zip(tensors, like, strict=True)):
        return tensors
    wide = [torch.empty_like(each) for each in like]
    torch._foreach_copy_(wide, tensors)
    return wide


def _master(parameter: nn.Parameter) -> Tensor:
    """Return the parameter itself, or a float32 copy if its type is narrower."""
    wide = torch.promote_types(parameter.dtype, torch.float32)
    return parameter if parameter.dtype == wide else parameter.detach().to(wide)

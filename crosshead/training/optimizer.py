"""Adam over float32 weights, whatever precision the model computes in."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from crosshead.recipe.train import TrainConfig
from crosshead.training.distributed import gathered, like, of_all

_SCALING = "loss_scale"

FIRST_SCALE, GROWTH = 2.0**13, 1000
"""The factor of losses in float16 at the beginning, and finite updates until it is doubled."""


class Optimizer:
    """Adam (Kingma & Ba 2015; betas 0.9, 0.98 and eps 1e-9 in Vaswani et al. 2017, section 5.3).

    A model in bfloat16 keeps float32 masters here: an update is often smaller than bfloat16 can
    add to a weight. A model in float32 or float64 is its own master. In float16, whose smallest
    gradients would be zero, losses are multiplied by `scale` and gradients divided by it: halved
    where gradients overflow, doubled after `GROWTH` updates without (Micikevicius et al. 2018,
    section 3.2).
    """

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        self.parameters = dict(model.named_parameters())
        self.masters: dict[str, Tensor] = {
            name: _master(parameter) for name, parameter in self.parameters.items()
        }
        self.clip_norm = config.clip_norm
        narrow = any(parameter.dtype == torch.float16 for parameter in self.parameters.values())
        self.scale = FIRST_SCALE if narrow else 1.0
        self._finite_in_a_row = 0
        self.adam = torch.optim.Adam(
            list(self.masters.values()),
            betas=(config.adam_beta1, config.adam_beta2),
            eps=config.adam_eps,
            fused=True,
        )

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss to those that are there."""
        (loss if self.scale == 1.0 else loss * self.scale).backward()

    def drop_gradients(self) -> None:
        """Forget the gradients that are there."""
        for tensor in (*self.parameters.values(), *self.masters.values()):
            tensor.grad = None

    def step(self, learning_rate: float, replicas: Sequence[nn.Module] = ()) -> float | None:
        """Apply the gradients and drop them; the norm they had, or None where it was not finite.

        The gradients of `replicas`, which have the same weights, are added, and dropped too.
        Gradients that are not finite are not applied.
        """
        others = [dict(replica.named_parameters()) for replica in replicas]
        for name, parameter in self.parameters.items():
            assert parameter.grad is not None, f"{name} has no gradient"
            gradient = parameter.grad.to(self.masters[name].dtype)
            for other in others:
                further, other[name].grad = other[name].grad, None
                if further is not None:  # a batch may have too few pairs for all replicas
                    gradient.add_(further)
            self.masters[name].grad = gradient if self.scale == 1.0 else gradient / self.scale
        gradients = [master.grad for master in self.masters.values() if master.grad is not None]
        total = of_all(get_total_norm(gradients))
        norm = float(total)
        finite = norm < float("inf")  # also false for NaN
        if finite:
            if self.clip_norm and norm > self.clip_norm:
                clip_grads_with_norm_(self.masters.values(), self.clip_norm, total)
            self.adam.param_groups[0]["lr"] = learning_rate
            self.adam.step()
            self._copy_to_model()
        self.drop_gradients()
        if self.scale != 1.0:
            self._rescale(finite)
        return norm if finite else None

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(iter(self.masters.values())).device

    def size(self) -> int:
        """The number of weights; a tied matrix counts once."""
        return sum(master.numel() for master in self.masters.values())

    def weights(self) -> dict[str, Tensor]:
        """The masters by name, float32 as a rule; they share memory with the optimiser.

        Where processes share them, all have to call this, and the first alone gets them: see
        `gathered`.
        """
        return gathered({name: master.detach() for name, master in self.masters.items()})

    def set_weights(self, weights: dict[str, Tensor]) -> None:
        """Continue from other weights."""
        with torch.no_grad():
            for name, master in self.masters.items():
                master.copy_(like(master, weights[name]))
        self._copy_to_model()

    def state(self) -> dict[str, Tensor]:
        """Adam's moments and step counts by parameter: `NAME.exp_avg` and so on; the scale.

        Gathered as `weights` are.
        """
        moments = {
            f"{name}.{key}": value
            for name, master in self.masters.items()
            for key, value in self.adam.state[master].items()
        }
        return {**gathered(moments), **self.scaling()}

    def contents(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The weights and the state; one call for all processes, so that they ask in one order."""
        return self.weights(), self.state()

    def scaling(self) -> dict[str, Tensor]:
        """Return the optimiser's state besides Adam's: the loss scale, in float16."""
        if self.scale == 1.0:
            return {}
        return {_SCALING: torch.tensor([self.scale, float(self._finite_in_a_row)])}

    def set_state(self, state: dict[str, Tensor]) -> None:
        """Continue from what `state` gave."""
        if _SCALING in state:
            self.scale, self._finite_in_a_row = float(state[_SCALING][0]), int(state[_SCALING][1])
        for name, master in self.masters.items():
            prefix = f"{name}."
            self.adam.state[master] = {
                key.removeprefix(prefix): like(master, value).to(master.device, copy=True)
                for key, value in state.items()
                if key.startswith(prefix) and "." not in key.removeprefix(prefix)
            }

    def _rescale(self, finite: bool) -> None:
        self._finite_in_a_row = self._finite_in_a_row + 1 if finite else 0
        if not finite:
            self.scale = max(2.0, self.scale / 2)
        elif self._finite_in_a_row == GROWTH:
            self.scale, self._finite_in_a_row = self.scale * 2, 0

    def _copy_to_model(self) -> None:
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                if parameter is not self.masters[name]:
                    parameter.copy_(self.masters[name])


def _master(parameter: nn.Parameter) -> Tensor:
    """The parameter itself, or a copy of it in float32 where it is narrower."""
    wide = torch.promote_types(parameter.dtype, torch.float32)
    return parameter if parameter.dtype == wide else parameter.detach().to(wide)

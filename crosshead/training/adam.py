"""Adam with decoupled weight decay, by PyTorch's own function."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adamw import adamw


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

    def _state_of(self, weights: Tensor) -> dict[str, Tensor]:
        """Return the state of a tensor: both moments and the number of updates, first zeros."""
        state = self.state.setdefault(weights, {})
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=weights.device)
            for key in ("exp_avg", "exp_avg_sq"):
                state[key] = torch.zeros_like(weights, memory_format=torch.preserve_format)
        return state

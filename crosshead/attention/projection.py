"""The linear maps that attention, and every other layer, is made of."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Linear(nn.Linear):
    """y = x W^T + b, by the faster of two kernels where no gradients are wanted.

    In float32 on a CPU PyTorch computes this with MKL, which leaves half of the vector units of
    processors other than Intel's idle; oneDNN, which PyTorch has too, does not. Its kernel has no
    backward pass, so training stays with PyTorch's choice. Both round to float32 only, in another
    order.
    """

    def forward(self, input: Float[Tensor, "*axes In"]) -> Float[Tensor, "*axes Out"]:
        """The map of every vector of `input`."""
        if input.dtype == torch.float32 and input.device.type == "cpu" and _is_for_inference():
            fused = torch.ops.mkldnn._linear_pointwise
            y: Tensor = fused(input, self.weight, self.bias, "none", [], "")
            return y
        return super().forward(input)


def _is_for_inference() -> bool:
    """Whether no gradients are wanted, and this PyTorch has oneDNN's kernel."""
    return (
        not torch.is_grad_enabled()
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )

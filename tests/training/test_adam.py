"""Adam is `torch.optim.AdamW`, bit for bit, without the import of PyTorch's compiler."""

import subprocess
import sys

import pytest
import torch

from crosshead.training.adam import Adam

BETAS, EPS = (0.9, 0.98), 1e-9


def weights(seed: int, dtype: torch.dtype) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    shapes = [(5, 3), (7,), (2, 3, 4), (1,)]
    return [torch.randn(shape, generator=draw, dtype=dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_it_is_adamw_of_pytorch(dtype: torch.dtype, decay: float) -> None:
    ours, theirs = weights(0, dtype), weights(0, dtype)
    adam = Adam([(ours[:2], decay), (ours[2:], 0.0)], BETAS, EPS)
    groups = [{"params": theirs[:2], "weight_decay": decay}, {"params": theirs[2:]}]
    reference = torch.optim.AdamW(groups, betas=BETAS, eps=EPS, weight_decay=0.0, fused=True)
    for seed, rate in enumerate((0.01, 0.1, 0.0, 0.001), 1):
        for each, other, gradient in zip(ours, theirs, weights(seed, dtype), strict=True):
            each.grad, other.grad = gradient.clone(), gradient.clone()
        if seed == 3:  # a tensor without a gradient keeps its weights and its state
            ours[0].grad = theirs[0].grad = None
        adam.step(rate)
        for group in reference.param_groups:
            group["lr"] = rate
        reference.step()
        for each, other in zip(ours, theirs, strict=True):
            assert torch.equal(each, other)
            assert adam.state[each].keys() == reference.state[other].keys()
            for key, value in reference.state[other].items():
                assert torch.equal(adam.state[each][key], value), key


@pytest.mark.slow
def test_the_compiler_is_not_imported() -> None:
    """Its import would take most of the time before the first update."""
    code = (
        "import sys, torch; from crosshead.training.adam import Adam; w = torch.zeros(3);"
        "w.grad = torch.ones(3); Adam([([w], 0.1)], (0.9, 0.98), 1e-9).step(0.1);"
        "assert w[0] != 0; sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

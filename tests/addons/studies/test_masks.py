import torch
from torch import nn

from crosshead.addons.studies.masks import gradient_norms


def test_gradient_norms_stand_by_output_and_input() -> None:
    class Shifted(nn.Module):
        """Output i is twice input i + 1."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * x.roll(-1, dims=1)

    norms = gradient_norms(Shifted(), torch.randn(1, 3, 4))
    assert [row.nonzero().flatten().tolist() for row in norms] == [[1], [2], [0]]

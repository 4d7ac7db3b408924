"""N layers and the norm that ends them."""

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from torch import nn

Layer = TypeVar("Layer", bound=nn.Module)


class LayerStack(nn.Module, Generic[Layer]):
    """The layers of an encoder or a decoder.

    A model computes them in a loop of its own, as only the model knows their masks and caches.

    Reference:
        Vaswani et al. 2017, Figure 1 ("N x").
    """

    def __init__(self, layers: Iterable[Layer], norm: nn.Module) -> None:
        super().__init__()
        self.layers: Sequence[Layer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = norm

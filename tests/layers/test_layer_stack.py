from torch import nn

from crosshead.layers.layer_stack import LayerStack


def test_its_parameters_are_those_of_the_layers_in_order_and_of_the_norm() -> None:
    stack = LayerStack([nn.Linear(2, 2, bias=False) for _ in range(3)], nn.LayerNorm(2))
    assert [name for name, _ in stack.named_parameters()] == [
        "layers.0.weight", "layers.1.weight", "layers.2.weight", "norm.weight", "norm.bias",
    ]  # fmt: skip

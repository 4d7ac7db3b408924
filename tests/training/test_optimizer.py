import copy
import math
import re
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from crosshead.errors import ConfigError
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.recipe.compose import compose
from crosshead.recipe.presets import PRESETS
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.registry import task_of
from crosshead.training.optimizer import (
    FIRST_SCALE,
    Adam,
    Optimizer,
    decaying,
    inner_matrices,
    orthogonal,
)

UNCLIPPED = TrainConfig(max_updates=1, learning_rate=0.1, clip_norm=0.0)
RATES = [0.01, 0.02, 0.005, 0.01]


def small_model(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype)


def give_gradients(model: nn.Module, seed: int, scale: float = 1.0) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        gradient = scale * torch.randn(parameter.shape, generator=generator)
        parameter.grad = gradient.to(parameter.dtype)


def total_norm(model: nn.Module) -> float:
    return float(torch.cat([p.grad.float().flatten() for p in model.parameters()]).norm())


def copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_in_float32_and_float64_it_is_pytorchs_adam(dtype: torch.dtype) -> None:
    model = small_model(dtype)
    reference = copy.deepcopy(model)
    optimizer = Optimizer(model, UNCLIPPED)
    adam = torch.optim.Adam(reference.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for seed, rate in enumerate(RATES):
        give_gradients(model, seed)
        give_gradients(reference, seed)
        expected_norm = total_norm(model)
        assert optimizer.step(rate) == pytest.approx(expected_norm, rel=1e-5)
        adam.param_groups[0]["lr"] = rate
        adam.step()
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
        assert ours.grad is None
    assert {weight.dtype for weight in optimizer.weights().values()} == {dtype}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_without_weight_decay_it_is_pytorchs_adam_to_the_bit(dtype: torch.dtype) -> None:
    model = small_model(dtype)
    reference = copy.deepcopy(model)
    optimizer = Optimizer(model, UNCLIPPED)
    adam = torch.optim.Adam(reference.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)
    for seed, rate in enumerate(RATES):
        give_gradients(model, seed)
        give_gradients(reference, seed)
        optimizer.step(rate)
        adam.param_groups[0]["lr"] = rate
        adam.step()
    assert_equal(dict(model.named_parameters()), dict(reference.named_parameters()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_weight_decay_is_that_of_pytorchs_adamw_for_matrices(dtype: torch.dtype) -> None:
    model = small_model(dtype)
    reference = {
        name: _wide(parameter) for name, parameter in copies(dict(model.named_parameters())).items()
    }
    matrices = [each for name, each in reference.items() if name.endswith("weight")]
    rest = [each for name, each in reference.items() if name.endswith("bias")]
    optimizer = Optimizer(model, UNCLIPPED.model_copy(update={"weight_decay": 0.3}))
    adam = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.3}, {"params": rest, "weight_decay": 0.0}],
        betas=(0.9, 0.98), eps=1e-9,
    )  # fmt: skip
    for seed, rate in enumerate(RATES):
        give_gradients(model, seed)
        for name, parameter in model.named_parameters():
            reference[name].grad = _wide(parameter.grad)
        optimizer.step(rate)
        for group in adam.param_groups:
            group["lr"] = rate
        adam.step()
    for name, weight in optimizer.weights().items():
        torch.testing.assert_close(weight, reference[name])


def _wide(tensor: Tensor) -> Tensor:
    return tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32))


def test_gradients_that_are_not_finite_decay_nothing() -> None:
    model = small_model()
    optimizer = Optimizer(model, UNCLIPPED.model_copy(update={"weight_decay": 0.3}))
    weights = copies(optimizer.weights())
    give_gradients(model, 0, scale=float("nan"))
    assert optimizer.step(0.01) is None
    assert_equal(optimizer.weights(), weights)


MUON = UNCLIPPED.model_copy(update={"optimizer": "muon", "weight_decay": 0.3})


def test_muon_is_pytorchs_muon_for_matrices_and_adam_for_the_rest() -> None:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(d_model=16, d_ff=40, heads=2), 9, 9)
    reference = {name: each.detach().clone() for name, each in model.named_parameters()}
    matrices = inner_matrices(model)
    assert len(matrices) == 6 * 5 + 6 * 8
    muon = torch.optim.Muon(
        [reference[name] for name in matrices], weight_decay=0.15, adjust_lr_fn="match_rms_adamw"
    )
    rest = [name for name in reference if name not in matrices]
    adam = torch.optim.Adam([reference[name] for name in rest], betas=(0.9, 0.98), eps=1e-9)
    optimizer = Optimizer(model, MUON)
    for seed, rate in enumerate(RATES):
        give_gradients(model, seed)
        for name, parameter in model.named_parameters():
            reference[name].grad = parameter.grad.clone()
        optimizer.step(rate)
        muon.param_groups[0]["lr"] = 2 * rate  # RATE is twice that of `match_rms_adamw`
        adam.param_groups[0]["lr"] = rate
        muon.step()
        adam.step()
    for name in rest:
        torch.testing.assert_close(optimizer.weights()[name], reference[name])
    for name in matrices:  # PyTorch computes in bfloat16
        torch.testing.assert_close(optimizer.weights()[name], reference[name], rtol=0, atol=2e-3)


@pytest.mark.parametrize("shape", [(64, 16), (16, 64)], ids=str)
def test_muon_sets_all_singular_values_to_about_one(shape: tuple[int, int]) -> None:
    found = orthogonal(torch.randn(3, *shape, generator=torch.Generator().manual_seed(1)))
    values = torch.linalg.svdvals(found)
    assert values.min() > 0.6 and values.max() < 1.3


@pytest.mark.parametrize("architecture", PRESETS)
def test_muon_changes_linear_maps_inside_of_layers(architecture: str) -> None:
    model = of_preset(architecture)
    found, shapes = inner_matrices(model), dict(model.named_parameters())
    assert set(found) <= set(decaying(model))
    assert all(shapes[name].ndim == 2 and re.search(r"\.\d+\.", name) for name in found)
    without = {"recurrent", "convolutional", "dlinear", "series-recurrent", "convnet"}
    assert (architecture in without) == (not found)
    if not found:
        with pytest.raises(ConfigError, match="muon"):
            Optimizer(model, MUON)


def of_preset(architecture: str, *settings: str) -> nn.Module:
    recipe = compose("tiny", {"model": architecture}, assignments=settings)
    example = task_of(recipe).example(recipe.model, recipe.model_dump())
    with torch.device("meta"):
        return example[1]()


@pytest.mark.parametrize("architecture", PRESETS)
def test_matrices_and_kernels_decay_and_nothing_with_one_axis(architecture: str) -> None:
    model = of_preset(architecture)
    shapes = {name: each.ndim for name, each in model.named_parameters()}
    found = set(decaying(model))
    assert {shapes[name] for name in found} <= {2, 3, 4}
    kept = {name for name, axes in shapes.items() if axes > 1} - found
    assert all("embedding" in name or "position" in name or "score" in name for name in kept)
    assert any(name.endswith(("weight", "direction", "weight_hh_l0")) for name in found)


@pytest.mark.parametrize("positions", ["learned", "shaw", "t5"])
def test_tables_of_positions_do_not_decay(positions: str) -> None:
    model = of_preset("transformer", f"model.positions={positions}")
    tables = {name for name, each in model.named_parameters() if name.endswith("table")}
    assert tables and not tables & set(decaying(model))


def test_the_scale_of_cosine_scores_and_a_tied_embedding_do_not_decay() -> None:
    model = of_preset("language", "model.score=cosine", "model.tie=true")
    scales = {name for name, each in model.named_parameters() if name.endswith("score.scale")}
    assert scales and not scales & set(decaying(model))
    assert model.projection.weight is model.embeddings.weight
    assert not {"projection.weight", "embeddings.weight"} & set(decaying(model))


def test_a_bfloat16_model_keeps_float32_masters() -> None:
    model = small_model(torch.bfloat16)
    optimizer = Optimizer(model, UNCLIPPED)
    before = copies(optimizer.weights())
    reference = {name: weight.clone() for name, weight in before.items()}
    adam = torch.optim.Adam(list(reference.values()), betas=(0.9, 0.98), eps=1e-9)
    adam.param_groups[0]["lr"] = 1e-5  # less than bfloat16 can add to most weights
    for seed in range(20):
        give_gradients(model, seed)
        for name, parameter in model.named_parameters():
            reference[name].grad = parameter.grad.float()
        optimizer.step(1e-5)
        adam.step()
    for name, parameter in model.named_parameters():
        master = optimizer.weights()[name]
        assert parameter.dtype == torch.bfloat16 and master.dtype == torch.float32
        torch.testing.assert_close(master, reference[name])
        assert not torch.equal(master, before[name])
        assert torch.equal(parameter.detach(), master.bfloat16())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("times", [1.05, 1.9, 100.0])
def test_gradients_longer_than_clip_norm_are_shortened_to_it(
    dtype: torch.dtype, times: float
) -> None:
    model = small_model(dtype)
    give_gradients(model, 0)
    norm = total_norm(model)
    gradients = {name: p.grad.float().clone() for name, p in model.named_parameters()}
    limit = norm / times
    optimizer = Optimizer(model, UNCLIPPED.model_copy(update={"clip_norm": limit}))
    assert optimizer.step(0.01) == pytest.approx(norm, rel=1e-4)
    for name, gradient in gradients.items():
        moment = optimizer.state()[f"{name}.exp_avg"]
        torch.testing.assert_close(moment, 0.1 * gradient / times, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("times", [0.95, 0.5, 1e-6])
def test_gradients_shorter_than_clip_norm_are_left_alone(times: float) -> None:
    clipped, unclipped = small_model(), small_model()
    give_gradients(clipped, 0)
    limit = total_norm(clipped) / times
    first = Optimizer(clipped, UNCLIPPED.model_copy(update={"clip_norm": limit}))
    second = Optimizer(unclipped, UNCLIPPED)
    for model, optimizer in ((clipped, first), (unclipped, second)):
        give_gradients(model, 0)
        optimizer.step(0.01)
    assert_equal(first.weights(), second.weights())
    assert_equal(first.state(), second.state())


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_that_are_not_finite_are_not_applied(dtype: torch.dtype, bad: float) -> None:
    model = small_model(dtype)
    optimizer = Optimizer(model, UNCLIPPED.model_copy(update={"clip_norm": 1.0}))
    give_gradients(model, 0)
    optimizer.step(0.01)
    weights, state = copies(optimizer.weights()), copies(optimizer.state())
    give_gradients(model, 1)
    next(model.parameters()).grad[0, 0] = bad
    assert optimizer.step(0.01) is None
    assert_equal(optimizer.weights(), weights)
    assert_equal(optimizer.state(), state)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_the_moving_average_is_the_weighted_mean_of_the_weights(dtype: torch.dtype) -> None:
    """After n updates, the weights of update k count in proportion to ema^(n - k)."""
    model = small_model(dtype)
    optimizer = Optimizer(model, UNCLIPPED.model_copy(update={"ema": 0.7}))
    assert_equal(optimizer.weights_to_validate(), optimizer.weights())
    visited = []
    for seed, rate in enumerate(RATES):
        give_gradients(model, seed)
        optimizer.step(rate)
        visited.append(copies(optimizer.weights()))
        factors = [0.7 ** (seed - before) for before in range(seed + 1)]
        for name, found in optimizer.weights_to_validate().items():
            several = [f * each[name].double() for f, each in zip(factors, visited, strict=True)]
            expected = torch.stack(several).sum(dim=0) / sum(factors)
            torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-7)
            assert found.dtype == optimizer.masters[name].dtype


def test_the_moving_average_changes_no_weight() -> None:
    with_average, without = small_model(), small_model()
    optimizers = [
        Optimizer(model, UNCLIPPED.model_copy(update={"ema": ema}))
        for model, ema in ((with_average, 0.9), (without, 0.0))
    ]
    for seed, rate in enumerate(RATES):
        for model, optimizer in zip((with_average, without), optimizers, strict=True):
            give_gradients(model, seed)
            optimizer.step(rate)
    assert_equal(optimizers[0].weights(), optimizers[1].weights())
    assert_equal(optimizers[1].weights_to_validate(), optimizers[1].weights())
    assert not any(name.endswith(".average") for name in optimizers[1].state())


def test_an_update_that_is_left_out_moves_no_average() -> None:
    model = small_model()
    optimizer = Optimizer(model, UNCLIPPED.model_copy(update={"ema": 0.5}))
    for seed in range(2):
        give_gradients(model, seed)
        optimizer.step(0.1)
    before = copies(optimizer.weights_to_validate())
    give_gradients(model, 2)
    next(model.parameters()).grad[0, 0] = float("nan")  # type: ignore[index]
    assert optimizer.step(0.1) is None
    assert_equal(optimizer.weights_to_validate(), before)


def test_the_average_begins_with_weights_that_are_set() -> None:
    """Those of a bundle that is fine-tuned, which may stay the best."""
    model, other = small_model(), small_model()
    with torch.no_grad():
        next(other.parameters()).add_(1)
    optimizer = Optimizer(model, UNCLIPPED.model_copy(update={"ema": 0.5}))
    optimizer.set_weights(dict(other.named_parameters()))
    assert_equal(optimizer.weights_to_validate(), dict(other.named_parameters()))


@pytest.mark.parametrize("ema", [0.0, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_another_optimizer_goes_on_from_weights_and_state(dtype: torch.dtype, ema: float) -> None:
    model, other = small_model(dtype), small_model(dtype)
    config = UNCLIPPED.model_copy(update={"ema": ema})
    first, second = Optimizer(model, config), Optimizer(other, config)
    for seed in range(3):
        give_gradients(model, seed)
        first.step(0.01)
    second.set_weights(first.weights())
    second.set_state(first.state())
    assert_equal(second.state(), first.state())
    assert_equal(dict(other.named_parameters()), dict(model.named_parameters()))
    for each, optimizer in ((model, first), (other, second)):
        give_gradients(each, 7)
        optimizer.step(0.01)
    assert_equal(second.weights(), first.weights())
    assert_equal(second.state(), first.state())


def test_float16_scales_the_loss_and_halves_the_scale_where_gradients_overflow() -> None:
    model = small_model(torch.float16)
    optimizer = Optimizer(model, UNCLIPPED)
    features = torch.full((2, 4), 1e-4, dtype=torch.float16)
    plain = copy.deepcopy(model).float()
    plain(features.float()).square().sum().mul(1e-4).backward()
    optimizer.backward(model(features).square().sum() * 1e-4)
    assert total_norm(model) == pytest.approx(FIRST_SCALE * total_norm(plain), rel=0.02)
    assert optimizer.step(0.01) == pytest.approx(total_norm(plain), rel=0.02)
    assert {weight.dtype for weight in optimizer.weights().values()} == {torch.float32}

    before = copies(optimizer.weights())
    optimizer.backward(model(features).sum() * 1e30)
    assert optimizer.step(0.01) is None
    assert optimizer.scale == FIRST_SCALE / 2
    assert_equal(optimizer.weights(), before)


def test_the_scale_of_float16_grows_and_is_part_of_the_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crosshead.training.optimizer.GROWTH", 3)
    optimizer = Optimizer(small_model(torch.float16), UNCLIPPED)
    scales = []
    for gradient in (1, 1, math.inf, 1, 1, 1, 1, 1):  # three finite ones in a row
        for parameter in optimizer.parameters.values():
            parameter.grad = torch.full_like(parameter, gradient)
        optimizer.step(0.01)
        scales.append(optimizer.scale / FIRST_SCALE)
    assert scales == [1, 1, 0.5, 0.5, 0.5, 1, 1, 1]
    again = Optimizer(small_model(torch.float16), UNCLIPPED)
    again.set_state(optimizer.state())
    assert again.scale == FIRST_SCALE
    for each in (again, optimizer):
        for parameter in each.parameters.values():
            parameter.grad = torch.ones_like(parameter)
        each.step(0.01)
        assert each.scale == 2 * FIRST_SCALE
    assert "loss_scale" not in Optimizer(small_model(), UNCLIPPED).state()


def sharing_weights(model: nn.Module) -> nn.Module:
    """A model with the weights of another, in one memory."""
    replica = copy.deepcopy(model)
    for own, other in zip(replica.parameters(), model.parameters(), strict=True):
        own.data = other.data
    return replica


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_a_replica_are_added_and_dropped(
    dtype: torch.dtype,
) -> None:
    model, alone = small_model(dtype), small_model(torch.float32)
    alone.load_state_dict(model.float().state_dict())
    model.to(dtype)
    optimizer, expected = Optimizer(model, UNCLIPPED), Optimizer(alone, UNCLIPPED)
    replica = sharing_weights(model)
    for seed, rate in enumerate(RATES):
        give_gradients(model, seed)
        give_gradients(replica, 100 + seed)
        for p, q, r in zip(
            alone.parameters(), model.parameters(), replica.parameters(), strict=True
        ):
            p.grad = q.grad.float() + r.grad.float()
        assert optimizer.step(rate, [replica]) == pytest.approx(expected.step(rate), rel=1e-6)
        assert all(p.grad is None for p in (*model.parameters(), *replica.parameters()))
    assert_equal(optimizer.weights(), expected.weights())
    assert_equal(dict(replica.named_parameters()), dict(model.named_parameters()))


def test_a_replica_without_a_gradient_adds_none() -> None:
    model, alone = small_model(), small_model()
    optimizer, expected = Optimizer(model, UNCLIPPED), Optimizer(alone, UNCLIPPED)
    give_gradients(model, 1)
    give_gradients(alone, 1)
    optimizer.step(0.1, [sharing_weights(model)])
    expected.step(0.1)
    assert_equal(optimizer.weights(), expected.weights())


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
        "import sys, torch; from crosshead.training.optimizer import Adam; w = torch.zeros(3);"
        "w.grad = torch.ones(3); Adam([([w], 0.1)], (0.9, 0.98), 1e-9).step(0.1);"
        "assert w[0] != 0; sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

"""The loss of a batch beside PyTorch's cross-entropy."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from crosshead.attention.dropout import Dropout, drawing_from
from crosshead.layers.consistency import ViewWeights, two_view_loss
from crosshead.layers.guided_alignment import GUIDED_HEAD
from crosshead.models.base import TokenModel
from crosshead.models.registry import CONFIGS, build_model
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.token_loss import (
    LabelSmoothing,
    guided_attention,
    observed,
    token_loss,
    without_words,
)
from crosshead.tasks.validation import Loss
from crosshead.text.batching import Batch, Example, Pairs, collate
from crosshead.text.parallel.examples import Examples
from crosshead.text.parallel.word_aligner import WordAligner
from crosshead.vocabulary import BOS, CUT, EOS, PAD, UNK
from tests.learning import SEEDS, learns
from tests.sequences import copy_task

VOCABULARY = 12
EXAMPLES: list[Example] = [([4, 5, 6], [7, 8]), ([5], [9, 10, 11, 4]), ([6, 7], [5])]


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(
        encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2, dropout=0.0,
        output_bias=True,
    )  # fmt: skip
    found = build_model(config, VOCABULARY, VOCABULARY)
    assert isinstance(found, Transformer)
    return found


def batch_of(*rows: int) -> Batch:
    return collate(EXAMPLES, list(rows))


def gradients(model: Transformer, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    loss.backward()
    return {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_it_is_the_cross_entropy_of_the_tokens_without_padding(
    smoothing: float, model: Transformer
) -> None:
    batch = batch_of(0, 1, 2)
    assert (batch.target_output == PAD).any()
    found = token_loss(model, batch, LabelSmoothing(smoothing))
    logits, wanted = model(*batch.inputs).flatten(0, 1), batch.target_output.flatten()
    for name, share in (("loss", smoothing), ("nll", 0.0)):
        expected = F.cross_entropy(
            logits, wanted, ignore_index=PAD, label_smoothing=share, reduction="sum"
        )
        torch.testing.assert_close(found.sums[name], expected)
        if name == "loss":
            wanted_gradients = gradients(model, expected)
            torch.testing.assert_close(gradients(model, found.sums[name]), wanted_gradients)
            logits = model(*batch.inputs).flatten(0, 1)
    assert found.count == sum(len(target) + 1 for _, target in EXAMPLES) == batch.count


def test_losses_of_parts_add_up_to_the_loss_of_the_batch(model: Transformer) -> None:
    whole = token_loss(model, batch_of(0, 1, 2), LabelSmoothing(0.1))
    parts = [token_loss(model, batch_of(row), LabelSmoothing(0.1)) for row in range(3)]
    assert whole.count == sum(part.count for part in parts)
    for name, value in whole.sums.items():
        torch.testing.assert_close(value, torch.stack([p.sums[name] for p in parts]).sum())


def test_the_settings_of_training_give_their_label_smoothing(model: Transformer) -> None:
    settings = TrainConfig(max_updates=1, learning_rate=0.1, label_smoothing=0.3)
    found = token_loss(model, batch_of(0), settings).sums["loss"]
    assert torch.equal(found, token_loss(model, batch_of(0), LabelSmoothing(0.3)).sums["loss"])
    assert not torch.equal(found, token_loss(model, batch_of(0), LabelSmoothing(0.1)).sums["loss"])


ALIGNMENT = torch.rand(3, 5, 4, generator=torch.Generator().manual_seed(0)) / 4


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("consistency", ["none", "r-drop"])
def test_guided_alignment_adds_the_cross_entropy_of_one_head(layers: int, consistency: str) -> None:
    torch.manual_seed(0)
    shape = TransformerConfig(
        encoder_layers=1, decoder_layers=layers, d_model=8, d_ff=8, heads=2, dropout=0.0
    )
    model = Transformer(shape, VOCABULARY, VOCABULARY).train()
    plain = batch_of(0, 1, 2)
    batch = replace(plain, alignment=ALIGNMENT)
    settings = settings_of(consistency, guided_alignment=0.3)
    attention = model.decoder.layers[max(0, layers - 2)].cross_attention
    assert guided_attention(model) is attention
    with observed(attention) as seen:
        usual = token_loss(model, plain, settings)
    expected = -0.3 * (ALIGNMENT * (seen[0][:3, 0] + 1e-6).log()).sum()
    found = token_loss(model, batch, settings)
    torch.testing.assert_close(found.sums["alignment"], expected)
    torch.testing.assert_close(found.sums["loss"], usual.sums["loss"] + expected)
    torch.testing.assert_close(found.sums["nll"], usual.sums["nll"])
    assert found.count == usual.count and attention.observe is None
    wanted = gradients(model, usual.sums["loss"] + expected)
    torch.testing.assert_close(gradients(model, found.sums["loss"]), wanted)
    assert token_loss(model.eval(), batch, settings).sums.keys() == {"loss", "nll"}


def test_an_observer_is_put_back_even_after_an_error(model: Transformer) -> None:
    attention, kept = guided_attention(model), list[torch.Tensor]()
    attention.observe = keep = kept.append

    def fail() -> None:
        with observed(attention):
            assert attention.observe is not keep
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert attention.observe is keep


@pytest.mark.parametrize("seed", SEEDS)
def test_a_guided_head_finds_the_source_token_of_the_next_token(seed: int) -> None:
    examples = copy_task(2000, 30, 10, seed=1)
    pairs = Pairs(examples, aligner=WordAligner(Examples.of(examples), 30))
    torch.manual_seed(seed)
    shape = TransformerConfig(
        encoder_layers=1, decoder_layers=2, d_model=32, d_ff=32, heads=2, dropout=0.0
    )
    model = Transformer(shape, 30, 30).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    plan = pairs.plan(500, 1, 0)
    settings = settings_of("none", guided_alignment=1.0)

    def update(number: int) -> float:
        batch = pairs.collate(plan[number % len(plan)].tolist())
        found = token_loss(model, batch, settings)
        optimizer.zero_grad()
        (found.sums["loss"] / found.count).backward()
        optimizer.step()
        return float(found.sums["alignment"].detach()) / found.count

    def learned() -> bool:
        batch = pairs.collate(range(100))
        with observed(guided_attention(model)) as seen, torch.no_grad():
            model.features(*batch.inputs)
        chosen = batch.source.gather(1, seen[0][:, GUIDED_HEAD].argmax(dim=2))
        inside = batch.target_output > EOS
        return bool((chosen == batch.target_output)[inside].float().mean() > 0.9)

    assert learns(update, learned, 900, below=1.0)


def settings_of(consistency: str, **others: object) -> TrainConfig:
    return TrainConfig.model_validate(
        {"max_updates": 1, "learning_rate": 0.1, "consistency": consistency, **others}
    )


@pytest.fixture
def dropping(model: Transformer) -> Transformer:
    """The model with dropout, in training."""
    for module in model.modules():
        if isinstance(module, Dropout):
            module.p = 0.3
    return model.double().train()


def drawn(model: Transformer, batch: Batch, settings: TrainConfig, seed: int = 3) -> Loss:
    with drawing_from(torch.Generator().manual_seed(seed)):
        return token_loss(model, batch, settings)


@pytest.mark.parametrize(
    ("consistency", "weight", "by"),
    [
        ("r-drop", None, ViewWeights(0.5, 1.25, 1.25)),
        ("r-drop", 4.0, ViewWeights(0.5, 2.0, 2.0)),
        ("simcut", None, ViewWeights(0.0, 3.0, 0.0)),
        ("simcut", 0.5, ViewWeights(0.0, 0.5, 0.0)),
    ],
)
def test_two_views_are_one_batch_of_twice_the_rows(
    consistency: str, weight: float | None, by: ViewWeights, dropping: Transformer
) -> None:
    """The plain loss of the logits of the doubled batch, with the same draws."""
    batch, settings = batch_of(0, 1, 2), settings_of(consistency, consistency_weight=weight)
    found = drawn(dropping, batch, settings)
    with drawing_from(torch.Generator().manual_seed(3)):
        cut = without_words(batch.inputs, 0.05) if consistency == "simcut" else batch.inputs
        logits = dropping(*(torch.cat(pair) for pair in zip(batch.inputs, cut, strict=True)))
    tokens = batch.target_output != PAD
    views = torch.stack([view[tokens] for view in logits.chunk(2)])
    expected = two_view_loss(views, batch.target_output[tokens], 0.1, by)
    assert found.count == batch.count
    torch.testing.assert_close(found.sums["loss"], expected.loss)
    torch.testing.assert_close(found.sums["nll"], expected.nll)
    torch.testing.assert_close(found.sums["consistency"], expected.divergence)
    assert found.sums["consistency"] > 0


def test_the_weight_of_r_drop_is_half_of_the_papers_alpha(dropping: Transformer) -> None:
    """Its code adds alpha (KL + KL) / 2 to the sum of two cross-entropies: twice this loss."""
    batch = batch_of(0, 1, 2)
    alpha, smoothing = 5.0, 0.1
    found = drawn(dropping, batch, settings_of("r-drop"))
    with drawing_from(torch.Generator().manual_seed(3)):
        logits = dropping(*(torch.cat([each, each]) for each in batch.inputs))
    tokens, target = batch.target_output != PAD, batch.target_output[batch.target_output != PAD]
    first, second = (view[tokens].log_softmax(dim=-1) for view in logits.chunk(2))
    summed = sum(
        F.cross_entropy(each, target, label_smoothing=smoothing, reduction="sum")
        for each in (first, second)
    )
    both = F.kl_div(first, second, reduction="sum", log_target=True) + F.kl_div(
        second, first, reduction="sum", log_target=True
    )
    torch.testing.assert_close(2 * found.sums["loss"], summed + alpha * both / 2)


@pytest.mark.parametrize("consistency", ["r-drop", "simcut"])
def test_validation_has_one_view(consistency: str, dropping: Transformer) -> None:
    batch, settings = batch_of(0, 1, 2), settings_of(consistency, word_dropout=0.5)
    found = token_loss(dropping.eval(), batch, settings)
    expected = token_loss(dropping, batch, LabelSmoothing(0.1))
    assert found.sums.keys() == {"loss", "nll"}
    assert torch.equal(found.sums["loss"], expected.sums["loss"])


def test_without_dropout_two_views_of_r_drop_are_one(model: Transformer) -> None:
    batch = batch_of(0, 1, 2)
    found = token_loss(model.double().train(), batch, settings_of("r-drop"))
    expected = token_loss(model, batch, LabelSmoothing(0.1))
    torch.testing.assert_close(found.sums["loss"], expected.sums["loss"])
    assert found.sums["consistency"].item() == pytest.approx(0, abs=1e-10)


def test_words_are_cut_and_no_other_tokens() -> None:
    source = torch.tensor([[7, 8, UNK, EOS, PAD]]).expand(400, -1)
    target = torch.tensor([[BOS, 5, 6, 9, PAD]]).expand(400, -1)
    images = torch.ones(400, 3, 2, 2)
    with drawing_from(torch.Generator().manual_seed(1)):
        seen, *cut = without_words((images, source, target), 0.25)
    assert seen is images
    for before, after in zip((source, target), cut, strict=True):
        is_cut = after == CUT
        assert torch.equal(after[~is_cut], before[~is_cut])
        assert not is_cut[before <= EOS].any()
        assert is_cut[before > EOS].double().mean().item() == pytest.approx(0.25, abs=0.05)


def test_word_dropout_trains_on_the_inputs_without_words(dropping: Transformer) -> None:
    batch, settings = batch_of(0, 1, 2), settings_of("none", word_dropout=0.5)
    found = drawn(dropping, batch, settings)
    with drawing_from(torch.Generator().manual_seed(3)):
        inputs = without_words(batch.inputs, 0.5)
        assert any((each == CUT).any() for each in inputs)
        expected = token_loss(dropping, Batch(inputs, batch.target_output), LabelSmoothing(0.1))
    torch.testing.assert_close(found.sums["loss"], expected.sums["loss"])


SMALL = {"d_model": 16, "d_ff": 16, "heads": 2, "dropout": 0.2}
STACKS = {"encoder_layers": 1, "decoder_layers": 1}


@pytest.mark.parametrize("consistency", ["r-drop", "simcut"])
@pytest.mark.parametrize("architecture", ["transformer", "recurrent", "convolutional"])
def test_every_model_of_pairs_learns_from_two_views(architecture: str, consistency: str) -> None:
    """Every weight gets a gradient, and the batch splits without dropout."""
    torch.manual_seed(0)
    shapes = {
        "transformer": {**SMALL, **STACKS},
        "recurrent": {"d_model": 16, "dropout": 0.2},
        "convolutional": {**STACKS, "d_model": 16, "dropout": 0.2},
    }
    config = CONFIGS[architecture].model_validate(shapes[architecture])
    made = build_model(config, VOCABULARY, VOCABULARY).train()
    assert isinstance(made, TokenModel)
    settings = settings_of(consistency, word_dropout=0.5)
    found = token_loss(made, batch_of(0, 1, 2), settings)
    found.sums["loss"].backward()
    assert found.sums["consistency"] > 0
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("consistency", ["r-drop", "simcut"])
@pytest.mark.parametrize("architecture", ["language", "transformer-xl", "encoder"])
def test_every_model_of_text_learns_from_two_views(architecture: str, consistency: str) -> None:
    torch.manual_seed(0)
    memory = {"memory": 4, "segment": 4} if architecture == "transformer-xl" else {}
    config = CONFIGS[architecture].model_validate({**SMALL, "layers": 1, **memory})
    made = build_model(config, VOCABULARY, VOCABULARY).train()
    assert isinstance(made, TokenModel)
    tokens = torch.randint(4, VOCABULARY, (3, 8))
    batch = Batch((tokens,), tokens.roll(-1, dims=1))
    found = token_loss(made, batch, settings_of(consistency, word_dropout=0.5))
    found.sums["loss"].backward()
    assert found.sums["consistency"] > 0
    assert all(each.grad is not None for each in made.parameters())

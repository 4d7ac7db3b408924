"""The multimodal Transformer: cached decoding, padding, gates, and images that can be ignored."""

import pytest
import torch
from torch import Tensor

from crosshead.addons.vision.models.image_encoder import ImageShape
from crosshead.addons.vision.models.multimodal import (
    ImagesAndTokens,
    MultimodalConfig,
    MultimodalTransformer,
    SelectiveFusion,
)
from crosshead.bundle.weights import assign_weights, build_without_memory
from crosshead.decoding.beam import beam_search
from crosshead.decoding.hypotheses import Specials
from crosshead.decoding.search import greedy_search
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.vocabulary import BOS, EOS, PAD

SMALL = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 4}
VOCABULARY = 11


def multimodal(**settings: object) -> MultimodalTransformer:
    torch.manual_seed(0)
    config = MultimodalConfig.model_validate({**SMALL, "dropout": 0.0, **settings})
    model = MultimodalTransformer(config, ImageShape(8), VOCABULARY, VOCABULARY).double().eval()
    for parameter in model.requires_grad_(False).parameters():
        if parameter.dim() == 1:
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def images(count: int = 3) -> Tensor:
    return torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(1)).double() * 2 - 1


SOURCES = torch.tensor([[4, 5, 6, EOS], [7, 8, EOS, PAD], [4, 5, 6, EOS]])
TARGETS = torch.tensor([[BOS, 4, 5, 6], [BOS, 7, 8, 9], [BOS, 4, 5, 6]])
VARIANTS = [{}, {"norm": "pre", "patch_positions": "sinusoidal"}, {"positions": "rotary"}]


@pytest.mark.parametrize("settings", VARIANTS)
def test_decoding_step_by_step_is_reading_at_once(settings: dict[str, object]) -> None:
    model = multimodal(**settings)
    whole = model(images(), SOURCES, TARGETS)
    state = model.start(ImagesAndTokens(images(), SOURCES)).select(torch.tensor([2, 0, 1]))
    for place in range(4):
        hidden, state = model.step(state, TARGETS[[2, 0, 1], place : place + 1])
        torch.testing.assert_close(model.logits(hidden), whole[[2, 0, 1], place])


def test_a_beam_of_one_is_greedy_and_padding_and_batches_change_nothing() -> None:
    model, specials = multimodal(), Specials(BOS, EOS, (PAD,))
    sources, lengths = ImagesAndTokens(images(), SOURCES), torch.tensor([6, 6, 6])
    assert len(sources) == 3 and sources.device == SOURCES.device
    greedy = greedy_search(model, sources, lengths, specials, 0.6)
    beam = beam_search(model, sources, lengths, specials, 1, 0.6, 1)
    assert [only.tokens for [only] in greedy] == [only.tokens for [only] in beam]
    short = ImagesAndTokens(images()[1:2], SOURCES[1:2, :3])
    [[alone]] = greedy_search(model, short, lengths[:1], specials, 0.6)
    assert alone.tokens == greedy[1][0].tokens
    assert alone.log_prob == pytest.approx(greedy[1][0].log_prob)
    assert greedy[0][0].log_prob != greedy[2][0].log_prob  # one sentence, two images


def test_with_closed_gates_it_is_the_transformer() -> None:
    """A gate of 0 leaves the sentence as it is, so the same weights predict the same."""
    model = multimodal()
    model.fusion.gate.bias.fill_(-1e9)
    config = TransformerConfig.model_validate({**SMALL, "dropout": 0.0})
    text = Transformer(config, VOCABULARY, VOCABULARY).double().eval()
    strange = text.load_state_dict(model.state_dict(), strict=False)
    assert not strange.missing_keys
    assert all(name.startswith(("fusion.", "image_")) for name in strange.unexpected_keys)
    torch.testing.assert_close(model(images(), SOURCES, TARGETS), text(SOURCES, TARGETS))
    assert float(model.gates(images(), SOURCES).max()) == 0


def test_the_fusion_is_the_mean_of_text_and_image_that_its_gates_weigh() -> None:
    fusion = multimodal().fusion
    text, patches = torch.randn(2, 5, 16).double(), torch.randn(2, 4, 16).double()
    seen, gates = fusion.parts(text, patches)
    by_hand = torch.sigmoid(
        text @ fusion.gate.weight[:, :16].T + seen @ fusion.gate.weight[:, 16:].T + fusion.gate.bias
    )
    torch.testing.assert_close(gates, by_hand)
    torch.testing.assert_close(fusion(text, patches), (1 - gates) * text + gates * seen)
    assert float(gates.min()) > 0 and float(gates.max()) < 1
    fresh = SelectiveFusion(multimodal().config)
    assert not fresh.gate.bias.any()  # the gates begin half open


def test_gates_are_a_number_for_each_source_token() -> None:
    found = multimodal().gates(images(), SOURCES)
    assert found.shape == SOURCES.shape
    assert float(found.min()) > 0 and float(found.max()) < 1
    assert not torch.equal(found[0], found[2])  # the image decides too


def test_every_part_learns_from_the_image() -> None:
    model = multimodal().requires_grad_(True)
    model(images(), SOURCES, TARGETS).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and float(parameter.grad.abs().sum()) > 0, name


def test_it_names_its_attention_and_its_layers() -> None:
    model = multimodal(image_layers=2)
    counts = {kind: len(modules) for kind, modules in model.attentions().items()}
    assert counts == {"cross": 2, "encoder": 1, "decoder": 2, "image": 1}
    assert len(list(model.layers())) == 5 == model.config.depth
    assert "1+2 layers" in model.config.shape() and "2 over patches of 4" in model.config.shape()


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_a_model_without_memory_is_filled_whole(positions: str) -> None:
    model = multimodal(patch_positions=positions)
    empty = build_without_memory(
        lambda: MultimodalTransformer(model.config, ImageShape(8), VOCABULARY, VOCABULARY)
    )
    assign_weights(empty, dict(model.named_parameters()))
    inputs = images(1), SOURCES[:1], TARGETS[:1]
    torch.testing.assert_close(empty.double()(*inputs), model(*inputs))


def test_patches_that_do_not_cover_an_image_are_refused() -> None:
    with pytest.raises(ValueError, match="8 pixels are not divisible into patches of 3"):
        multimodal(patch_size=3)

"""The captioner: cached decoding, patches that are seen, and its place among the models."""

import pytest
import torch
from torch import Tensor

from crosshead.addons.vision.models.captioner import Captioner, CaptionerConfig
from crosshead.addons.vision.models.image_encoder import ImageShape
from crosshead.bundle.weights import assign_weights, build_without_memory
from crosshead.decoding.beam import beam_search
from crosshead.decoding.hypotheses import Specials
from crosshead.decoding.search import greedy_search
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.vocabulary import BOS, EOS, PAD

SMALL = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 4}
VOCABULARY = 11


def captioner(**settings: object) -> Captioner:
    torch.manual_seed(0)
    config = CaptionerConfig.model_validate({**SMALL, "dropout": 0.0, **settings})
    model = Captioner(config, ImageShape(8), VOCABULARY).double().eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def images(count: int = 3) -> Tensor:
    return torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(1)).double() * 2 - 1


VARIANTS = [{}, {"norm": "pre", "patch_positions": "sinusoidal"}, {"positions": "rotary"}]


@pytest.mark.parametrize("settings", VARIANTS)
def test_decoding_step_by_step_is_reading_at_once(settings: dict[str, object]) -> None:
    model, target = captioner(**settings), torch.tensor([[BOS, 4, 5, 6], [BOS, 7, 8, 9]])
    whole = model(images(2), target)
    state = model.start(images(2)).select(torch.tensor([1, 0]))
    for place in range(4):
        hidden, state = model.step(state, target[[1, 0], place : place + 1])
        torch.testing.assert_close(model.logits(hidden), whole[[1, 0], place])


def test_a_beam_of_one_is_greedy_and_batches_change_nothing() -> None:
    model, specials = captioner(), Specials(BOS, EOS, (PAD,))
    lengths = torch.tensor([6, 6, 6])
    greedy = greedy_search(model, images(), lengths, specials, 0.6)
    beam = beam_search(model, images(), lengths, specials, 1, 0.6, 1)
    assert [only.tokens for [only] in greedy] == [only.tokens for [only] in beam]
    for row in range(3):
        [[alone]] = greedy_search(model, images()[row : row + 1], lengths[:1], specials, 0.6)
        assert alone.tokens == greedy[row][0].tokens
    assert len({each.log_prob for [each] in greedy}) == 3  # the image matters


def test_a_captioner_is_a_transformer_whose_memory_are_patches() -> None:
    """With the same decoder weights and memory, both predict the same."""
    model = captioner()
    torch.manual_seed(0)
    text = Transformer(TransformerConfig.model_validate({**SMALL, "tie": "two-way"}), 5, VOCABULARY)
    text = text.double().eval()
    shared = {k: v for k, v in model.state_dict().items() if not k.startswith("encoder.")}
    missing, strange = text.load_state_dict(shared, strict=False)
    assert not strange and all(name.startswith(("encoder.", "source_")) for name in missing)
    memory, mask = model.encode(images(2))
    assert memory.shape == (2, 4, 16) and mask is None
    text.encode = lambda source: (memory, None)  # type: ignore[method-assign]
    target = torch.tensor([[BOS, 4, 5], [BOS, 6, 7]])
    torch.testing.assert_close(text(target, target), model(images(2), target))


def test_it_names_its_attention_and_its_layers() -> None:
    model = captioner()
    found = model.attentions()
    assert {kind: len(modules) for kind, modules in found.items()} == {
        "cross": 2, "encoder": 1, "decoder": 2,
    }  # fmt: skip
    assert len(list(model.layers())) == 3 == model.config.depth
    assert len(list(model.called_alone())) == 2
    assert "1+2 layers" in model.config.shape() and "patches of 4" in model.config.shape()
    assert model.projection.weight is model.target_embeddings.weight
    assert captioner(tie="none").projection.weight is not None
    untied = captioner(tie="none")
    assert untied.projection.weight is not untied.target_embeddings.weight


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_a_model_without_memory_is_filled_whole(positions: str) -> None:
    model = captioner(patch_positions=positions)
    empty = build_without_memory(lambda: Captioner(model.config, ImageShape(8), VOCABULARY))
    assign_weights(empty, dict(model.named_parameters()))
    target = torch.tensor([[BOS, 4]])
    torch.testing.assert_close(empty.double()(images(1), target), model(images(1), target))


def test_patches_that_do_not_cover_an_image_are_refused() -> None:
    with pytest.raises(ValueError, match="8 pixels are not divisible into patches of 3"):
        captioner(patch_size=3)

"""The same numbers as Hugging Face's GPT-2, with its weights."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel

from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from tests.attention.torch_weights import check_gradients, copy_same, randomise

VOCABULARY, LENGTH = 31, 12
CONFIG = LanguageConfig(
    layers=3, d_model=32, d_ff=48, heads=4, dropout=0.0, positions="learned", max_length=LENGTH,
    activation="gelu-tanh",
)  # fmt: skip


@pytest.fixture
def theirs() -> GPT2LMHeadModel:
    """A random one with the activation that is GPT-2's, whose output is not tied to its input.

    Ours multiplies embeddings by sqrt(d_model), so that the copied ones are not the projection.
    """
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=32, n_inner=48, n_layer=3, n_head=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        initializer_range=0.3, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).double()
    randomise(model)
    return model


@torch.no_grad()
def copy_gpt2(theirs: GPT2LMHeadModel, ours: TransformerLanguageModel, scale: float) -> None:
    """Every weight of theirs to its place in ours, the embeddings times `scale`."""
    body = theirs.transformer
    ours.embeddings.weight.copy_(body.wte.weight * scale)
    ours.embeddings.positions.table.copy_(body.wpe.weight)
    ours.projection.weight.copy_(theirs.lm_head.weight)
    copy_same(body.ln_f, ours.stack.norm)
    for layer, mine in zip(body.h, ours.stack.layers, strict=True):
        copy_same(layer.ln_1, mine.add_norm_attention.norm)
        copy_same(layer.ln_2, mine.add_norm_feedforward.norm)
        width = CONFIG.d_model
        packed = mine.attention
        _copy_transposed(layer.attn.c_attn, packed.query, slice(width))
        _copy_transposed(layer.attn.c_attn, packed.key_value, slice(width, None))
        _copy_transposed(layer.attn.c_proj, packed.output, slice(None))
        _copy_transposed(layer.mlp.c_fc, mine.feedforward.inner, slice(None))
        _copy_transposed(layer.mlp.c_proj, mine.feedforward.outer, slice(None))


def _copy_transposed(theirs: nn.Module, ours: nn.Linear, outputs: slice) -> None:
    ours.weight.copy_(theirs.weight[:, outputs].T)
    ours.bias.copy_(theirs.bias[outputs])


def test_it_is_gpt2_in_logits_and_gradients(theirs: GPT2LMHeadModel) -> None:
    ours = TransformerLanguageModel(CONFIG, VOCABULARY).double()
    root = CONFIG.d_model**0.5
    copy_gpt2(theirs, ours, 1 / root)
    text = torch.randint(1, VOCABULARY, (3, LENGTH))
    labels = torch.randint(1, VOCABULARY, (3, LENGTH))

    expected, logits = theirs(input_ids=text).logits, ours(text)
    torch.testing.assert_close(logits, expected, rtol=1e-10, atol=1e-10)

    for each in (expected, logits):
        F.cross_entropy(each.flatten(0, 1), labels.flatten()).backward()
    check_gradients(theirs, ours, lambda one, other: copy_gpt2(one, other, root))

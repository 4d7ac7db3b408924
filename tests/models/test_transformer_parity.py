"""The same numbers as other people's Transformers, with their weights."""

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import MarianMTModel

from crosshead.decoding.hypotheses import Specials
from crosshead.decoding.search import search
from crosshead.decoding.settings import DecodeConfig
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.vocabulary import EOS, PAD
from tests.attention.torch_weights import check_gradients, copy_decoder, copy_encoder, randomise
from tests.models.marian_weights import copy_marian, marian_config
from tests.parameters import mostly_slow

VOCABULARY = 31


def pieces(*lengths: int, seed: int) -> Tensor:
    """Random sentences that end with eos, padded."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for length in lengths:
        row = torch.randint(4, VOCABULARY, (length,), generator=generator)
        row[-1] = EOS
        rows.append(row)
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


# torch.nn.Transformer


def torch_transformer(config: TransformerConfig) -> nn.Transformer:
    """Pre-norm as a whole; post-norm of their encoder and decoder without their final norms."""
    sizes = {
        "d_model": config.d_model, "nhead": config.heads,
        "dim_feedforward": config.d_ff, "dropout": 0.0, "batch_first": True,
    }  # fmt: skip
    encoder = decoder = None
    if config.norm == "post":
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**sizes), config.encoder_layers, enable_nested_tensor=False
        )
        decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**sizes), config.decoder_layers)
    with pytest.warns(UserWarning, match="norm_first") if config.norm == "pre" else nullcontext():
        theirs = nn.Transformer(
            **sizes,
            num_encoder_layers=config.encoder_layers,
            num_decoder_layers=config.decoder_layers,
            norm_first=config.norm == "pre",
            custom_encoder=encoder,
            custom_decoder=decoder,
        )
    theirs = theirs.double()
    for parameter in theirs.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    randomise(theirs)
    return theirs


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_it_is_the_transformer_of_torch(norm: str) -> None:
    """Theirs is given our embeddings and our output projection, which it lacks."""
    torch.manual_seed(0)
    config = TransformerConfig(
        encoder_layers=2, decoder_layers=3, d_model=16, d_ff=24, heads=4, dropout=0.0, norm=norm
    )
    ours, theirs = Transformer(config, VOCABULARY, VOCABULARY).double(), torch_transformer(config)
    copy_encoder(theirs.encoder, ours.encoder)
    copy_decoder(theirs.decoder, ours.decoder)
    source, target = pieces(5, 3, seed=1), pieces(4, 6, seed=2)
    labels = pieces(4, 6, seed=3)

    expected = ours.projection(
        theirs(
            ours.source_embeddings(source),
            ours.target_embeddings(target),
            tgt_mask=torch.ones(6, 6, dtype=torch.bool).triu(1),
            src_key_padding_mask=source == PAD,
            memory_key_padding_mask=source == PAD,
        )
    )
    F.cross_entropy(expected.flatten(0, 1), labels.flatten(), ignore_index=PAD).backward()
    expected_gradient = ours.projection.weight.grad
    ours.zero_grad()
    logits = ours(source, target)
    F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD).backward()

    torch.testing.assert_close(logits, expected)
    torch.testing.assert_close(ours.projection.weight.grad, expected_gradient)
    check_gradients(theirs.encoder, ours.encoder, copy_encoder)
    check_gradients(theirs.decoder, ours.decoder, copy_decoder)


# Hugging Face's Marian


def shape(activation: str) -> TransformerConfig:
    return TransformerConfig(
        encoder_layers=2, decoder_layers=3, d_model=32, d_ff=48, heads=4, dropout=0.0,
        positions="sinusoidal-halves", start="pad", output_bias=True, activation=activation,
    )  # fmt: skip


def marian(activation: str) -> MarianMTModel:
    """A random one whose logits spread: as it initialises itself, it is nearly uniform."""
    torch.manual_seed(0)
    theirs = MarianMTModel(marian_config(shape(activation), VOCABULARY))
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad and parameter.dim() > 1:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    return theirs


def beside(theirs: MarianMTModel) -> tuple[MarianMTModel, Transformer]:
    """Theirs with biases that matter and in float64, and ours with its weights."""
    theirs = theirs.double()
    theirs.final_logits_bias.copy_(0.3 * torch.randn(1, VOCABULARY))
    theirs.final_logits_bias[0, PAD] = -1e4  # theirs would write it
    config = shape(theirs.config.activation_function)
    ours = Transformer(config, VOCABULARY, VOCABULARY).double()
    copy_marian(theirs, ours)
    return theirs, ours


def marian_pair(activation: str) -> tuple[MarianMTModel, Transformer]:
    theirs = marian(activation)
    randomise(theirs)
    return beside(theirs)


@pytest.fixture(scope="module", params=mostly_slow(["relu", "swish"], ["relu"]))
def half_trained(request: pytest.FixtureRequest) -> tuple[MarianMTModel, Transformer]:
    """Both, after theirs has learned to copy a little: its outputs end, at various lengths."""
    theirs = marian(request.param)
    optimiser = torch.optim.Adam(theirs.parameters(), lr=3e-3)
    for update in range(80):
        source = pieces(*(2 + (update + row) % 8 for row in range(24)), seed=update)
        loss = theirs(
            input_ids=source,
            attention_mask=source != PAD,
            labels=source.masked_fill(source == PAD, -100),
        ).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    theirs, ours = beside(theirs)
    return theirs.eval(), ours.eval()


@pytest.mark.parametrize("activation", ["relu", "swish"])
def test_it_is_marian_in_logits_loss_and_gradients(activation: str) -> None:
    theirs, ours = marian_pair(activation)
    source, labels = pieces(7, 4, 2, seed=1), pieces(5, 8, 3, seed=2)
    outputs = theirs(
        input_ids=source,
        attention_mask=source != PAD,
        labels=labels.masked_fill(labels == PAD, -100),
    )
    outputs.loss.backward()

    target = torch.cat((torch.full((3, 1), ours.config.start_token), labels[:, :-1]), dim=1)
    logits = ours(source, target)
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)
    loss.backward()

    torch.testing.assert_close(logits, outputs.logits, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(loss, outputs.loss, rtol=1e-7, atol=1e-7)
    # Their output bias is not trained; ours is, so its gradient is checked against the softmax.
    share = logits.softmax(-1) - F.one_hot(labels, VOCABULARY)
    real = labels != PAD
    torch.testing.assert_close(ours.projection.bias.grad, share[real].sum(0) / real.sum())
    theirs.final_logits_bias.copy_(ours.projection.bias.grad)
    for fixed in (theirs.model.encoder.embed_positions, theirs.model.decoder.embed_positions):
        fixed.weight.grad = torch.zeros_like(fixed.weight)
    check_gradients(theirs, ours, copy_marian)


def test_it_is_marian_in_evaluation_mode_with_a_gelu_too() -> None:
    theirs, ours = marian_pair("gelu")
    source, target = pieces(7, 4, seed=1), pieces(5, 8, seed=2)
    expected = theirs.eval()(
        input_ids=source, attention_mask=source != PAD, decoder_input_ids=target
    ).logits
    real = target != PAD
    torch.testing.assert_close(ours.eval()(source, target)[real], expected[real])


def written(sequences: Tensor) -> list[list[int]]:
    """What `generate` gives, without the start token, eos and what follows it."""
    rows = []
    for row in sequences[:, 1:].tolist():
        rows.append(row[: row.index(EOS)] if EOS in row else row)
    return rows


SOURCE = pieces(9, 7, 7, 5, 4, 2, 8, 3, 6, 9, 5, 4, seed=1000)


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_search_writes_what_generate_writes(
    half_trained: tuple[MarianMTModel, Transformer], beam: int
) -> None:
    """Beams at length penalty 0, since theirs is not GNMT's, stopping once `beam` have finished."""
    theirs, ours = half_trained
    beams = {"length_penalty": 0.0, "early_stopping": True} if beam > 1 else {}
    sequences = theirs.generate(
        input_ids=SOURCE, attention_mask=SOURCE != PAD,
        num_beams=beam, do_sample=False, max_new_tokens=20, **beams,
    )  # fmt: skip
    expected = written(sequences)
    assert len({len(row) for row in expected}) > 3, "the outputs should differ in length"
    limits = torch.full((len(SOURCE),), 20)
    config = DecodeConfig(beam=beam, length_penalty=0.0)
    found = search(ours, SOURCE, limits, Specials(start=PAD, eos=EOS), config)
    assert [best[0].tokens for best in found] == expected

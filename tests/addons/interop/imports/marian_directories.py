"""Small Marian models of Hugging Face, with SentencePiece models learned from real text."""

import json
from collections.abc import Sequence
from pathlib import Path

import sentencepiece
import torch
import transformers
from torch import nn

from tests.addons.interop.sentencepieces import learned, marian_vocabulary

__all__ = ["learned", "marian_vocabulary"]

POSITIONS = 64


def marian_config(
    vocabulary: int, target: int | None = None, **settings: object
) -> "transformers.MarianConfig":
    """The configuration of a small Marian as the converter of transformers writes it."""
    values = {
        "d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
        "activation_function": "swish", "scale_embedding": True, "dropout": 0.1,
        "max_position_embeddings": POSITIONS, "vocab_size": vocabulary,
        "pad_token_id": vocabulary - 1, "decoder_start_token_id": vocabulary - 1,
        "eos_token_id": 0, "forced_eos_token_id": 0,
    }  # fmt: skip
    if target is not None:
        values |= {"decoder_vocab_size": target, "share_encoder_decoder_embeddings": False}
    return transformers.MarianConfig(**{**values, **settings})


def half_trained(
    config: "transformers.MarianConfig",
    pairs: Sequence[tuple[list[int], list[int]]],
    updates: int = 120,
) -> "transformers.MarianMTModel":
    """A model that has learned a little: its outputs differ, and end at various lengths."""
    torch.manual_seed(0)
    model = transformers.MarianMTModel(config)
    pad = config.pad_token_id
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and parameter.requires_grad:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
            elif parameter.dim() == 1 and "layer_norm" not in name:
                nn.init.normal_(parameter, std=0.1)
        for side in (model.model.encoder, model.model.decoder):
            side.embed_tokens.weight[pad] = 0
        model.final_logits_bias.normal_(std=0.1)
        model.final_logits_bias[0, pad] = 0
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    for update in range(updates):
        rows = [pairs[(16 * update + row) % len(pairs)] for row in range(16)]
        source, target = (
            nn.utils.rnn.pad_sequence(
                [torch.tensor([*row[side], config.eos_token_id]) for row in rows],
                batch_first=True, padding_value=pad,
            )
            for side in (0, 1)
        )  # fmt: skip
        labels = target.masked_fill(target == pad, -100)
        loss = model(input_ids=source, attention_mask=source != pad, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.final_logits_bias[0, config.eos_token_id] += 0.5
    return model.eval()


def encoded(model: bytes, ids: dict[str, int], lines: Sequence[str]) -> list[list[int]]:
    """The ids of lines, without the end."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [[ids.get(piece, 1) for piece in row] for row in processor.encode(lines, out_type=str)]


def write_directory(
    directory: Path,
    model: "transformers.MarianMTModel",
    spms: tuple[bytes, bytes],
    vocabularies: Sequence[dict[str, int]],
    languages: tuple[str, str] = ("en", "de"),
) -> Path:
    """Write the files of a Marian directory, as the converter of transformers does."""
    directory.mkdir(parents=True, exist_ok=True)
    config = model.config
    model.generation_config = transformers.GenerationConfig(
        num_beams=4, max_length=POSITIONS, bad_words_ids=[[config.pad_token_id]],
        pad_token_id=config.pad_token_id, eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
        forced_eos_token_id=config.eos_token_id,
    )  # fmt: skip
    model.save_pretrained(directory)
    for name, spm in zip(("source.spm", "target.spm"), spms, strict=True):
        (directory / name).write_bytes(spm)
    for name, ids in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
        (directory / name).write_text(json.dumps(ids, indent=2, ensure_ascii=False))
    tokenizer = {
        "source_lang": languages[0], "target_lang": languages[1], "model_max_length": POSITIONS,
        "separate_vocabs": len(vocabularies) == 2, "tokenizer_class": "MarianTokenizer",
    }  # fmt: skip
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=2))
    return directory

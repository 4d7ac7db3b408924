"""`tokenizer.json` of a language model gives crosshead's ids for texts of several lines."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from crosshead.addons.interop.language_tokenizer import LINE_BREAK, tokenizer_files
from crosshead.text.streams import decode_text, encode_text
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.vocabulary import EOS
from tests.addons.interop.small_bundles import TEXT, byte_level_tokenizer

LINES = [*TEXT["source"], *TEXT["target"]]
TEXTS = (
    "a dog runs\nthe dog", "\n", "a\n\nb", "  two  spaces \n and more ", "<0x41>", "<2de> a dog",
    "a<2de>b\n<2de>", "ein Hund, \u2581\u2585\x1a1 日本", "r\tun\r\n",
)  # fmt: skip


@pytest.mark.parametrize("special", [[], ["<2de>", "<2"]], ids=["plain", "special"])
@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters", "bytes"])
def test_the_ids_and_the_texts_are_crossheads(kind: str, special: list[str]) -> None:
    size = {"bpe": 310, "unigram": 295}.get(kind)
    settings = TokenizerConfig(kind=kind, vocab_size=size, special=special)
    tokenizer = train_tokenizer(settings, LINES)
    files = tokenizer_files(tokenizer, 30)
    theirs = Tokenizer.from_str(files["tokenizer.json"].decode())
    assert theirs.get_vocab_size() == tokenizer.vocab_size
    for text in (*TEXTS, *LINES[:2]):
        ids = encode_text(tokenizer, text).tolist()
        assert theirs.encode(text).ids == [EOS, *ids], text
        # Unlike crosshead, the library leaves out no space if the ids begin in a line.
        shown = theirs.decode([EOS, *ids], skip_special_tokens=False)
        assert shown == LINE_BREAK + decode_text(tokenizer, ids), text


def test_an_imported_file_is_written_as_it_was() -> None:
    tokenizer = byte_level_tokenizer(LINES)
    files = tokenizer_files(tokenizer, 30)
    assert files["tokenizer.json"] == tokenizer.model
    settings = json.loads(files["tokenizer_config.json"])
    assert settings["eos_token"] == settings["bos_token"] == "<|endoftext|>"
    assert "pad_token" not in settings and settings["model_max_length"] == 30


def test_transformers_loads_the_files(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = train_tokenizer(TokenizerConfig(kind="characters"), LINES)
    for name, data in tokenizer_files(tokenizer, 30).items():
        (tmp_path / name).write_bytes(data)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded("a dog")["input_ids"] == [EOS, *tokenizer.encode("a dog")]
    assert (loaded.pad_token_id, loaded.unk_token_id, loaded.eos_token_id) == (0, 3, None)

"""A `tokenizer.json` as the tokenizer of an imported language model."""

import hashlib
import json
from pathlib import Path

import pytest

from crosshead.addons.interop.language_tokenizer import tokenizer_files
from crosshead.errors import ConfigError, DamagedBundle, DataError, UserError
from crosshead.text import json_tokenizer
from crosshead.text.json_tokenizer import JsonTokenizer
from crosshead.text.streams import RunningText, Stream, encode_text, with_prompt_start
from crosshead.text.tokenizers import TokenizerConfig, load_tokenizer, train_tokenizer
from crosshead.vocabulary import EOS, UNK
from tests.addons.interop.byte_level import END, byte_level
from tests.addons.interop.small_bundles import TEXT, byte_level_tokenizer

TEXTS = [
    "",
    "a dog runs",
    "  two  spaces \n\n\n and lines\n",
    f"a {END} b",
    "日本 ½ ﬁ 🐕\r\n\t\x00",
]


@pytest.fixture(scope="module")
def tokenizer() -> JsonTokenizer:
    return byte_level_tokenizer([*TEXT["source"], *TEXT["target"]])


@pytest.mark.parametrize("text", TEXTS)
def test_every_text_comes_back(tokenizer: JsonTokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text and tokenizer.unknown(text) == []
    assert not {0, 1, EOS, UNK} & set(ids)  # the name of a control token is plain text
    assert encode_text(tokenizer, text).tolist() == ids


def test_ids_are_those_of_the_library_in_another_order(tokenizer: JsonTokenizer) -> None:
    theirs = byte_level([*TEXT["source"], *TEXT["target"]])
    rows = tokenizer.vocabulary.rows
    for text in (TEXTS[1], TEXTS[2], TEXTS[4]):
        ids = tokenizer.encode(text)
        assert [rows[index] for index in ids] == theirs.encode(text).ids
        assert tokenizer.pieces(ids) == theirs.encode(text).tokens
    assert tokenizer.vocab_size == theirs.get_vocab_size() + 3  # of four, GPT-2 has the end only
    assert tokenizer.pieces([EOS]) == [END] and tokenizer.decode([EOS, 0, 1, UNK]) == ""


def test_a_prompt_has_nothing_before_it(tokenizer: JsonTokenizer) -> None:
    assert with_prompt_start(tokenizer, [9, 8]) == [9, 8]
    assert with_prompt_start(tokenizer, []) == [EOS]


def test_what_a_file_puts_before_a_text_stands_before_a_prompt() -> None:
    own = train_tokenizer(TokenizerConfig(kind="bytes"), [])
    model = tokenizer_files(own, 30)["tokenizer.json"]
    tokenizer = JsonTokenizer(model, own.vocab_size, (0, 1, 2, 3))
    assert tokenizer.prompt_start == own.prompt_start == (EOS,)
    assert with_prompt_start(tokenizer, []) == [EOS]
    assert encode_text(tokenizer, "a\nb").tolist() == encode_text(own, "a\nb").tolist()


def test_an_id_before_a_text_that_the_model_lacks_is_refused() -> None:
    stored = json.loads(byte_level(TEXT["source"]).to_str())
    stored["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "x", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"x": {"id": "x", "ids": [5000], "tokens": ["x"]}},
    }
    size = len(stored["model"]["vocab"]) + 1
    with pytest.raises(ValueError, match=r"puts the ids \[5000\] before a text"):
        JsonTokenizer(json.dumps(stored).encode(), size, (None, None, size - 1, None))


def test_text_is_shown_while_it_is_written(tokenizer: JsonTokenizer) -> None:
    running = RunningText(tokenizer)
    shown = [running.add([index]) for index in tokenizer.encode("a dog\n🐕 runs")]
    assert "".join(shown) + running.rest() == "a dog\n🐕 runs"
    assert not any("\ufffd" in each for each in shown)
    assert Stream.of(tokenizer, "a\nb c").characters == 4


def test_more_rows_than_tokens_get_placeholders() -> None:
    found = byte_level(TEXT["source"], 270).to_str().encode()
    tokenizer = JsonTokenizer(found, 303, (None, None, 269, None))
    assert tokenizer.vocab_size == 306 and tokenizer.pieces([305]) == ["<|unused 302|>"]
    assert tokenizer.decode([305]) == ""
    with pytest.raises(ValueError, match="has the id 269, but the model has 200 ids"):
        JsonTokenizer(found, 200, (None, None, 0, None))


def test_it_is_stored_and_loaded(tokenizer: JsonTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path, "tokenizer")
    again = load_tokenizer(tmp_path, "tokenizer")
    assert isinstance(again, JsonTokenizer) and again.model == tokenizer.model
    assert again.encode(TEXTS[2]) == tokenizer.encode(TEXTS[2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": "many"}, r"'size' is 'many', expected a number of ids"),
        ({"size": 10}, r"has the id 299, but the model has 10 ids"),
        ({"control": [None]}, r"'control' is not a list of 4 ids"),
        ({"model_sha256": "0"}, r"its SHA-256 is not the one in tokenizer\.json"),
    ],
)
def test_damaged_files_are_refused(
    tokenizer: JsonTokenizer, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    tokenizer.save(tmp_path, "tokenizer")
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DamagedBundle, match=message):
        load_tokenizer(tmp_path, "tokenizer")


def test_a_file_that_is_no_tokenizer_is_refused(tokenizer: JsonTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path, "tokenizer")
    (tmp_path / "tokenizer.model").write_bytes(b"{}")
    path = tmp_path / "tokenizer.json"
    digest = hashlib.sha256(b"{}").hexdigest()
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_sha256": digest}))
    with pytest.raises(DamagedBundle, match="no tokenizer of the library tokenizers"):
        load_tokenizer(tmp_path, "tokenizer")


def test_what_it_cannot_do_is_refused(
    tokenizer: JsonTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="lone surrogate"):
        tokenizer.encode("a\ud800")
    with pytest.raises(DataError, match="does not fill gaps"):
        tokenizer.encode_gaps(["a", "b"], 1)
    with pytest.raises(ConfigError, match="the tokenizer of imported models, which cannot be"):
        train_tokenizer(TokenizerConfig(kind="tokenizer-json"), ["a"])

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(json_tokenizer.importlib, "import_module", missing)
    with pytest.raises(UserError, match=r"pip install 'crosshead\[gpt2\]'"):
        JsonTokenizer(tokenizer.model, 300, (None, None, 299, None))

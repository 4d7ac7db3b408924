"""Tokenizers of imported models: pieces of SentencePiece under the ids of another vocabulary."""

import hashlib
import json
from pathlib import Path

import pytest

from crosshead.addons.interop.tokenizer_json import tokenizer_files
from crosshead.errors import ConfigError, DamagedBundle, DataError, UserError
from crosshead.text import imported
from crosshead.text.imported import ForeignVocabulary, ImportedTokenizer, JsonTokenizer
from crosshead.text.streams import RunningText, Stream, encode_text, with_prompt_start
from crosshead.text.tokenizers import TokenizerConfig, load_tokenizer, train_tokenizer
from crosshead.vocabulary import EOS, PAD, UNK
from tests.addons.interop.byte_level import END, byte_level
from tests.addons.interop.imports.marian_directories import learned, marian_vocabulary
from tests.addons.interop.small_bundles import TEXT, byte_level_tokenizer

LINES = ["a dog runs in the park", "two dogs sit on a bench", "the park has a green bench"] * 20


@pytest.fixture(scope="module")
def tokenizer() -> ImportedTokenizer:
    model = learned(LINES, 60)
    ids = marian_vocabulary(model, more=[">>deu<<"])
    pieces = tuple(piece for piece in ids if "w" not in piece)  # `two` has an unknown piece
    return ImportedTokenizer(model, ForeignVocabulary(pieces, (len(pieces) - 1, None, 0, 1)))


def test_the_control_tokens_come_first_and_the_others_keep_their_order() -> None:
    vocabulary = ForeignVocabulary(("</s>", "<unk>", "a", "b", "<pad>"), (4, None, 0, 1))
    assert vocabulary.rows == [4, None, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("pieces", "control"),
    [(("a", "b", "a"), (0, None, 1, 2)), (("a", "b"), (0, None, 1, 2)), (("a",), (0, 0, 0, 0))],
)
def test_a_vocabulary_that_does_not_fit_is_refused(
    pieces: tuple[str, ...], control: tuple[int | None, ...]
) -> None:
    with pytest.raises(ValueError, match=r"occurs 2 times|are not ids"):
        ForeignVocabulary(pieces, control)  # type: ignore[arg-type]


def test_text_comes_back_normalised(tokenizer: ImportedTokenizer) -> None:
    ids = tokenizer.encode("  a dog   sits on a bench ")
    assert tokenizer.decode([PAD, *ids, EOS]) == "a dog sits on a bench"
    assert min(ids) > UNK and tokenizer.encode_lines(["a dog"]) == [tokenizer.encode("a dog")]


def test_a_piece_outside_the_vocabulary_is_unknown(tokenizer: ImportedTokenizer) -> None:
    assert tokenizer.encode("two dogs").count(UNK) == 1
    [unknown] = tokenizer.unknown("two dogs")
    assert "w" in unknown and tokenizer.unknown("the dogs") == []
    assert "<unk>" in tokenizer.decode(tokenizer.encode("two dogs"))


def test_a_lone_surrogate_is_no_text(tokenizer: ImportedTokenizer) -> None:
    with pytest.raises(DataError, match="lone surrogate"):
        tokenizer.encode("a \ud800")


def test_line_breaks_are_found() -> None:
    model = learned(LINES, 60)
    pieces = ("</s>", "<unk>", "a\nb", "<0x0A>", "c")
    assert ImportedTokenizer(model, ForeignVocabulary(pieces, (None, None, 0, 1))).line_breaks == {
        4,
        5,
    }


def test_it_is_loaded_as_it_was_saved(tokenizer: ImportedTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path, "source")
    again = load_tokenizer(tmp_path, "source")
    line = ">>deu<< the dog, and ½"
    assert again.encode(line) == tokenizer.encode(line)
    assert (again.kind, again.special, again.vocab_size) == (
        "sentencepiece", [">>deu<<"], tokenizer.vocab_size,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"), [("control", [0]), ("control", "x"), ("pieces", [1]), ("pieces", ["a", "a"])]
)
def test_damaged_metadata_are_refused(
    tokenizer: ImportedTokenizer, tmp_path: Path, key: str, value: object
) -> None:
    tokenizer.save(tmp_path, "source")
    path = tmp_path / "source.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(DamagedBundle):
        load_tokenizer(tmp_path, "source")


def test_it_cannot_be_learned() -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.kind is 'sentencepiece'"):
        train_tokenizer(TokenizerConfig(kind="sentencepiece"), LINES)


TEXTS = [
    "",
    "a dog runs",
    "  two  spaces \n\n\n and lines\n",
    f"a {END} b",
    "日本 ½ ﬁ 🐕\r\n\t\x00",
]


@pytest.fixture(scope="module")
def gpt2() -> JsonTokenizer:
    return byte_level_tokenizer([*TEXT["source"], *TEXT["target"]])


@pytest.mark.parametrize("text", TEXTS)
def test_every_text_comes_back(gpt2: JsonTokenizer, text: str) -> None:
    ids = gpt2.encode(text)
    assert gpt2.decode(ids) == text and gpt2.unknown(text) == []
    assert not {0, 1, EOS, UNK} & set(ids)  # the name of a control token is plain text
    assert encode_text(gpt2, text).tolist() == ids


def test_ids_are_those_of_the_library_in_another_order(gpt2: JsonTokenizer) -> None:
    theirs = byte_level([*TEXT["source"], *TEXT["target"]])
    rows = gpt2.vocabulary.rows
    for text in (TEXTS[1], TEXTS[2], TEXTS[4]):
        ids = gpt2.encode(text)
        assert [rows[index] for index in ids] == theirs.encode(text).ids
        assert gpt2.pieces(ids) == theirs.encode(text).tokens
    assert gpt2.vocab_size == theirs.get_vocab_size() + 3  # of four, GPT-2 has the end only
    assert gpt2.pieces([EOS]) == [END] and gpt2.decode([EOS, 0, 1, UNK]) == ""


def test_a_prompt_has_nothing_before_it(gpt2: JsonTokenizer) -> None:
    assert with_prompt_start(gpt2, [9, 8]) == [9, 8]
    assert with_prompt_start(gpt2, []) == [EOS]


def test_what_a_file_puts_before_a_text_stands_before_a_prompt() -> None:
    own = train_tokenizer(TokenizerConfig(kind="bpe", vocab_size=320), TEXT["source"])
    model = tokenizer_files(own, 30)["tokenizer.json"]
    gpt2 = JsonTokenizer(model, own.vocab_size, (0, 1, 2, 3))
    assert gpt2.prompt_start == own.prompt_start == (EOS,)
    assert with_prompt_start(gpt2, []) == [EOS]
    assert encode_text(gpt2, "a\nb").tolist() == encode_text(own, "a\nb").tolist()


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


def test_text_is_shown_while_it_is_written(gpt2: JsonTokenizer) -> None:
    running = RunningText(gpt2)
    shown = [running.add([index]) for index in gpt2.encode("a dog\n🐕 runs")]
    assert "".join(shown) + running.rest() == "a dog\n🐕 runs"
    assert not any("\ufffd" in each for each in shown)
    assert Stream.of(gpt2, "a\nb c").characters == 4


def test_more_rows_than_tokens_get_placeholders() -> None:
    found = byte_level(TEXT["source"], 270).to_str().encode()
    gpt2 = JsonTokenizer(found, 303, (None, None, 269, None))
    assert gpt2.vocab_size == 306 and gpt2.pieces([305]) == ["<|unused 302|>"]
    assert gpt2.decode([305]) == ""
    with pytest.raises(ValueError, match="has the id 269, but the model has 200 ids"):
        JsonTokenizer(found, 200, (None, None, 0, None))


def test_it_is_stored_and_loaded(gpt2: JsonTokenizer, tmp_path: Path) -> None:
    gpt2.save(tmp_path, "tokenizer")
    again = load_tokenizer(tmp_path, "tokenizer")
    assert isinstance(again, JsonTokenizer) and again.model == gpt2.model
    assert again.encode(TEXTS[2]) == gpt2.encode(TEXTS[2])


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
    gpt2: JsonTokenizer, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    gpt2.save(tmp_path, "tokenizer")
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DamagedBundle, match=message):
        load_tokenizer(tmp_path, "tokenizer")


def test_a_file_that_is_no_tokenizer_is_refused(gpt2: JsonTokenizer, tmp_path: Path) -> None:
    gpt2.save(tmp_path, "tokenizer")
    (tmp_path / "tokenizer.model").write_bytes(b"{}")
    path = tmp_path / "tokenizer.json"
    digest = hashlib.sha256(b"{}").hexdigest()
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_sha256": digest}))
    with pytest.raises(DamagedBundle, match="no tokenizer of the library tokenizers"):
        load_tokenizer(tmp_path, "tokenizer")


def test_what_it_cannot_do_is_refused(gpt2: JsonTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="lone surrogate"):
        gpt2.encode("a\ud800")
    with pytest.raises(ConfigError, match="the tokenizer of imported models, which cannot be"):
        train_tokenizer(TokenizerConfig(kind="tokenizer-json"), ["a"])

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(imported.importlib, "import_module", missing)
    with pytest.raises(UserError, match=r"pip install 'crosshead\[gpt2\]'"):
        JsonTokenizer(gpt2.model, 300, (None, None, 299, None))

"""Imports of Marian's own models compute Marian's equations."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch

from crosshead.addons.interop.imports.marian import read
from crosshead.addons.interop.imports.reading import ForeignModelError
from crosshead.bundle.text_bundle import TextBundle
from crosshead.decoding.settings import DecodeConfig
from crosshead.tasks.translation.translator import Translator
from crosshead.text.imported import ImportedTokenizer
from crosshead.text.synthetic import date_pairs
from crosshead.vocabulary import EOS, UNK
from tests.addons.interop.imports.marian_directories import learned, marian_vocabulary
from tests.addons.interop.imports.marian_equations import (
    Equations,
    random_arrays,
    settings,
    with_a_small_norm,
    write_arrays,
    write_model,
)
from tests.addons.interop.imports.native_marian import NativeMarian
from tests.addons.interop.imports.wrong_values import WRONG

LINES = ["a dog runs in the park", "two dogs sit on a bench", "the park has a green bench"] * 20
SPMS = (learned(LINES, 50), learned([line[::-1] for line in LINES], 50, "bpe"))
PRE = {
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-top": "n",
    "version": "v1.12.42 b7be0e964 2025-05-24 22:34:42 -0700",
}


def size() -> int:
    return len(marian_vocabulary(*SPMS, more=["no", "1e3"])) - 1


def written(
    directory: Path, *, small: bool = False, turned: bool = False, **changes: object
) -> tuple[TextBundle, Equations]:
    options = settings(**changes)
    arrays = random_arrays(options, size())
    arrays = with_a_small_norm(arrays) if small else arrays
    stored = dict(arrays)
    if turned:
        stored["decoder_ff_logit_out_Wt"] = stored.pop("decoder_ff_logit_out_W").T
    write_model(directory, options, stored, SPMS)
    return read(directory, "opus").bundle, Equations(options, arrays)


def foreign(tokenizer: Any) -> list[int]:
    """Marian's id of each of our ids; -1 for control tokens that it lacks."""
    assert isinstance(tokenizer, ImportedTokenizer)
    return [-1 if row is None else row for row in tokenizer.vocabulary.rows]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"small": True},
        PRE,
        {"transformer-ffn-activation": "relu", "transformer-depth-scaling": True},
        {"tied-embeddings-all": False, "tied-embeddings": True},
        {"tied-embeddings-all": False},
        {"tied-embeddings-all": False, "turned": True},
        {"tied-embeddings-all": False, "tied-embeddings-src": True},
        {"dim-emb": 24, "transformer-heads": 2, "enc-depth": 1, "dec-depth": 3},
    ],
)
def test_probabilities_are_those_of_the_equations(tmp_path: Path, changes: dict[str, Any]) -> None:
    bundle, equations = written(tmp_path, **changes)
    rows = foreign(bundle.source_tokenizer)
    known = [n for n, row in enumerate(rows) if row >= 0]
    source = bundle.source_tokenizer.encode("a dog sits on the green bench")
    target = [known[n] for n in range(4, 24)]
    expected = equations.log_probs([rows[n] for n in [*source, EOS]], [rows[n] for n in target])
    with torch.inference_mode():
        fed = torch.tensor([[bundle.specials.start, *target]])
        logits = bundle.model(torch.tensor([[*source, EOS]]), fed)[0]
    found = logits.log_softmax(-1).numpy()[:, known]
    np.testing.assert_allclose(found, expected[:, [rows[n] for n in known]], rtol=0, atol=2e-5)
    absent = [n for n, row in enumerate(rows) if row < 0]
    assert absent == [0, 1] and (logits.softmax(-1)[:, absent] == 0).all()


def test_greedy_translations_are_those_of_the_equations(tmp_path: Path) -> None:
    bundle, equations = written(tmp_path)
    rows = foreign(bundle.source_tokenizer)
    decode = DecodeConfig(beam=1, max_extra=0)
    lines = [*LINES[:3], "a bench", "dogs sit", "the the the", "green park dog"]
    for line, [best] in zip(lines, Translator(bundle).translate(lines, decode=decode), strict=True):
        source = [*bundle.source_tokenizer.encode(line), EOS]
        expected = equations.greedy([rows[n] for n in source], len(source))
        back = {row: n for n, row in enumerate(rows)}
        pieces = bundle.target_tokenizer.pieces([back[token] for token in expected])
        assert [piece for piece in best.pieces if piece != "</s>"] == pieces


def test_a_score_is_the_mean_log_probability_of_the_equations(tmp_path: Path) -> None:
    """`normalize: 1` divides by the number of tokens, the end included."""
    bundle, equations = written(tmp_path)
    rows = foreign(bundle.source_tokenizer)
    pieces = bundle.target_tokenizer.pieces(range(bundle.target_tokenizer.vocab_size))
    for line, [best] in zip(LINES, Translator(bundle).translate(LINES), strict=True):
        source = [rows[n] for n in [*bundle.source_tokenizer.encode(line), EOS]]
        tokens = [rows[pieces.index(piece)] for piece in best.pieces]
        values = equations.log_probs(source, tokens[:-1])
        expected = sum(values[n, token] for n, token in enumerate(tokens)) / len(tokens)
        assert best.score == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "listed"),
    [
        ("--tied-embeddings --transformer-ffn-activation relu", False),
        ("--tied-embeddings-all", False),
        ("--tied-embeddings-all", True),
        (
            "--tied-embeddings-all --transformer-preprocess n --transformer-postprocess da "
            "--transformer-postprocess-top n",
            False,
        ),
    ],
)
def test_a_model_that_marian_trained_is_the_same_model(
    tmp_path: Path, options: str, listed: bool
) -> None:
    """From the second token on, Marian's decoder leaves out a norm of pre-norm models.

    Its training and its scorer have it, so these models are compared by their scores alone.
    """
    python = os.environ.get("PYMARIAN_PYTHON")
    if not python:
        pytest.skip("needs a Python with pymarian in PYMARIAN_PYTHON")
    pairs, number = date_pairs(size=4000), {"source": 0, "target": 1}
    parts = {"train": pairs.train, "test": pairs.test[:200]}
    sides = {
        f"{name}.{s}": [p[n] for p in parts[name]] for name in parts for s, n in number.items()
    }
    joint = "tied-embeddings-all" in options
    marian = NativeMarian(python, tmp_path, sides, joint=joint, listed=listed)
    marian.train(options)
    found = read(tmp_path, "dates")
    translator, sources = Translator(found.bundle), sides["test.source"]

    def scores(bundle: TextBundle) -> list[float]:
        scored = Translator(bundle).score(sources, sides["test.target"])
        return [each.log_prob for each in scored]

    assert scores(found.bundle) == pytest.approx(marian.scores(), abs=1e-4)
    assert bool(found.notes) == (found.bundle.config.model.norm == "pre")
    if not found.notes:
        decode = found.bundle.config.decode.model_copy(update={"beam": 1})
        best = [each for [each] in translator.translate(sources, decode=decode)]
        # The others are longer than Marian's outputs may be, three times the source.
        most = [3 * len(found.bundle.source_tokenizer.encode(source)) for source in sources]
        ended = [row for row, each in enumerate(best) if len(each.pieces) < most[row]]
        theirs = marian.greedy()
        assert len(ended) >= 190
        assert [best[row].text.strip() for row in ended] == [theirs[row] for row in ended]

        with np.load(tmp_path / "model.npz") as stored:
            np.savez(tmp_path / "model.npz", **with_a_small_norm(dict(stored)))
        small, native = read(tmp_path, "dates").bundle, marian.scores()
        assert scores(small) == pytest.approx(native, abs=1e-3)
        changed = small.config.model.model_copy(update={"norm_eps": 1e-9})
        other = TextBundle.build(small.config.model_copy(update={"model": changed}))
        other.load_state_dict(small.model.state_dict())
        tokenizers = small.source_tokenizer, small.target_tokenizer
        differing = scores(TextBundle(small.config, other.eval(), *tokenizers))
        assert max(abs(np.subtract(differing, native))) > 0.1


def test_words_of_yaml_are_pieces_and_missing_pieces_are_unknown(tmp_path: Path) -> None:
    bundle, _ = written(tmp_path)
    tokenizer = bundle.target_tokenizer
    assert {"no", "1e3"} <= set(tokenizer.pieces(range(tokenizer.vocab_size)))
    assert UNK in tokenizer.encode("日本") and UNK not in tokenizer.encode("god a")
    assert bundle.config.decode.beam == 6


@pytest.mark.parametrize(
    ("lines", "beam", "penalty"),
    [("", 12, 0), ("beam-size: 3\nnormalize: true", 3, 1), ("normalize: false", 12, 0)],
)
def test_missing_settings_have_the_defaults_of_marian(
    tmp_path: Path, lines: str, beam: int, penalty: float
) -> None:
    """Its defaults: src/common/config_parser.cpp."""
    written(tmp_path)
    options = settings()
    del options["transformer-ffn-activation"]
    write_arrays(tmp_path, options, random_arrays(settings(), size()))
    names = "models: [model.npz]\nvocabs: [opus.vocab.yml, opus.vocab.yml]\n"
    (tmp_path / "decoder.yml").write_text(names + lines)
    config = read(tmp_path, "x").bundle.config
    assert (config.decode.beam, config.decode.length_penalty) == (beam, penalty)
    assert (config.model.activation, config.model.norm_eps) == ("swish", 1e-6)


@pytest.mark.parametrize("more", [["<pad>"], ["<pad>", "<s>"]])
def test_a_target_begins_at_zero_if_the_vocabulary_has_padding(
    tmp_path: Path, more: list[str]
) -> None:
    """The vector of `<pad>` is another one; Marian begins with a zero vector."""
    written(tmp_path)
    with (tmp_path / "opus.vocab.yml").open("a") as file:
        file.writelines(f"\n{json.dumps(piece)}: {size() + n}" for n, piece in enumerate(more))
    arrays = random_arrays(settings(), size() + len(more))
    write_arrays(tmp_path, settings(), arrays)
    if len(more) == 2:
        with pytest.raises(ForeignModelError, match="targets begin with a zero vector"):
            read(tmp_path, "x")
        return
    bundle, equations = read(tmp_path, "x").bundle, Equations(settings(), arrays)
    rows = foreign(bundle.source_tokenizer)
    source = [*bundle.source_tokenizer.encode(LINES[0]), EOS]
    expected = equations.log_probs([rows[n] for n in source], [])
    with torch.inference_mode():
        logits = bundle.model(torch.tensor([source]), torch.tensor([[bundle.specials.start]]))[0]
    found = logits.log_softmax(-1).numpy()[:, 2:]
    np.testing.assert_allclose(found, expected[:, rows[2:]], rtol=0, atol=2e-5)


def test_a_built_in_sentencepiece_is_the_vocabulary(tmp_path: Path) -> None:
    both = SPMS[0]
    options = settings()
    pieces = sentencepiece.SentencePieceProcessor(model_proto=both).vocab_size()
    write_model(tmp_path, options, random_arrays(options, pieces), (both, both))
    decoder = (tmp_path / "decoder.yml").read_text().replace("opus.vocab.yml", "vocab.spm")
    (tmp_path / "decoder.yml").write_text(decoder)
    (tmp_path / "vocab.spm").write_bytes(both)
    bundle = read(tmp_path, "x").bundle
    assert bundle.config.joint_tokenizer
    assert bundle.source_tokenizer.decode(bundle.source_tokenizer.encode(LINES[0])) == LINES[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "s2s"}, "type: expected .*, found 's2s'"),
        (
            {"transformer-decoder-autoreg": "rnn"},
            "transformer-decoder-autoreg: expected .*, found 'rnn'",
        ),
        (
            {"transformer-ffn-activation": "gelu"},
            "transformer-ffn-activation: expected .*, found 'gelu'",
        ),
        ({"transformer-ffn-depth": 3}, "transformer-ffn-depth: expected .*, found '3'"),
        ({"transformer-preprocess": "n"}, "transformer-preprocess, transformer-postprocess"),
        ({"transformer-postprocess": "dhn"}, "only post-norm"),
        ({**PRE, "version": "v1.10.27 abc 2021-11-01"}, "pre-norm model of version 'v1.10.27 abc"),
        ({**PRE, "version": ""}, "pre-norm model of version ''"),
        (
            {"transformer-postprocess-emb": "nd"},
            "transformer-postprocess-emb: expected .*, found 'nd'",
        ),
        ({"transformer-tied-layers": [1, 1]}, "transformer-tied-layers"),
        (
            {"transformer-no-projection": True},
            "transformer-no-projection: expected .*, found 'true'",
        ),
        (
            {"transformer-train-position-embeddings": True},
            "train-position-embeddings: expected .*, found 'true'",
        ),
        (
            {"transformer-attention-mask": "alibi"},
            "transformer-attention-mask: expected .*, found 'alibi'",
        ),
        ({"lemma-dim-emb": 64}, "lemma-dim-emb: expected .*, found '64'"),
        ({"lemma-dependency": "soft-transformer-layer"}, "lemma-dependency: expected "),
        ({"factors-combine": "concat"}, "factors-combine: expected .*, found 'concat'"),
        ({"factors-dim-emb": 8}, "factors-dim-emb: expected .*, found '8'"),
        ({"output-omit-bias": True}, "output-omit-bias: expected .*, found 'true'"),
        ({"transformer-alibi-shift": True}, "transformer-alibi-shift: expected .*, found 'true'"),
        (
            {"transformer-disable-position-embeddings": True},
            "position-embeddings: expected .*, found 'true'",
        ),
        ({"input-types": ["class", "sequence"]}, "input-types"),
        ({"right-left": True}, "right-left: expected .*, found 'true'"),
        ({"dim-emb": "x"}, "dim-emb: expected a whole number"),
        ({"transformer-preprocess": ["n"]}, "transformer-preprocess: expected text"),
        ({**PRE, "version": ["v1"]}, r"version: expected text, found \['v1'\]"),
        ({"transformer-heads": 0}, "heads: expected"),
        ({"dim-emb": 32}, "has shape"),
        ({"dec-depth": 3}, "decoder_l3_context_Wk' is missing"),
        ({"enc-depth": 1}, "encoder_l2_ffn_W1' is no part"),
    ],
)
def test_a_setting_that_cannot_be_expressed_is_refused_by_name(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    write_model(tmp_path, settings(**changes), random_arrays(settings(), size()), SPMS)
    with pytest.raises(ForeignModelError, match=message) as found:
        read(tmp_path, "x")
    assert "\n" not in str(found.value)


@pytest.mark.slow
def test_every_wrong_setting_is_refused_in_a_line_or_harmless(tmp_path: Path) -> None:
    arrays = random_arrays(settings(), size())
    for key in [*settings(), "version"]:
        for value in WRONG:
            write_model(tmp_path, settings(**{key: value}), arrays, SPMS)
            with contextlib.suppress(ForeignModelError):
                read(tmp_path, "x")


@pytest.mark.parametrize("name", ["decoder.yml", "model.npz", "opus.vocab.yml", "source.spm"])
@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_a_missing_or_truncated_file_is_refused(tmp_path: Path, name: str, damage: str) -> None:
    written(tmp_path)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    if damage == "truncated":
        (tmp_path / name).write_bytes(data[: len(data) // 3])
    with pytest.raises(ForeignModelError):
        read(tmp_path, "x")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("models: [a.npz, b.npz]", "models: .* at most 1 item"),
        ("models: [../other.npz]", "names '../other.npz', which is not in the directory"),
        ("models: ['..']", "which is not in the directory"),
        ("models: ['']", "which is not in the directory"),
        ("models: {a: b}", "models: expected a list"),
        ("models: [model.npz]\nnormalize: often", "normalize: expected a number"),
        ("models: [model.npz]\nbeam-size: many", "beam-size: expected a whole number"),
        ("models: [model.npz]\nbeam-size: 0", "decoder.yml: beam: expected "),
        ("models: [model.npz]\nbeam-size: [6]", r"beam-size: .*, found \['6'\]"),
        ("models: [model.npz]\nnormalize: -1", "decoder.yml: length_penalty: expected "),
        ("models: [model.npz]\nnormalize: nan", "decoder.yml: normalize: expected a finite number"),
        ("models: [model.npz]\nnormalize: [[1]]", r"normalize: expected a number, found \[\["),
        ("models: [model.npz]\nvocabs: [a.fsv, b.fsv]", "expected a vocabulary that ends in"),
    ],
)
def test_a_wrong_decoder_file_is_refused(tmp_path: Path, line: str, message: str) -> None:
    written(tmp_path)
    vocabs = "" if "vocabs" in line else "vocabs: [opus.vocab.yml, opus.vocab.yml]\n"
    (tmp_path / "decoder.yml").write_text(vocabs + line + "\n")
    for name in ("a.npz", "a.fsv", "b.fsv"):
        (tmp_path / name).touch()
    with pytest.raises(ForeignModelError, match=message):
        read(tmp_path, "x")


def test_search_settings_that_crosshead_lacks_are_named(tmp_path: Path) -> None:
    written(tmp_path)
    assert read(tmp_path, "x").notes == []
    with (tmp_path / "decoder.yml").open("a") as file:
        file.write("mini-batch: 64\nallow-unk: false\nmax-length-factor: 2\nforce-decode: true\n")
    assert read(tmp_path, "x").notes == [
        "the search setting max-length-factor = '2' does not come along",
        "the search setting force-decode = 'true' does not come along",
    ]


def test_the_directory_of_a_training_is_read(tmp_path: Path) -> None:
    """Marian's training names the file after the weights, and names other files by their paths."""
    bundle, _ = written(tmp_path)
    named = tmp_path / "model.npz.decoder.yml"
    named.write_text(
        f"models: [{tmp_path}/run/model.npz]\nvocabs: [../opus.vocab.yml, 'C:\\opus.vocab.yml']\n"
        "beam-size: 6\nnormalize: 1\n"
    )
    (tmp_path / "decoder.yml").unlink()
    again = read(tmp_path, "opus").bundle
    assert again.config == bundle.config
    for name, weights in bundle.model.state_dict().items():
        assert torch.equal(weights, again.model.state_dict()[name])
    (tmp_path / "model.iter5.npz.decoder.yml").write_bytes(named.read_bytes())
    several = r"expected decoder\.yml, .*model\.iter5.*model\.npz.*; copy that .*decoder\.yml"
    with pytest.raises(ForeignModelError, match=several):
        read(tmp_path, "opus")
    for each in tmp_path.glob("*decoder.yml"):
        each.unlink()
    with pytest.raises(ForeignModelError, match=r"expected decoder\.yml, .* found \[\]"):
        read(tmp_path, "opus")


@pytest.mark.parametrize(
    ("names", "languages"),
    [
        (("vocab.en.yml", "vocab.de.yml"), ("en", "de")),
        (("opus.en.vocab.yml", "opus.pt-BR.vocab.yml"), ("en", "pt-BR")),
        (("opus.en.yml", "opus.en.yml"), (None, None)),
        (("opus.en.yml", "opus.x.yml"), (None, None)),
        (("opus.vocab.yml", "opus.vocab.yml"), (None, None)),
    ],
)
def test_the_names_of_the_vocabularies_name_the_languages(
    tmp_path: Path, names: tuple[str, str], languages: tuple[str | None, str | None]
) -> None:
    written(tmp_path)
    for name in names:
        if name != "opus.vocab.yml":
            (tmp_path / name).write_bytes((tmp_path / "opus.vocab.yml").read_bytes())
    decoder = f"models: [model.npz]\nvocabs: [{names[0]}, {names[1]}]\n"
    (tmp_path / "decoder.yml").write_text(decoder)
    config = read(tmp_path, "x").bundle.config
    assert (config.source_language, config.target_language) == languages


@pytest.mark.parametrize(("most", "longest"), [("80", 79), ("1", 1), ("0", 511)])
def test_the_largest_length_is_that_of_the_longest_source(
    tmp_path: Path, most: str, longest: int
) -> None:
    bundle, _ = written(tmp_path)
    assert bundle.config.longest_source == 511
    with (tmp_path / "decoder.yml").open("a") as file:
        file.write(f"max-length: {most}\n")
    found = read(tmp_path, "x")
    assert found.bundle.config.longest_source == longest and found.notes == []

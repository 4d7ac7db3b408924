import json
import os
from pathlib import Path

import numpy as np
import pytest

from crosshead.errors import ConfigError, DataError
from crosshead.models.encoder_only import EncoderConfig
from crosshead.models.language import LanguageConfig
from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.corpus import Stopped
from crosshead.tasks.registry import TASKS
from crosshead.tasks.text_corpus import TextCorpus, read_text
from crosshead.text.streams import decode_text
from crosshead.vocabulary import EOS
from tests.bundle.text_bundles import SMALL, bundle_of
from tests.recipe.refusing import TEXT as RECIPE
from tests.recipe.refusing import refusal
from tests.tasks.reading import read_corpus
from tests.tasks.validators import WRITTEN, validator_of, weights

LINES = [f"line {number} of the text" for number in range(50)]
TEXT = "".join(f"{line}\n" for line in LINES)


def recipe(*files: Path, **data: object) -> Recipe:
    found = {"text": [str(file) for file in files], "context": 16, **data}
    return compose(flags={"data": found}, assignments=["tokenizer.kind=characters"])


@pytest.fixture
def book(tmp_path: Path) -> Path:
    (tmp_path / "book.txt").write_text(TEXT)
    return tmp_path / "book.txt"


def text_of(corpus: TextCorpus, ids: np.ndarray) -> str:
    return decode_text(corpus.target_tokenizer, ids.tolist())


def test_the_end_of_the_text_is_held_out_by_characters(book: Path) -> None:
    corpus = read_text(recipe(book), None, None)
    cut = len(TEXT) - round(0.1 * len(TEXT))
    assert text_of(corpus, corpus.stream.ids) == TEXT[:cut]
    assert corpus.held_out
    # A character that the training text lacks would be unknown: here there is none.
    assert text_of(corpus, corpus.valid.ids) == TEXT[cut:]
    assert corpus.valid.characters == len(TEXT) - cut - 1  # the first is not predicted
    assert corpus.validation(recipe(book).data).startswith("the last ")


def test_validation_files_leave_the_text_whole(book: Path, tmp_path: Path) -> None:
    (tmp_path / "valid.txt").write_text("the text\nof\n")
    settings = recipe(book, valid_text=[str(tmp_path / "valid.txt")])
    corpus = read_text(settings, None, None)
    assert text_of(corpus, corpus.stream.ids) == TEXT
    assert text_of(corpus, corpus.valid.ids) == "the text\nof\n"
    assert not corpus.held_out
    assert str(tmp_path / "valid.txt") in corpus.validation(settings.data)


@pytest.mark.parametrize("key", ["text", "valid_text"])
def test_text_that_cannot_be_read_twice_is_refused_unopened(
    key: str, book: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")  # that nobody writes to: opening it would wait
    for place in (tmp_path / "fifo", Path("/dev/zero")):
        settings = recipe(book, **{key: [str(place)]})
        with pytest.raises(DataError, match=f"^{place}: a pipe or a device, but text"):
            read_text(settings, None, None)


def test_files_follow_each_other_as_one_text(book: Path, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("text")  # without an end of its last line
    corpus = read_text(recipe(book, tmp_path / "more.txt", valid_share=0.01), None, None)
    whole = np.concatenate([corpus.stream.ids, corpus.valid.ids])
    assert text_of(corpus, whole) == TEXT + "text\n"
    assert [file.lines for file in corpus.files] == [50, 1]


def test_epochs_are_windows_of_the_training_text_alone(book: Path) -> None:
    settings = recipe(book)
    corpus = read_text(settings, None, None)
    epoch = corpus.epochs(settings)(0)
    rows = np.concatenate(epoch.plan(64, 1, 0))
    batch = epoch.collate(rows.tolist())
    assert int((batch.target_output != 0).sum()) == len(corpus.stream) - 1
    assert corpus.longest_input == 16 == int(corpus.lengths.max())


def test_the_checksum_knows_both_texts(book: Path, tmp_path: Path) -> None:
    first = read_text(recipe(book), None, None).sha256()
    assert read_text(recipe(book), None, None).sha256() == first
    assert read_text(recipe(book, valid_share=0.2), None, None).sha256() != first
    book.write_text(TEXT.replace("line 3", "line 4"))
    assert read_text(recipe(book), None, None).sha256() != first


def test_what_is_too_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ab")
    with pytest.raises(DataError, match=r"^\S*/a\.txt: 0 characters are too few to validate on"):
        read_text(recipe(tmp_path / "a.txt"), None, None)


def test_a_validation_text_that_is_too_short_is_refused_by_its_own_name(
    book: Path, tmp_path: Path
) -> None:
    (tmp_path / "valid.txt").write_text("")
    settings = recipe(book, valid_text=[str(tmp_path / "valid.txt")])
    with pytest.raises(
        DataError, match=r"^\S*/valid\.txt: \d characters are too few to validate on"
    ):
        read_text(settings, None, None)


def test_an_empty_file_is_named(book: Path, tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("\n")
    with pytest.raises(DataError, match=r"none\.txt: empty"):
        read_text(recipe(book, tmp_path / "none.txt"), None, None)


def test_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="no text to train on; give --text"):
        read_text(compose(recipe={"model": "language"}), None, None)


def test_a_request_to_stop_is_heard(book: Path) -> None:
    with pytest.raises(Stopped):
        read_text(recipe(book), None, None, should_stop=lambda: True)


def test_the_end_of_a_line_is_a_token_of_its_own(book: Path) -> None:
    corpus = read_text(recipe(book), None, None)
    assert int((corpus.stream.ids == EOS).sum()) == TEXT[
        : len(TEXT) - round(0.1 * len(TEXT))
    ].count("\n")
    pieces = json.dumps(
        corpus.target_tokenizer.pieces(list(range(corpus.target_tokenizer.vocab_size)))
    )
    assert "\\n" not in pieces


@pytest.mark.parametrize("kind", ["characters", "words", "bpe"])
@pytest.mark.parametrize("architecture", ["language", "encoder"])
def test_samples_of_text_stand_beside_the_text(
    tmp_path: Path, architecture: str, kind: str
) -> None:
    more = ["tokenizer.vocab_size=290"] if kind == "bpe" else []
    settings = [f"architecture={architecture}", f"tokenizer.kind={kind}", *more]
    (tmp_path / "text").write_text(WRITTEN.replace(" and ", " and then they said "))
    names = [str(tmp_path / "text")]
    recipe = compose(
        flags={"data": {"text": names, "valid_text": names, "context": 64}},
        assignments=["layers=1", "d_model=16", "d_ff=16", "heads=2", *settings],
    )
    corpus = read_corpus(recipe, None, None)
    validator = validator_of(recipe, corpus, corpus.longest_input)
    found = validator.findings(weights(validator, 1))
    text = " ".join(WRITTEN.replace(" and ", " and then they said ").split())
    assert found.samples
    for given, made, wanted, _ in found.samples:
        assert " ".join(wanted.split()) in text
        if architecture == "encoder":
            assert given.count("[MASK]") == 1 and "[MASK]" not in made
            before, after = given.split("[MASK]")
            assert wanted.startswith(before) and wanted.endswith(after)
        else:
            assert " ".join(given.split()) in text
            assert made
    [fault] = found.faults  # nothing was learned
    assert "token frequencies" in fault


def test_a_memory_that_training_would_never_see_is_refused() -> None:
    recipe = {**RECIPE, "model": "transformer-xl"}
    for assignments in (["data.context=64"], ["model.segment=256"]):
        message = refusal(*assignments, recipe=recipe)
        assert "model.memory; raise data.context, lower model.segment" in message
        compose(recipe=recipe, assignments=[*assignments, "model.memory=0"])
    compose(recipe=recipe, assignments=["data.context=65"])


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (
            ["data.source=['a']", "data.target=['b']"],
            "data.source is for translation; a model of monolingual text (language) is trained on "
            "data.text",
        ),
        (
            ["data.context=128", "train.batch_tokens=100"],
            "data.context 128 does not fit into train.batch_tokens 100; lower the first or raise",
        ),
        (
            ["positions=learned", "model.max_length=64", "data.context=65"],
            "data.context 65 is more than the 64 learned positions of model.max_length",
        ),
        (["tokenizer.joint=false"], "monolingual text has one side: set tokenizer.joint = true"),
        (["data.share=0.5"], "data.share is for pairs of texts; leave it out"),
        (["data.fold=[1, 2]"], "data.fold is for pairs of texts; leave it out"),
        (["data.noise=0.1"], "data.noise is for pairs of texts; leave it out"),
        (["tokenizer.sampling=0.1"], "tokenizer.sampling is for translation; leave it out"),
    ],
)
def test_settings_that_do_not_suit_monolingual_text_are_refused(
    assignments: list[str], message: str
) -> None:
    assert message in refusal(*assignments, recipe={**RECIPE, "model": "language"})


def test_as_many_tokens_as_fit_are_accepted() -> None:
    fitting = ["positions=learned", "model.max_length=64", "data.context=64"]
    fitting.append("train.batch_tokens=64")
    assert compose(recipe={**RECIPE, "model": "language"}, assignments=fitting).data.context == 64


@pytest.mark.parametrize("task", ["language", "masked"])
def test_fine_tuning_keeps_the_length_of_windows(task: str) -> None:
    shape = LanguageConfig if task == "language" else EncoderConfig
    bundle = bundle_of(target=None, model=shape(layers=1, **SMALL), longest=48)
    assert TASKS[task].sections(bundle)["data"]["context"] == 48

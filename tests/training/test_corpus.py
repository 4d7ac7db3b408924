import dataclasses
from pathlib import Path

import pytest

from crosshead.data.tokenizers import load_tokenizer
from crosshead.errors import DataError
from crosshead.training.corpus import Corpus, epoch_examples, read_corpus
from crosshead.training.recipe import Recipe, compose

LINES = [f"one {word} two" for word in "abcdefghijklmnopqrst"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "en").write_text("\n".join(LINES) + "\n")
    (tmp_path / "de").write_text("\n".join(line.upper() for line in LINES) + "\n")
    (tmp_path / "tsv").write_text("x y\tX Y\nx\tX\n")
    return tmp_path


def recipe(folder: Path, *assignments: str) -> Recipe:
    data = {"source": str(folder / "en"), "target": str(folder / "de")}
    return compose(flags={"data": data}, assignments=["tokenizer.kind=words", *assignments])


def test_what_is_held_out_is_not_trained_on(folder: Path) -> None:
    corpus = read_corpus(recipe(folder), None, None)
    assert corpus.held_out
    assert len(corpus.valid) == len(corpus.valid_examples) == 2
    trained = set(corpus.kept.text.source)
    assert trained | set(corpus.valid.source) == set(LINES)
    assert not trained & set(corpus.valid.source)
    source, target = corpus.kept.examples[0]
    assert corpus.source_tokenizer.decode(source) == corpus.kept.text.source[0]
    assert corpus.target_tokenizer.decode(target) == corpus.kept.text.target[0]
    data = recipe(folder).data
    assert corpus.validation(data) == "2 pairs held out of the training files (held-out.tsv)"


def test_validation_files_leave_the_training_text_whole(folder: Path) -> None:
    settings = recipe(folder, f"valid_pairs={folder / 'tsv'}")
    corpus = read_corpus(settings, None, None)
    assert not corpus.held_out
    assert corpus.kept.text.source == LINES
    assert corpus.valid.target == ["X Y", "X"]
    typed = settings.data.renamed(["a", "b", "typed.tsv"])
    assert corpus.validation(typed) == "2 pairs of typed.tsv"
    assert corpus.longest_source == 3


def test_the_files_are_listed_with_their_pairs(folder: Path) -> None:
    corpus = read_corpus(recipe(folder, f"pairs={folder / 'tsv'}"), None, None)
    assert [(Path(file.path).name, file.pairs) for file in corpus.files] == [
        ("en", 20), ("de", 20), ("tsv", 2),
    ]  # fmt: skip
    assert len({file.sha256 for file in corpus.files}) == 3


def test_a_run_that_goes_on_keeps_its_tokenizers(folder: Path) -> None:
    settings = recipe(folder, "tokenizer.joint=false", "tie=two-way")
    first = read_corpus(settings, None, None)
    assert first.source_tokenizer.encode("one") != first.target_tokenizer.encode("one")
    first.source_tokenizer.save(folder, "source")
    first.target_tokenizer.save(folder, "target")
    (folder / "en").write_text("\n".join(f"{line} more" for line in LINES) + "\n")
    second = read_corpus(settings, None, folder)
    words = second.source_tokenizer
    assert words.vocab_size == first.source_tokenizer.vocab_size
    assert words.decode(words.encode("one more")) == "one <unk>"
    assert load_tokenizer(folder, "target").vocab_size == second.target_tokenizer.vocab_size


def changed(corpus: Corpus, **parts: object) -> str:
    return dataclasses.replace(corpus, **parts).sha256()  # type: ignore[arg-type]


def test_the_checksum_is_of_all_ids_and_of_where_pairs_end(folder: Path) -> None:
    corpus = read_corpus(recipe(folder), None, None)
    before = corpus.sha256()
    assert before == read_corpus(recipe(folder), None, None).sha256()
    (source, target), *rest = corpus.kept.examples
    split = [([*source, *target[:1]], target[1:]), *rest]
    for examples in (rest, split, [*rest, (source, target)]):
        kept = dataclasses.replace(corpus.kept, examples=examples)
        assert changed(corpus, kept=kept) != before
    assert changed(corpus, valid_examples=corpus.valid_examples[1:]) != before


def test_sampled_examples_are_others_in_each_epoch_and_the_same_again(folder: Path) -> None:
    settings = recipe(
        folder, "tokenizer.kind=bpe", "tokenizer.vocab_size=306", "tokenizer.sampling=0.5"
    )
    draw = epoch_examples(settings, read_corpus(settings, None, None))
    first, again, other = ([list(map(list, pair)) for pair in draw(n)] for n in (0, 0, 1))
    assert first == again != other
    plain = recipe(folder)
    corpus = read_corpus(plain, None, None)
    assert epoch_examples(plain, corpus)(3) is corpus.kept.examples


def test_text_without_a_pair_is_refused_by_its_files(folder: Path) -> None:
    (folder / "de").write_text("\n" * 20)
    with pytest.raises(DataError, match=r"en, .*de: no pair has text on both sides"):
        read_corpus(recipe(folder), None, None)
    (folder / "de").write_text("x\n" * 20)
    (folder / "tsv").write_text(" \tX\n")
    with pytest.raises(DataError, match="tsv: no pair has text"):
        read_corpus(recipe(folder, f"valid_pairs={folder / 'tsv'}"), None, None)

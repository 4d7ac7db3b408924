"""The base of tasks on images with text: what reading gives, for captions and for pairs."""

import json
from pathlib import Path
from typing import Any

import pytest

from crosshead.addons.vision.data.caption_sets import CAPTIONS, PAIRS, CaptionFormat
from crosshead.recipe.compose import compose
from tests.tasks.reading import read_corpus
from tests.text.written import write_captions


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_captions(tmp_path, 12, each=2)
    rows = [json.loads(line) for line in Path("captions.jsonl").read_text().splitlines()]
    pairs = [
        {"image": each["image"], "source": each["caption"].upper(), "target": each["caption"]}
        for each in rows
    ]
    Path("pairs.jsonl").write_text("".join(json.dumps(each) + "\n" for each in pairs))


def recipe(kind: str, **data: Any) -> Any:
    data = {"images": ["images"], kind: [f"{kind}.jsonl"], **data}
    return compose(flags={"data": data}, assignments=["model.patch_size=8"])


@pytest.mark.parametrize(("kind", "form"), [("captions", CAPTIONS), ("pairs", PAIRS)])
def test_rows_are_the_ids_of_the_texts_beside_their_images(kind: str, form: CaptionFormat) -> None:
    corpus = read_corpus(recipe(kind))
    assert corpus.train_rows.kind == corpus.valid_rows.kind == corpus.train.kind == form
    for found, part in ((corpus.train, corpus.train_rows), (corpus.valid, corpus.valid_rows)):
        assert part.images == [each.image for each in found.captions]
        assert [corpus.target_tokenizer.decode(ids) for _, ids in part.examples] == found.texts
        sources = [corpus.source_tokenizer.decode(ids) for ids, _ in part.examples]
        assert sources == found.sources
    assert any(corpus.train.sources) == (kind == "pairs")


@pytest.mark.parametrize("kind", ["captions", "pairs"])
def test_texts_that_are_too_long_are_left_out_of_training_only(kind: str) -> None:
    whole = read_corpus(recipe(kind))
    longest = max(max(map(len, each)) for each in whole.train_rows.examples)
    short = read_corpus(recipe(kind, max_length=longest - 1))
    assert 0 < short.size < whole.size and len(short.valid_rows.examples) == len(
        whole.valid_rows.examples
    )
    assert max(max(map(len, each)) for each in short.train_rows.examples) == longest - 1
    assert short.left_out() == {"too long": whole.size - short.size}

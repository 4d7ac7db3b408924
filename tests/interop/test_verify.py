"""A comparison finds what differs, and accepts what does not."""

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from crosshead.bundle.text_bundle import TextBundle
from crosshead.data.batching import Example
from crosshead.interop.base import ForeignSearch, Tolerance
from crosshead.interop.verify import (
    Comparison,
    ExportError,
    check_comparison,
    compare_export,
    lines_to_compare,
    longest_output,
    own_log_probs,
    source_ids,
    write_comparison,
)
from crosshead.pipelines.translator import Translator
from tests.interop.small_bundles import TEXT, small_bundle


class Same:
    """The model itself as the foreign library, with errors on request."""

    def __init__(self, bundle: TextBundle, off: float = 0.0, text: str | None = None) -> None:
        self.bundle, self.off, self.text = bundle, off, text

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        decode = self.bundle.config.decode.model_copy(
            update={"beam": search.beam, "length_penalty": search.length_penalty}
        )
        found = Translator(self.bundle).translate(list(lines), decode=decode)
        return [self.text or each[0].text for each in found]

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        found = own_log_probs(self.bundle, examples)
        found[-1][-1] += self.off
        return found


def test_a_model_is_the_same_as_itself() -> None:
    bundle = small_bundle(beam=2)
    found = compare_export(bundle, Same(bundle), TEXT["source"], every_piece=True)
    assert found.largest_difference == found.mean_difference == 0.0
    assert found.identical == 1.0 and not found.made_up
    check_comparison(found, Tolerance(0.0, 1.0), "mine")


@pytest.mark.parametrize("off", [0.5, math.nan])
def test_one_token_that_differs_is_found(off: float) -> None:
    bundle = small_bundle()
    found = compare_export(bundle, Same(bundle, off=off), None, every_piece=True)
    with pytest.raises(ExportError, match=r"^mine float32: the export differs from the model: "):
        check_comparison(found, Tolerance(0.4, 0.99), "mine float32")


def test_other_texts_are_found() -> None:
    bundle = small_bundle()
    found = compare_export(bundle, Same(bundle, text="x"), TEXT["source"], every_piece=False)
    assert found.identical == 0.0
    with pytest.raises(ExportError, match=r"identical translations 0\.0%"):
        check_comparison(found, Tolerance(1.0, 0.99), "mine")


def test_one_of_forty_lines_may_have_another_output() -> None:
    found = Comparison(40, True, 900, 1e-6, 1e-7, 39 / 40, 4)
    check_comparison(found, Tolerance(1e-3, 0.99), "mine")
    for lines, identical in ((40, 38 / 40), (39, 38 / 39), (200, 197 / 200)):
        other = dataclasses.replace(found, lines=lines, identical=identical)
        with pytest.raises(ExportError, match="the export differs"):
            check_comparison(other, Tolerance(1e-3, 0.99), "mine")


def test_pairs_contain_every_piece() -> None:
    bundle = small_bundle({"tie": "none"}, {"joint": False})
    seen: list[Example] = []

    class Watching(Same):
        def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
            seen.extend(examples)
            return super().log_probs(examples)

    compare_export(bundle, Watching(bundle), None, every_piece=True)
    sources = {index for source, _ in seen for index in source}
    targets = {index for _, target in seen for index in target}
    assert sources >= set(range(4, bundle.config.source_vocabulary))
    ordinary = set(range(4, bundle.config.target_vocabulary)) - set(bundle.forbidden)
    assert targets >= ordinary and not targets & set(bundle.forbidden)


def test_probabilities_of_what_search_may_produce_add_up_to_one() -> None:
    bundle = small_bundle()
    allowed = [i for i in range(bundle.config.target_vocabulary) if i not in bundle.forbidden]
    examples: list[Example] = [([5, 6], [token] if token != 2 else []) for token in allowed]
    total = math.fsum(math.exp(row[0]) for row in own_log_probs(bundle, examples))
    assert total == pytest.approx(1, abs=1e-5)


def test_lines_are_made_up_or_chosen() -> None:
    bundle = small_bundle()
    made_up = lines_to_compare(bundle, None)
    assert made_up == lines_to_compare(bundle, None) and len(set(made_up)) > 30
    given = lines_to_compare(bundle, ["", "a dog", "dog " * 100])
    assert given == ["a dog"]
    with pytest.raises(ExportError, match="none of the 2 validation lines has 1 to 30 tokens"):
        lines_to_compare(bundle, ["", "dog " * 100])


def test_a_tag_stands_before_the_sources_of_several_directions() -> None:
    bundle = small_bundle({}, {"special": ["<2de>", "<2fr>"]}, languages=True)
    [ids] = source_ids(bundle, ["a dog"])
    assert "<2de>" in bundle.source_tokenizer.pieces(ids)


def test_the_longest_output_is_what_the_search_allows_and_the_positions_hold() -> None:
    assert longest_output(small_bundle()) == 30 + 1 + 10
    assert longest_output(small_bundle({"positions": "learned", "max_length": 20})) == 20


def test_a_comparison_is_written_as_json(tmp_path: Path) -> None:
    found = Comparison(3, False, 9, 1e-6, 1e-7, None, 4)
    write_comparison(found, tmp_path / "found.json", format="mine")
    written = json.loads((tmp_path / "found.json").read_text())
    assert written == {"format": "mine", **dataclasses.asdict(found)}
    assert "no translation ended" in str(found)

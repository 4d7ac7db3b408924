"""A comparison finds what differs, and accepts what does not."""

import dataclasses
import math
from collections.abc import Sequence

import pytest

from crosshead.addons.interop import verify
from crosshead.addons.interop.base import ForeignSearch, Tolerance
from crosshead.addons.interop.verify import (
    Comparison,
    ExportError,
    check_comparison,
    compare_export,
    lines_to_compare,
    longest_output,
    own_log_probs,
    source_ids,
)
from crosshead.bundle.text_bundle import TextBundle
from crosshead.tasks.translation.translator import Translator
from crosshead.text.batching import Example
from tests.addons.interop.small_bundles import TEXT, small_bundle


class Same:
    """The model itself as the foreign library, with errors on request."""

    computes = ""

    def __init__(self, bundle: TextBundle, off: float = 0.0, text: str | None = None) -> None:
        self.bundle, self.off, self.text = bundle, off, text

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return self.bundle.source_tokenizer.encode_lines(lines)

    def decode(self, outputs: Sequence[Sequence[int]]) -> list[str]:
        return [self.bundle.target_tokenizer.decode(each) for each in outputs]

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
    assert found.compared > 0 == found.different == found.misread and not found.made_up
    check_comparison(found, Tolerance(0.0, 0.0, 0), "mine")


@pytest.mark.parametrize("off", [0.5, math.nan])
def test_one_token_that_differs_is_found(off: float) -> None:
    bundle = small_bundle()
    found = compare_export(bundle, Same(bundle, off=off), None, every_piece=True)
    with pytest.raises(ExportError, match=r"^mine float32: the export differs from the model: "):
        check_comparison(found, Tolerance(0.4, 0.4, 1), "mine float32")


def test_other_texts_are_found() -> None:
    bundle = small_bundle()
    found = compare_export(bundle, Same(bundle, text="x"), TEXT["source"], every_piece=False)
    assert found.compared == found.different > 0
    with pytest.raises(ExportError, match=r"identical translations 0\.0% \(0 of 10\)"):
        check_comparison(found, Tolerance(1.0, 1.0, 1), "mine")


FOUND = Comparison(40, True, 900, 1e-6, 1e-7, 0, 36, 1, 4)


def test_one_of_twenty_outputs_may_differ() -> None:
    """The outputs that ended are counted, not the lines."""
    tolerance = Tolerance(1e-3, 1e-4, 1)
    for compared, most in ((0, 0), (19, 0), (20, 1), (36, 1), (63, 1), (200, 2), (299, 2)):
        for different in range(min(compared, most) + 1):
            some = dataclasses.replace(FOUND, compared=compared, different=different)
            check_comparison(some, tolerance, "mine")
        if compared:
            other = dataclasses.replace(FOUND, compared=compared, different=most + 1)
            with pytest.raises(ExportError, match=f"at most {most} other translations"):
                check_comparison(other, tolerance, "mine")
    assert "identical translations 97.2% (35 of 36)" in str(FOUND)


def test_a_mean_difference_is_bounded() -> None:
    """Products in eight bits that overflow are off by little at a token, and by much on average."""
    found = dataclasses.replace(FOUND, largest_difference=0.4, mean_difference=0.13)
    check_comparison(found, Tolerance(0.5, 0.2, 20), "mine")
    with pytest.raises(ExportError, match=r"mean 0\.13 .* a mean of at most 0\.03"):
        check_comparison(found, Tolerance(0.5, 0.03, 20), "mine")
    other = dataclasses.replace(found, mean_difference=math.nan)
    with pytest.raises(ExportError, match="mean nan"):
        check_comparison(other, Tolerance(0.5, 0.2, 20), "mine")


@pytest.mark.parametrize("side", ["read", "show"])
def test_another_tokenizer_is_found(side: str) -> None:
    """Even if no translation ends, or the number format allows many others."""
    bundle = small_bundle({}, {"kind": "characters"})  # its outputs are text
    wrong = Same(bundle)
    if side == "read":
        wrong.encode = lambda lines: [[5, 6]] * len(lines)  # type: ignore[method-assign]
    else:
        wrong.decode = lambda outputs: ["x"] * len(outputs)  # type: ignore[method-assign]
    found = compare_export(bundle, wrong, TEXT["source"], every_piece=False)
    assert found.misread > 10
    with pytest.raises(ExportError, match="other tokens or texts in"):
        check_comparison(found, Tolerance(1.0, 1.0, 100), "mine")
    few = dataclasses.replace(FOUND, lines=200, misread=4)
    check_comparison(few, Tolerance(1.0, 1.0, 1), "mine")


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
    made_up = verify._made_up(bundle)
    assert made_up == verify._made_up(bundle) and len(set(made_up)) > 30
    lines = ["", "a dog", "dog " * 100, "a \u2581 dog", "a\x1adog", "two men"]
    assert lines_to_compare(bundle, lines) == ["a dog", "two men"]
    with pytest.raises(ExportError, match="none of the 2 validation lines has 1 to 30 tokens"):
        lines_to_compare(bundle, ["", "dog " * 100])


def test_a_pair_has_the_largest_length() -> None:
    """A table of positions that is too short would be found."""
    bundle = small_bundle()
    lengths = [(len(source), len(target)) for source, target in verify._covering(bundle)]
    assert lengths[-1] == (30, 40) and max(lengths[:-1]) == (24, 24)
    bundle = small_bundle({"architecture": "language"})
    assert len(verify._covering(bundle)[-1][1]) == 29


def test_an_unfinished_output_is_scored_within_the_positions() -> None:
    bundle = small_bundle({"positions": "learned", "max_length": 33}, ends=False)
    longest: list[int] = []

    class Watching(Same):
        def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
            longest.append(max(len(target) for _, target in examples))
            return super().log_probs(examples)

        def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
            return []

    compare_export(bundle, Watching(bundle), TEXT["source"][:3], every_piece=False)
    assert max(longest) == 32


def test_a_tag_stands_before_the_sources_of_several_directions() -> None:
    bundle = small_bundle({}, {"special": ["<2de>", "<2fr>"]}, languages=True)
    [ids] = source_ids(bundle, ["a dog"])
    assert "<2de>" in bundle.source_tokenizer.pieces(ids)


def test_the_longest_output_is_what_the_search_allows_and_the_positions_hold() -> None:
    assert longest_output(small_bundle()) == 30 + 1 + 10
    assert longest_output(small_bundle({"positions": "learned", "max_length": 20})) == 20


def test_a_comparison_without_outputs_says_so() -> None:
    found = Comparison(3, False, 9, 1e-6, 1e-7, 0, 0, 0, 4)
    assert str(found).endswith("(9 tokens), no finished translations to compare")

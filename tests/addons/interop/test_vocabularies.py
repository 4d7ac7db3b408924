"""Ids and rows go to a foreign order, and rows come back."""

import torch
from tokenizers import Tokenizer as Fast

from crosshead.addons.interop.tokenizer_json import tokenizer_json
from crosshead.addons.interop.vocabularies import MARK, foreign_ids, joined_vocabulary, vocabulary
from crosshead.addons.interop.weights import from_rows, to_rows
from crosshead.text.imported import ForeignVocabulary, ImportedTokenizer
from tests.addons.interop.sentencepieces import learned, marian_vocabulary
from tests.addons.interop.small_bundles import TEXT, imported_tokenizer, small_bundle
from tests.addons.interop.test_tokenizer_json import odd_lines, own


def test_rows_come_back_and_absent_ones_are_filled() -> None:
    ours = torch.arange(10.0).reshape(5, 2)
    rows = [None, 2, 0, None, 1]
    theirs = to_rows(ours, rows)
    assert theirs.tolist() == [ours[2].tolist(), ours[4].tolist(), ours[1].tolist()]
    back = from_rows(theirs, rows, -7.0)
    assert torch.equal(back[[1, 2, 4]], ours[[1, 2, 4]])
    assert back[[0, 3]].eq(-7).all()


def test_exported_ids_are_those_of_the_other_toolkit() -> None:
    own, imported = small_bundle(), small_bundle({}, {"kind": "sentencepiece"})
    assert foreign_ids(own.source_tokenizer)[:4] == [0, 1, 2, 3]
    tokenizer = imported.source_tokenizer
    rows, found = foreign_ids(tokenizer), vocabulary(tokenizer)
    assert rows != sorted(row for row in rows if row is not None)
    assert list(found.values()) == sorted(row for row in rows if row is not None)
    assert found["</s>"] == rows[2]


def test_equal_vocabularies_stay_as_they_are() -> None:
    tokenizer = imported_tokenizer(TEXT["source"])
    joined = joined_vocabulary(tokenizer, tokenizer)
    assert joined.source == joined.target == foreign_ids(tokenizer)
    assert joined.target_rows is None and not any(piece[0] == MARK for piece in joined.pieces)


def test_the_pieces_of_the_target_come_after_those_of_the_source() -> None:
    source, target = own("bpe"), small_bundle({"tie": "none"}, {"joint": False}).target_tokenizer
    joined = joined_vocabulary(source, target)
    assert (
        len(joined.pieces) == len(set(joined.pieces)) == source.vocab_size + target.vocab_size - 4
    )
    assert joined.source == list(range(source.vocab_size))
    assert joined.target[:5] == [0, 1, 2, 3, source.vocab_size]
    assert joined.target_rows is not None
    for index, row in enumerate(joined.target):
        assert row is not None and joined.target_rows[row] == index
    assert not any(joined.target_rows[4 : source.vocab_size])  # the row of padding


def test_one_file_encodes_sources_and_decodes_targets() -> None:
    for kind in ("bpe", "unigram"):
        source, target = own(kind, ("<2de>",)), own("bpe")
        joined = joined_vocabulary(source, target)
        theirs = Fast.from_str(tokenizer_json(source, joined).decode())
        # A mark in a text is a space, which is another piece.
        for line in [*odd_lines(), *(f"{MARK}{MARK}{each}" for each in TEXT["target"][:3])]:
            ids = [joined.source[each] for each in source.encode(line)]
            assert theirs.encode(line).ids == [*ids, 2], line
            shown = theirs.decode([joined.target[each] for each in target.encode(line)])  # type: ignore[misc]
            assert shown == target.decode(target.encode(line)) == line


def test_two_imported_models_may_share_a_vocabulary() -> None:
    """Marian's usual form: a piece that the source's own model lacks is never in a source."""
    models = [learned(TEXT[side] * 2, 45) for side in ("source", "target")]
    both = sorted({piece for each in models for piece in marian_vocabulary(each)})
    control = (both.index("<pad>"), None, both.index("</s>"), both.index("<unk>"))
    shared = ForeignVocabulary(tuple(both), control)
    source, target = (ImportedTokenizer(each, shared) for each in models)
    joined = joined_vocabulary(source, target)
    assert joined.target_rows is None and joined.pieces == tuple(both)
    theirs = Fast.from_str(tokenizer_json(source, joined).decode())
    # A single character that the source's model lacks is found, as in crosshead.
    for line in [*TEXT["source"][:3], TEXT["target"][0]]:
        ids = [joined.source[each] for each in source.encode(line)]
        assert theirs.encode(line).ids == [*ids, control[2]], line
    for line in TEXT["target"][:3]:
        wanted = target.encode(line)
        shown = theirs.decode([joined.target[each] for each in wanted])  # type: ignore[misc]
        assert shown == target.decode(wanted) == line


def test_imported_models_may_have_a_vocabulary_each() -> None:
    models = [learned(TEXT[side] * 2, 45) for side in ("source", "target")]
    sides = []
    for model in models:
        pieces = list(marian_vocabulary(model))
        control = (pieces.index("<pad>"), None, pieces.index("</s>"), pieces.index("<unk>"))
        sides.append(ImportedTokenizer(model, ForeignVocabulary(tuple(pieces), control)))
    source, target = sides
    joined = joined_vocabulary(source, target)
    assert joined.target_rows is not None and joined.target[1] is None
    assert joined.target[0] == joined.source[0] and joined.target[2:4] == joined.source[2:4]
    for index, row in enumerate(foreign_ids(target)):
        exported = joined.target[index]
        assert exported is None or joined.target_rows[exported] == row
    theirs = Fast.from_str(tokenizer_json(source, joined).decode())
    line = TEXT["target"][0]
    assert theirs.decode([joined.target[each] for each in target.encode(line)]) == line  # type: ignore[misc]

import pytest

from crosshead.inspection.labels import labels_of, readable


@pytest.mark.parametrize(
    ("pieces", "labels"),
    [
        (["a", " ", "b"], ["a", "␣", "b"]),
        (["▁the", "▁", "y"], ["␣the", "␣", "y"]),
        ([" of ", "</s>", "<unk>", "[MASK]"], ["␣of␣", "</s>", "<unk>", "[MASK]"]),
        (["\n", "\t", "\u200b", ""], ["\\n", "\\t", "\\u200b", "(empty)"]),
        (["<0xE6>", "<0x0A>"], ["<0xE6>", "<0x0A>"]),
        (["Donaudampfschifffahrtsgesellschaft"], ["Donaudampfschifff…"]),
    ],
)
def test_pieces_can_be_read(pieces: list[str], labels: list[str]) -> None:
    assert [readable(piece) for piece in pieces] == labels


def test_a_character_without_a_font_is_a_box_and_the_picture_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crosshead.inspection.labels.families_for", lambda text: (["x"], {"漢"}))
    found = labels_of(["漢a"], ["b"])
    assert (found.queries, found.keys) == (["□a"], ["b"])
    assert "no font" in found.note


def test_known_characters_need_no_note() -> None:
    assert labels_of(["a", "▁ä"], ["</s>"]).note == ""

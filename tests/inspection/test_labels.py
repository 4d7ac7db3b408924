import pytest

from crosshead.inspection.labels import labels_of, readable


@pytest.mark.parametrize(
    ("pieces", "labels"),
    [
        (["a", " ", "b"], ["a", "␣", "b"]),
        (["▁the", "▁", "y"], ["␣the", "␣", "y"]),
        ([" of ", "</s>", "<unk>", "[MASK]"], ["␣of␣", "</s>", "<unk>", "[MASK]"]),
        (["\n", "\t", "\u200b", ""], ["\\n", "\\t", "\\u200b", "(empty)"]),
        (["<0xE6>", "<0x97>", "<0xA5>"], ["<0xE6>", "<0x97>", "日"]),
        (["<0x24>", "<0x0A>", "<0x20>"], ["$", "<0x0A>", "␣"]),
        (["a", "<0xC3>", "<0xA9>", "b"], ["a", "<0xC3>", "é", "b"]),
        (["<0xC3>", "a", "<0xA9>", "<0xA5>"], ["<0xC3>", "a", "<0xA9>", "<0xA5>"]),
        (
            ["<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "<0x24>"],
            ["<0xF0>", "<0x9F>", "<0x98>", "😀", "$"],
        ),
        (["Donaudampfschifffahrtsgesellschaft"], ["Donaudampfschifff…"]),
    ],
)
def test_pieces_can_be_read(pieces: list[str], labels: list[str]) -> None:
    assert readable(pieces) == labels


def test_a_character_without_a_font_is_a_box_and_the_picture_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crosshead.inspection.labels.families_for", lambda text: (["x"], {"漢"}))
    found = labels_of(["漢a"], ["b"])
    assert (found.queries, found.keys) == (["□a"], ["b"])
    assert "no font" in found.note


def test_known_characters_need_no_note() -> None:
    assert labels_of(["a", "▁ä"], ["</s>"]).note == ""

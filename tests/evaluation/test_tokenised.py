import pytest

from crosshead.evaluation.tokenised import tokenised_warning

PLAIN = ["Ein Hund rennt.", "Zwei Katzen, drei Hunde."] * 10
TOKENISED = ["ein hund rennt .", "zwei katzen , drei hunde .  "] * 10


def test_tokenised_references_bring_one_warning() -> None:
    [said] = tokenised_warning([*TOKENISED, "ohne punkt", *PLAIN[:10]], "val.de")
    assert said.startswith("warning: val.de: tokenised text (a space stands before 20 of 30 full ")
    assert "BLEU on text that is tokenised in the same way" in said and "--tokenize none" in said


@pytest.mark.parametrize(
    "references",
    [
        PLAIN, [], TOKENISED[:9], [*TOKENISED[:9], *PLAIN], ["Vraiment ?", "Non !"] * 20,
        ["ein hund rennt"] * 20, ["Und so weiter ..."] * 3,
    ],
)  # fmt: skip
def test_plain_references_and_very_few_bring_none(references: list[str]) -> None:
    assert tokenised_warning(references, "val.de") == []

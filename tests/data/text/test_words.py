from crosshead.data.text.words import split_words


def test_words_are_lower_case_and_without_punctuation() -> None:
    assert split_words("Don't say: «Hallo», Ärger!") == ["don", "t", "say", "hallo", "ärger"]


def test_letters_of_scripts_without_spaces_are_words() -> None:
    assert split_words("我爱 GPU。") == ["我", "爱", "gpu"]

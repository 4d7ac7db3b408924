import numpy as np

from crosshead.addons.checks.lexicon import Lexicon
from crosshead.addons.checks.words import stemmed_words
from tests.addons.checks.made_up import pairs


def learned(count: int = 400) -> tuple[Lexicon, np.ndarray, np.ndarray]:
    """A lexicon, and the scores of unseen pairs as they are and with the next row's target."""
    source, target = (stemmed_words(side, 1) for side in pairs(count + 50))
    rows, unseen = np.arange(count), np.arange(count, count + 50)
    lexicon = Lexicon(source.some(rows), target.some(rows))
    right = lexicon.scores(source.some(unseen), target.some(unseen))
    wrong = lexicon.scores(source.some(unseen), target.some(np.roll(unseen, 1)))
    return lexicon, right, wrong


def test_translations_score_above_other_sentences_in_both_directions() -> None:
    _, right, wrong = learned()
    assert (right.min(0) > wrong.max(0)).all()


def test_scores_do_not_depend_on_the_blocks() -> None:
    import crosshead.addons.checks.lexicon as module

    _, whole, _ = learned()
    before, module._LINKS = module._LINKS, 100
    try:
        _, parts, _ = learned()
    finally:
        module._LINKS = before
    np.testing.assert_allclose(parts, whole)


def test_a_side_without_words_has_the_score_zero() -> None:
    source, target = stemmed_words(["a b", ""], 1), stemmed_words(["x", "x"], 1)
    lexicon = Lexicon(source, target)
    assert lexicon.scores(source, target)[1].tolist() == [0, 0]

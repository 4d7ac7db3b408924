"""Scores from log-probabilities: perplexity, bits per character, masked accuracy."""

import math
from collections.abc import Sequence

from crosshead.errors import DataError
from crosshead.evaluation.bootstrap import RESAMPLES, SEED, CorpusScore, accuracy, bootstrapped
from crosshead.tasks.language.text_generator import ScoredText
from crosshead.tasks.masked.mask_filler import ScoredMasks
from crosshead.tasks.translation.log_probs import ScoredTranslation
from crosshead.text.tokenizers import Tokenizer
from crosshead.version import __version__


def perplexity(scored: Sequence[ScoredTranslation], tokenizer: Tokenizer) -> CorpusScore:
    """Return the perplexity of translations: exp of the mean negative log-probability of a piece.

    Ends of sentences are counted. Perplexities are comparable only between models with the same
    target tokenizer, which the signature describes. The interval is a bootstrap over sentences.

    Args:
        scored: The scored translations.
        tokenizer: The target tokenizer.

    Raises:
        DataError: If there is no translation.
    """
    if not scored:
        raise DataError("there is no translation to score: the test set is empty")
    parts = [(-each.log_prob, len(each.piece_log_probs), 0) for each in scored]
    signature = f"nrefs:1|{_signature('per:piece|eos:yes', tokenizer)}"
    return bootstrapped("perplexity", parts, _nats, signature, _exp)


def text_scores(text: ScoredText) -> list[CorpusScore]:
    """Return the perplexity of a token, and the bits per character, of a text.

    The intervals are bootstraps over the scored windows. Perplexity is comparable between models
    with the same tokenizer. Bits per character are also comparable between tokenizers, but only if
    no token is unknown, which the signature shows: an unknown word costs only the prediction of the
    token for unknown words, however long the word is.

    Args:
        text: The windows of a scored text.

    Raises:
        DataError: If nothing was scored.
    """
    if not text.windows:
        raise DataError("there is no text to score: it needs at least two tokens")
    signature = _signature(f"{text.how}|unknown:{text.unknown}", text.tokenizer)
    return [
        bootstrapped("perplexity", text.windows, _nats, f"per:token|{signature}", _exp),
        bootstrapped("bits per character", text.windows, _bits, f"per:character|{signature}"),
    ]


def bits_per_character(nats: float, characters: int) -> float:
    """Return the bits per character of a text.

    Args:
        nats: The negative log-likelihood of the text, in nats.
        characters: The number of its characters.
    """
    return nats / math.log(2) / max(1, characters)


def masked_scores(text: ScoredMasks) -> list[CorpusScore]:
    """Return the perplexity of a masked token, and the accuracy of their prediction in per cent.

    The intervals are bootstraps over windows. Neither score is comparable with a score of an
    autoregressive model.

    Args:
        text: The windows of a text with masked tokens.

    Raises:
        DataError: If nothing was scored.
    """
    if not text.windows:
        raise DataError("there is no text to score: it needs at least two tokens")
    signature = f"per:hidden token|{_signature(text.how, text.tokenizer)}"
    return [
        bootstrapped("masked perplexity", text.windows, _nats, signature, _exp),
        bootstrapped("masked accuracy, %", text.windows, accuracy, signature),
    ]


def _nats(nats: float, pieces: int, _: int) -> float:
    return nats / pieces


def _bits(nats: float, _: int, characters: int) -> float:
    return bits_per_character(nats, characters)


def _signature(how: str, tokenizer: Tokenizer) -> str:
    return (
        f"bs:{RESAMPLES}|seed:{SEED}|{how}|tok:{tokenizer.kind}|vocab:{tokenizer.vocab_size}|"
        f"version:crosshead-{__version__}"
    )


def _exp(value: float) -> float:
    """Return the exponential, or infinity if it does not fit a float."""
    return math.exp(value) if value < 700 else math.inf

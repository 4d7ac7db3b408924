"""Output of `translate`, `score`, `generate` and `fill`, in the order of the input."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from crosshead.cli.terminal import at_terminal, json_line, note, table, watched
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.tasks.translation.line_translator import Translation
from crosshead.tasks.masked.mask_filler import MARK, MaskFiller
from crosshead.tasks.translation.log_probs import ScoredTranslation
from crosshead.tasks.language.text_generator import TextGenerator
from crosshead.tasks.translation.translator import Translator
from crosshead.system.progress import choose_display

_QUIET = 2.0
"""Seconds before plain lines of progress begin."""

SCORED_AT_ONCE = 1024
"""Number of pairs that `score` scores and prints together."""


def written(
    writer: TextGenerator, prompt: str, length: int, samples: int, decode: DecodeConfig, stop: str
) -> Iterator[str]:
    """Yield the prompt and its continuation, piece by piece, with an empty line between samples."""
    if samples > 1 and not decode.sample:
        raise ConfigError(
            f"--samples {samples} needs sampling: this search is deterministic and would print one "
            f"text {samples} times; remove --samples, or turn sampling on (leave out --greedy and "
            "--beam, and give --seed 1)"
        )
    prompt, stop = (text.replace("\\n", "\n") for text in (prompt, stop))
    for number in range(samples):
        yield ("\n" if number else "") + prompt
        yield from writer.write(prompt, length=length, decode=decode, stop=stop, number=number)
        yield "\n"


def filled(filler: MaskFiller, text: str, top: int | None, jsonl: bool) -> str:
    """Return the output of `fill`: the filled text and, with `top`, each mask's candidates."""
    found = filler.fill(text.replace("\\n", "\n"), 1 if top is None else top)
    if jsonl:
        return json_line(dataclasses.asdict(found))
    lines = found.text + "\n"
    for number, candidates in enumerate(found.candidates if top else [], 1):
        rows = [[f"{MARK} {number}", "probability"]]
        rows += [[_shown(each.piece), f"{each.probability:.4f}"] for each in candidates]
        lines += "\n" + table(rows, numbers=1)
    return lines


def _shown(piece: str) -> str:
    """Return a piece for a table; the word between two adjacent spaces is empty."""
    return repr(piece)[1:-1] or "(empty word)"


def answers(
    lines: Sequence[str],
    found: Sequence[Sequence[Translation]],
    first: int,
    listed: bool,
    scores: bool,
    key: str | None,
) -> str:
    """Return the output of `translate` for lines; the first line has the number `first`.

    Each line gets its best translation or, with `listed`, all translations that were found. The
    output is JSON Lines if there is a `key`, under which the number of the line stands.
    """
    return "".join(
        _answer(number, line, best, listed, scores, key)
        for number, (line, best) in enumerate(zip(lines, found, strict=True), first)
    )


@contextlib.contextmanager
def answering(
    total: int | None, unit: str = "lines", then: str = ""
) -> Iterator[Callable[..., None]]:
    """Yield a callback that reports how many lines are answered.

    The callback takes the number of lines answered before a group, the number of lines in the
    group, and the share of the group that is done. A progress bar shows the answered share of
    `total` lines; away from a terminal, plain lines do after two seconds. If `total` is None or 0,
    nothing is shown.
    """
    if not total:
        yield lambda before, lines, share: None
        return
    display, began = choose_display(lambda: None), time.monotonic()
    quiet = 0.0 if at_terminal() else _QUIET

    def advance(before: int, lines: int, share: float) -> None:
        done = before + share * lines
        took = time.monotonic() - began
        if took < quiet or not (display.due() or done >= total):
            return
        speed, follows = done / max(took, 1e-3), then if done >= total else ""
        line = f"{int(done):,} of {total:,} {unit}, {speed:,.0f} {unit}/s{follows}"
        display.advance(done / total, line)

    try:
        advance(0, 0, 0.0)
        yield advance
    finally:
        display.close()


def scored(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], jsonl: bool
) -> Iterator[str]:
    """Yield the output of `score`, for one group of pairs at a time.

    A pair that is too long for the model also gets a line, `nan` or an object whose
    log-probability is null, and a warning.
    """
    total = len(sources) if watched(None) or not at_terminal() else None
    with answering(total, "pairs") as advance:
        for first in range(0, len(sources), SCORED_AT_ONCE):
            rows = slice(first, first + SCORED_AT_ONCE)
            pairs = list(zip(sources[rows], targets[rows], strict=True))
            refused = translator.refusals(sources[rows], targets[rows], first=first)
            kept = [pair for row, pair in enumerate(pairs) if row not in refused]
            sides = [pair[0] for pair in kept], [pair[1] for pair in kept]
            found = iter(translator.score(*sides, progress=partial(advance, first, len(pairs))))
            yield "".join(
                _scored(first + row + 1, *pair, None if row in refused else next(found), jsonl)
                for row, pair in enumerate(pairs)
            )
            for why in refused.values():
                note(f"warning: {why}; it was not scored")


def _scored(
    number: int, source: str, target: str, found: ScoredTranslation | None, jsonl: bool
) -> str:
    if not jsonl:
        return f"{found.log_prob:.4f}\n" if found else "nan\n"
    return json_line(
        {
            "line": number,
            "source": source,
            "target": target,
            "log_prob": found.log_prob if found else None,
            "pieces": found.pieces if found else [],
            "piece_log_probs": found.piece_log_probs if found else [],
        }
    )


def _answer(
    number: int, line: str, best: Sequence[Translation], listed: bool, scores: bool, key: str | None
) -> str:
    if key is not None:
        head: dict[str, Any] = {key: number, "source": line}
        if listed:
            head["translations"] = [_translation_values(each) for each in best]
        else:
            head |= _translation_values(best[0])
        return json_line(head)
    if listed:
        return "".join(f"{number} ||| {each.text} ||| {each.score:.4f}\n" for each in best)
    return f"{best[0].text}\t{best[0].score:.4f}\n" if scores else f"{best[0].text}\n"


def _translation_values(translation: Translation) -> dict[str, Any]:
    values = dataclasses.asdict(translation)
    if not translation.pieces:  # a line that was not read has no score
        values |= {key: None for key in ("log_prob", "score") if math.isnan(values[key])}
    return {"translation": values.pop("text"), **values}

"""Output of `translate`, `score`, `generate` and `fill`, in the order of the input."""

import contextlib
import dataclasses
import math
import os
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosshead.bundle.files import files_in_use
from crosshead.cli.options import bundle_place
from crosshead.cli.terminal import json_line, note, table
from crosshead.config import validate
from crosshead.data.parallel.languages import suffix_language
from crosshead.data.parallel.tables import whole_lines_warning
from crosshead.data.text.profile import FLAGS
from crosshead.decoding.minimum_risk import MinimumRisk
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import ConfigError, UserError
from crosshead.pipelines.line_translator import LONGEST_STRETCH, Translation
from crosshead.pipelines.mask_filler import MARK, MaskFiller
from crosshead.pipelines.scoring import ScoredTranslation
from crosshead.pipelines.text_generator import TextGenerator
from crosshead.pipelines.translator import Translator
from crosshead.system.files import real_path
from crosshead.system.progress import Bar, Messages, counted

SCORED_AT_ONCE = 1024
"""Number of pairs that `score` scores and prints together."""


def search_settings(
    bundle_says: DecodeConfig, sample: bool, flags: Mapping[str, Any], n_best: int | None
) -> DecodeConfig:
    """Return the bundle's search settings, overridden by the given (not None) flags.

    `sample` without a beam sets the beam to 1, because sampling keeps no beam.

    Raises:
        ConfigError: If the flags contradict each other or a value is out of range.
    """
    values = bundle_says.model_dump()
    if sample:
        values |= {"sample": True, "beam": 1}
    for key in ("temperature", "top_k", "top_p", "seed"):
        if flags.get(key) is not None and not values["sample"]:
            raise ConfigError(f"{_flag(key)} applies to sampling only: add --sample")
    values |= {key: value for key, value in flags.items() if value is not None}
    typed = {key: _flag(key) for key, value in flags.items() if value is not None}
    decode = validate(DecodeConfig, values, typed=typed)
    if n_best is not None and n_best > decode.beam and not decode.sample:
        raise ConfigError(
            f"--n-best {n_best} needs a beam of at least {n_best}; the beam is {decode.beam}: give "
            f"--beam {n_best}"
        )
    return decode


def minimum_risk(
    samples: int | None, beam: int | None, length_penalty: float | None, n_best: int | None
) -> MinimumRisk | None:
    """Return the settings of minimum Bayes risk with chrF, or None without `--mbr`.

    Args:
        samples: The number of samples of a line (`--mbr`).
        beam: The value of `--beam`.
        length_penalty: The value of `--length-penalty`.
        n_best: The value of `--n-best`.

    Raises:
        ConfigError: If an option of beam search is given too, or too few samples are drawn.
    """
    if samples is None:
        return None
    for flag, value in (("--beam", beam), ("--length-penalty", length_penalty)):
        if value is not None:
            raise ConfigError(
                f"{flag} {value:g} is for beam search, and --mbr {samples} draws samples: leave "
                "out one of them"
            )
    if n_best is not None and n_best > samples:
        raise ConfigError(
            f"--n-best {n_best} needs at least {n_best} samples, found --mbr {samples}: give "
            f"--mbr {n_best}"
        )
    from crosshead.evaluation.sacrebleu_metrics import chrf_utility

    return MinimumRisk(samples, chrf_utility)


def writing_settings(
    bundle_says: DecodeConfig, greedy: bool, beam: int | None, flags: Mapping[str, Any]
) -> DecodeConfig:
    """Return the bundle's settings for writing text, overridden by the given (not None) options.

    `flags` are the options of sampling: any of them turns sampling on. `greedy` and `beam` turn it
    off.

    Raises:
        ConfigError: If both `greedy` and `beam` are given, or one of them with a flag of sampling.
    """
    given = [_flag(key) for key, value in flags.items() if value is not None]
    searched = "--greedy" if greedy else "--beam" if beam is not None else None
    if greedy and beam is not None:
        raise ConfigError(f"--beam {beam} and --greedy exclude each other; leave out one of them")
    if searched and given:
        raise ConfigError(f"{given[0]} applies to sampling only; leave out it or {searched}")
    if searched:
        drawn = {"sample": False, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        bundle_says = bundle_says.model_copy(update=drawn)
        flags = {"beam": 1 if greedy else beam}
    return search_settings(bundle_says, bool(given), flags, None)


def written(
    writer: TextGenerator, prompt: str, length: int, samples: int, decode: DecodeConfig, stop: str
) -> Iterator[str]:
    """Yield the prompt and its continuation, piece by piece, with an empty line between samples.

    Args:
        writer: The language model.
        prompt: The text to continue; `\\n` is a line break.
        length: Largest number of tokens per text.
        samples: Number of texts.
        decode: The search settings.
        stop: The text to stop before; empty for none.

    Raises:
        ConfigError: If several samples are asked for, but the search does not sample.
    """
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


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def bundles_and_file(bundle: Path, more: Sequence[str]) -> tuple[list[Path], str]:
    """Return the bundles and the file among the arguments of `translate`.

    The last one of `more` is the file, unless it is a directory or a packed bundle. Without a file,
    the lines come from `-`, standard input.
    """
    bundles = [bundle, *map(bundle_place, more)]
    last = bundles[-1]
    if not more or last.is_dir() or (last.is_file() and zipfile.is_zipfile(last)):
        return bundles, "-"
    return bundles[:-1], more[-1]


def only(bundles: Sequence[Path], option: str) -> Path:
    """Return the only bundle; `option` names data that no ensemble takes.

    Raises:
        UserError: If there are several bundles.
    """
    if len(bundles) > 1:
        raise UserError(
            f"{option} takes one bundle, found {len(bundles)}; only models that translate text "
            "alone form an ensemble"
        )
    return bundles[0]


def into(translator: Translator, to: str | None) -> Translator:
    """Return the translator for the language of `--to`, if it is given.

    Raises:
        ConfigError: If the model does not translate to this language, or needs one.
    """
    if to is not None:
        return translator.into(to)
    translator.with_tag([])
    return translator


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Sequence[Path | str], bundle: Path
) -> None:
    """Raise `UserError` if an output would replace an input, a file of the model, or another one.

    Args:
        outputs: The files to write by their options.
        inputs: The files that are read. `-` and other words that name no file do not count.
        bundle: The bundle of the model.
    """
    options: dict[Path, str] = {}
    for option, output in outputs.items():
        if output is None:
            continue
        other = options.setdefault(real_path(output), option)
        if other != option:
            raise UserError(f"{other} and {option} both name {output}; give two files")
        if not output.is_file():
            continue
        if any(os.path.isfile(file) and output.samefile(file) for file in inputs if file != "-"):
            raise UserError(f"{output} is the input file; give another {option}")
        if real_path(output) in map(real_path, files_in_use(bundle)):
            raise UserError(f"{output} is a file of the model {bundle}; give another {option}")


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


def check_direction(translator: Translator, source: str | os.PathLike[str]) -> None:
    """Check that the name of a source file is not that of text in the target language.

    Args:
        translator: The model.
        source: The file that the model reads.

    Raises:
        UserError: If the file is named as text in the language that the model writes.
    """
    reads, writes = translator.bundle.config.source_language, translator.target_language
    if reads and writes and suffix_language(os.fspath(source)) == writes != reads:
        raise UserError(
            f"{source}: is named as text in {writes}, but this model translates from {reads} to "
            f"{writes}; give a model of the other direction, or a file with another suffix"
        )


def warn_of_table(source: str | os.PathLike[str]) -> None:
    """Print a warning if a source file is named as a table, whose lines are no sentences.

    Args:
        source: The file that a model reads, line by line.
    """
    for line in whole_lines_warning(Path(source)):
        note(line)


class OddLines:
    """The lines of a whole input that were split, kept or flagged, for warnings at its end.

    Args:
        unit: The noun for a line: `line`, or `sentence` in a document.
    """

    def __init__(self, unit: str = "line") -> None:
        self._unit = unit
        self._lines = self._flagged = 0
        self._counts: Counter[str] = Counter()
        self._first = ""
        self._split: list[str] = []
        self._cut = 0
        self._kept: list[str] = []

    def add(self, lines: Sequence[str], found: Sequence[Sequence[Translation]], first: int) -> None:
        """Count the lines by what happened to their best translations.

        Args:
            lines: The lines.
            found: The translations of each line.
            first: The number of the first line.
        """
        self._lines += len(lines)
        for number, (line, (best, *_)) in enumerate(zip(lines, found, strict=True), first):
            flags = [each for each in best.flags if each in FLAGS]
            self._counts.update(flags)
            self._flagged += bool(flags)
            name = f"{self._unit} {number}"
            if flags and not self._first:
                self._first = f"{name} ({_beginning(line)}): {FLAGS[flags[0]]}"
            if best.was_passed_through:
                self._kept.append(name)
            elif best.was_split:
                self._split.append(name)
                self._cut += best.sentence_was_cut

    def warnings(self) -> list[str]:
        """Return a warning for each kind of lines that there are."""
        found = []
        if self._kept:
            found.append(
                f"warning: {self._named(self._kept, 'was', 'were')} kept unchanged, not "
                f"translated: more than {LONGEST_STRETCH:,} characters without a space or "
                "punctuation"
            )
        if self._split:
            inside = f", {self._cut:,} of them split inside a sentence" if self._cut else ""
            if len(self._split) == 1:
                inside = ", split inside a sentence" if self._cut else ", split between sentences"
            found.append(
                f"warning: {self._named(self._split, 'is', 'are')} too long for the model, and "
                f"{'was' if len(self._split) == 1 else 'were'} translated in parts{inside}"
            )
        if self._flagged:
            kinds = [f"{name} {self._counts[name]:,}" for name in FLAGS if self._counts[name]]
            found.append(
                f"warning: {self._flagged:,} of {counted(self._lines, self._unit)} may be "
                f"translated badly ({', '.join(kinds)}); the first is {self._first}; --jsonl lists "
                f"the flags of each {self._unit}"
            )
        return found

    def _named(self, lines: Sequence[str], one: str, several: str) -> str:
        """Return the subject and the verb of a sentence about some lines."""
        if len(lines) == 1:
            return f"{lines[0]} {one}"
        every = counted(self._lines, self._unit)
        return f"{len(lines):,} of {every}, {lines[0]} the first, {several}"


def _beginning(line: str, most: int = 40) -> str:
    """Return the beginning of a line in quotes, for a message."""
    text = " ".join(line.split())
    return f'"{text if len(text) <= most else text[: most - 1] + "…"}"'


@contextlib.contextmanager
def answering(total: int | None, unit: str = "lines") -> Iterator[Callable[..., None]]:
    """Yield a callback that reports how many lines are answered.

    The callback takes the number of lines answered before a group, the number of lines in the
    group, and the share of the group that is done. A progress bar shows the answered share of
    `total` lines. If `total` is None or 0, no bar is shown.

    Args:
        total: Number of lines in all, or None if it is not known.
        unit: Noun for what is counted.
    """
    if not total:
        yield lambda before, lines, share: None
        return
    display = Bar(Messages(lambda: None))
    began = time.monotonic()

    def advance(before: int, lines: int, share: float) -> None:
        done = before + share * lines
        speed = done / max(time.monotonic() - began, 1e-3)
        display.advance(done / total, f"{int(done):,} of {total:,} {unit}, {speed:,.0f} {unit}/s")

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
    for first in range(0, len(sources), SCORED_AT_ONCE):
        rows = slice(first, first + SCORED_AT_ONCE)
        pairs = list(zip(sources[rows], targets[rows], strict=True))
        refused = translator.refusals(sources[rows], targets[rows], first=first)
        kept = [pair for row, pair in enumerate(pairs) if row not in refused]
        found = iter(translator.score([pair[0] for pair in kept], [pair[1] for pair in kept]))
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

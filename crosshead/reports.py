"""What the verbs of the command line print, as text: answers, scores, facts, summaries."""

import contextlib
import dataclasses
import json
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from crosshead.bundle import Bundle, build_model
from crosshead.config import nearest, validate
from crosshead.data.tokenizers import MOST_PIECES
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import ConfigError, UserError
from crosshead.evaluation import METRICS, ComparedScore, CorpusScore, corpus_scores, perplexity
from crosshead.pipelines import ScoredTranslation, Translation, Translator
from crosshead.pipes import count_lines, read_groups
from crosshead.terminal import note, open_output, program, table, watched
from crosshead.training.log import Bar, Messages, counted
from crosshead.training.recipe import PRESETS, compose
from crosshead.training.run import LEFT_OUT, Summary

SCORED_AT_ONCE = 1024
"""Pairs that `score` answers together."""


def search_settings(
    bundle_says: DecodeConfig, sample: bool, flags: Mapping[str, Any], n_best: int | None
) -> DecodeConfig:
    """How to search: as the bundle says, but for the flags that are given (not None).

    Samples keep no beam, so `sample` without a beam is a beam of 1. Raises `ConfigError`.
    """
    values = bundle_says.model_dump()
    if sample:
        values |= {"sample": True, "beam": 1}
    for key in ("temperature", "top_k", "top_p", "seed"):
        if flags.get(key) is not None and not values["sample"]:
            raise ConfigError(f"{_flag(key)} acts on samples only: give --sample")
    values |= {key: value for key, value in flags.items() if value is not None}
    typed = {key: _flag(key) for key, value in flags.items() if value is not None}
    decode = validate(DecodeConfig, values, typed=typed)
    if n_best is not None and n_best > decode.beam and not decode.sample:
        raise ConfigError(
            f"--n-best {n_best} needs a beam of as many, found {decode.beam}: give --beam {n_best}"
        )
    return decode


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def check_not_input(output: Path | None, file: str) -> None:
    """Raise `UserError` where what is read would be written over."""
    if output is None or file == "-":
        return
    if output.is_file() and Path(file).is_file() and output.samefile(file):
        raise UserError(f"{output}: is the input, which stays as it is; name another --output")


def answer(
    translator: Translator,
    file: str,
    output: Path | None,
    decode: DecodeConfig,
    n_best: int | None,
    scores: bool,
    jsonl: bool,
) -> None:
    """Translate the lines of a file (`-`: standard input), a group of them after the other.

    The answers go to `output`, or where it is None to standard output.
    """
    before = 0
    total = count_lines(file) if watched(output) else None
    with open_output(output) as write, answering(total) as advance:
        for lines in read_groups(file):
            progress = partial(advance, before, len(lines))
            found = translator.translate(
                lines, decode=decode, n_best=n_best or 1, first=before, progress=progress
            )
            first, listed = before + 1, n_best is not None  # people count lines from 1
            write(answers(lines, found, first, listed, scores, jsonl).encode())
            progress(1.0, split_warnings(found, first))
            before += len(lines)


def answers(
    lines: Sequence[str],
    found: Sequence[Sequence[Translation]],
    first: int,
    listed: bool,
    scores: bool,
    jsonl: bool,
) -> str:
    """What `translate` prints for lines, the first of which has the number `first`.

    For each its best translation or, `listed`, all that were found.
    """
    return "".join(
        _answer(number, line, best, listed, scores, jsonl)
        for number, (line, best) in enumerate(zip(lines, found, strict=True), first)
    )


def split_warnings(found: Sequence[Sequence[Translation]], first: int) -> list[str]:
    """What there is to say of lines that were translated in parts."""
    return [
        f"warning: line {number} is longer than the model's reach: it was split "
        + (
            "inside a sentence and translated in parts"
            if best[0].sentence_was_cut
            else "at ends of sentences and translated in parts"
        )
        for number, best in enumerate(found, first)
        if best[0].was_split
    ]


@contextlib.contextmanager
def answering(total: int | None) -> Iterator[Callable[..., None]]:
    """What to call as lines are answered.

    It takes the number of lines answered before a group, that of the group, the share of it that is
    done, and what there is to say of it. Of `total` lines a progress bar shows how many are done;
    of None or 0 nothing is shown.
    """

    def say(before: int, lines: int, share: float, said: Sequence[str] = ()) -> None:
        for line in said:
            note(line)

    if not total:
        yield say
        return
    display = Bar(Messages(lambda: None))
    began = time.monotonic()

    def advance(before: int, lines: int, share: float, said: Sequence[str] = ()) -> None:
        for line in said:
            display.say(f"crosshead: {line}")
        done = before + share * lines
        speed = done / max(time.monotonic() - began, 1e-3)
        display.advance(done / total, f"{int(done):,} of {total:,} lines, {speed:,.0f} lines/s")

    try:
        advance(0, 0, 0.0)
        yield advance
    finally:
        display.close()


def scored(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], jsonl: bool
) -> Iterator[str]:
    """What `score` prints, a group of pairs after the other."""
    for first in range(0, len(sources), SCORED_AT_ONCE):
        rows = slice(first, first + SCORED_AT_ONCE)
        found = translator.score(sources[rows], targets[rows], first=first)
        pairs = zip(sources[rows], targets[rows], found, strict=True)
        yield "".join(
            _scored(number, source, target, each, jsonl)
            for number, (source, target, each) in enumerate(pairs, first + 1)
        )


def _scored(number: int, source: str, target: str, found: ScoredTranslation, jsonl: bool) -> str:
    if not jsonl:
        return f"{found.log_prob:.4f}\n"
    return _json_line(
        {
            "line": number,
            "source": source,
            "target": target,
            "log_prob": found.log_prob,
            "pieces": found.pieces,
            "piece_log_probs": found.piece_log_probs,
        }
    )


def metric_names(text: str, tokenize: str | None, others: Sequence[str] = ()) -> list[str]:
    """The metrics in a list by commas: sacreBLEU's, and those named in `others`.

    Raises `ConfigError` for a metric or a tokenisation that there is not: now, and not when all is
    translated.
    """
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in METRICS and name not in others:
            known = [*METRICS, *others]
            raise ConfigError(f"--metrics: unknown metric {name!r}; {nearest(name, known)}")
    corpus_scores(["a"], ["a"], ["bleu"], tokenize)
    return names


def check_distinct(bundles: Sequence[Path]) -> None:
    """Raise `UserError` where a bundle is to be compared with itself."""
    for bundle in bundles:
        if bundles.count(bundle) > 1:
            raise UserError(f"{bundle} is given twice; name each bundle once")


def evaluation(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str],
    tokenize: str | None,
    flags: Mapping[str, Any],
) -> list[CorpusScore]:
    """The scores of a model's translations by each metric, in the order asked for."""
    texts = [name for name in metrics if name != "perplexity"]
    found: dict[str, CorpusScore] = {}
    if "perplexity" in metrics:  # first: it refuses pairs that are too long, before long work
        scored = translator.score(sources, references)
        found["perplexity"] = perplexity(scored, translator.bundle.target_tokenizer)
    if texts:
        scores = corpus_scores(translated(translator, sources, flags), references, texts, tokenize)
        found |= zip(texts, scores, strict=True)
    return [found[name] for name in metrics]


def translated(
    translator: Translator, sources: Sequence[str], flags: Mapping[str, Any]
) -> list[str]:
    """The best translation of each line, searched as the bundle and then the flags say."""
    decode = search_settings(translator.bundle.config.decode, False, flags, None)
    return [best[0].text for best in translator.translate(sources, decode=decode)]


def scores_table(scores: Sequence[CorpusScore]) -> str:
    """Scores for people."""
    rows = [["metric", "score", "95 % interval", "signature"]]
    for each in scores:
        interval = f"{each.low:.2f} to {each.high:.2f}"
        rows.append([each.metric, f"{each.value:.2f}", interval, each.signature])
    return table(rows)


def comparison_table(scores: Sequence[ComparedScore]) -> str:
    """Compared scores for people, and the signatures below."""
    rows = [["metric", "system", "score", "95 % interval", "p"]]
    for each in scores:
        p_value = "" if each.p_value is None else f"{each.p_value:.4f}"
        interval = f"{each.low:.2f} to {each.high:.2f}"
        rows.append([each.metric, each.system, f"{each.value:.2f}", interval, p_value])
    signatures = {each.metric: each.signature for each in scores}
    lines = [f"{metric}: {signature}\n" for metric, signature in signatures.items()]
    return table(rows) + "\n" + "".join(lines)


def scores_jsonl(scores: Sequence[CorpusScore] | Sequence[ComparedScore]) -> str:
    """Scores for programs: an object a line; the baseline of a comparison has no `p_value`."""
    rows = [dataclasses.asdict(each) for each in scores]
    return "".join(
        _json_line({key: value for key, value in row.items() if value is not None}) for row in rows
    )


def bundle_facts(directory: Path, bundle: Bundle) -> list[list[str]]:
    """What a bundle is, in rows of a name and a value."""
    config, model = bundle.config, bundle.config.model
    parameters = sum(parameter.numel() for parameter in bundle.model.parameters())
    size = sum(file.stat().st_size for file in directory.iterdir() if file.is_file())
    kinds = [bundle.source_tokenizer.kind, bundle.target_tokenizer.kind]
    sizes = [config.source_vocabulary, config.target_vocabulary]
    if config.joint_tokenizer:
        vocabulary = f"{kinds[0]}, {sizes[0]:,} pieces for both sides"
    else:
        vocabulary = f"{kinds[0]}, {sizes[0]:,} pieces; {kinds[1]}, {sizes[1]:,} pieces"
    decode, longest, reach = config.decode, config.longest_source, Translator(bundle).reach
    rows = [
        ["bundle", f"{directory}, format {config.format}, written by crosshead {config.crosshead}"],
        ["size", f"{size / 1e6:.1f} MB in {directory}, without what lies below it"],
        [
            "model",
            f"{model.architecture}, {model.encoder_layers}+{model.decoder_layers} layers, d_model "
            f"{model.d_model}, d_ff {model.d_ff}, {model.heads} heads, {model.norm}-norm",
        ],
        ["parameters", f"{parameters:,}"],
        ["tokenizer", vocabulary],
        [
            "longest source",
            f"{longest} tokens; a longer line is split at the ends of its sentences, one of more "
            f"than {reach} inside",
        ],
        ["search", f"beam {decode.beam}, length penalty {decode.length_penalty:g}"],
    ]
    rows += [
        [each.metric, f"{each.value:.2f} on {each.test_set} ({each.signature})"]
        for each in config.scores
    ]
    return rows


def run_report(summary: Summary) -> str:
    """How a finished run went, and what to do with it."""
    progress = summary.progress
    skipped = f" ({progress.skipped:,} left out: gradients not finite)" if progress.skipped else ""
    rows = [
        ["bundle", f"{summary.out}"],
        ["ended", summary.reason],
        ["weights", summary.weights],
        *[
            [f"{each.metric} ({summary.search})", f"{each.value:.2f} ({each.test_set})"]
            for each in summary.scores
        ],
        [
            "training",
            f"{counted(progress.update, 'update')}{skipped}, {progress.epochs:.1f} epochs, "
            f"{progress.seconds / 60:.1f} minutes",
        ],
        ["parameters", f"{summary.parameters:,}"],
    ]
    left_out = _left_out(summary.out / LEFT_OUT)
    parts = [table(rows)]
    if left_out:
        counts = [[reason, f"{count:,}"] for reason, count in left_out.items()]
        parts.append(table([["left out of training", "pairs"], *counts], numbers=1))
        parts.append(f"The lines are in {summary.out / LEFT_OUT}\n")
    parts.append(f"Translate with: {program()} translate {shlex.quote(str(summary.out))} FILE\n")
    return "\n".join(parts)


def how_to_resume(summary: Summary) -> str:
    """What is left of a run that was interrupted."""
    if summary.progress.update == 0:
        holds_one = summary.out.exists() and any(summary.out.iterdir())
        left = "the earlier run is back" if holds_one else "nothing is left"
        return f"stopped before the first update: {left} in {summary.out}"
    command = f"{program()} train --resume --out {shlex.quote(str(summary.out))}"
    return f"stopped at update {summary.progress.update}; go on with: {command}"


def preset_rows() -> list[list[str]]:
    """A row for each preset under a head; a vocabulary that follows the data is at its largest."""
    rows = [["preset", "layers", "d_model", "d_ff", "heads", "vocabulary", "parameters", "MB"]]
    for name in PRESETS:
        recipe = compose(name)
        model, vocabulary = recipe.model, recipe.tokenizer.vocab_size or MOST_PIECES
        bound = "" if recipe.tokenizer.vocab_size else "by the data, to "
        # The counting needs no memory for the parameters.
        with torch.device("meta"):
            built = build_model(model, vocabulary, vocabulary)
        parameters = sum(parameter.numel() for parameter in built.parameters())
        rows.append(
            [
                name,
                f"{model.encoder_layers}+{model.decoder_layers}",
                str(model.d_model),
                str(model.d_ff),
                str(model.heads),
                f"{bound}{vocabulary:,}",
                f"{'to ' if bound else ''}{parameters:,}",
                f"{'to ' if bound else ''}{4 * parameters / 1e6:.0f}",
            ]
        )
    return rows


def _answer(
    number: int, line: str, best: Sequence[Translation], listed: bool, scores: bool, jsonl: bool
) -> str:
    if jsonl:
        head: dict[str, Any] = {"line": number, "source": line}
        if listed:
            head["translations"] = [_translation_values(each) for each in best]
        else:
            head |= _translation_values(best[0])
        return _json_line(head)
    if listed:
        return "".join(f"{number} ||| {each.text} ||| {each.score:.4f}\n" for each in best)
    return f"{best[0].text}\t{best[0].score:.4f}\n" if scores else f"{best[0].text}\n"


def _translation_values(translation: Translation) -> dict[str, Any]:
    values = dataclasses.asdict(translation)
    return {"translation": values.pop("text"), **values}


def _json_line(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"


def _left_out(path: Path) -> Counter[str]:
    """How many pairs were left out for each reason."""
    try:
        rows = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")[1:]
    except FileNotFoundError:
        return Counter()
    return Counter(row.rpartition("\t")[2] for row in rows)

"""What the verbs of the command line print, as text: answers, scores, facts, summaries."""

import dataclasses
import json
import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from crosshead.bundle import Bundle, build_model
from crosshead.config import nearest, validate
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import ConfigError, UserError
from crosshead.evaluation import METRICS, ComparedScore, CorpusScore, corpus_scores, perplexity
from crosshead.pipelines import ScoredTranslation, Translation, Translator
from crosshead.terminal import program, table
from crosshead.training.recipe import PRESETS, compose
from crosshead.training.run import LEFT_OUT, Summary


def search_settings(
    bundle_says: DecodeConfig, sample: bool, flags: Mapping[str, Any], n_best: int | None
) -> DecodeConfig:
    """How to search: as the bundle says, but for the flags that are given (not None).

    Samples keep no beam, so `sample` without a beam is a beam of 1. Raises `ConfigError`.
    """
    values = bundle_says.model_dump()
    if sample:
        values |= {"sample": True, "beam": 1}
    values |= {key: value for key, value in flags.items() if value is not None}
    decode = validate(DecodeConfig, values)
    if n_best is not None and n_best > decode.beam and not decode.sample:
        raise ConfigError(
            f"--n-best {n_best} needs a beam of as many, found {decode.beam}: give --beam {n_best}"
        )
    return decode


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
        f"warning: line {number} is longer than the model's reach: it was split at ends of "
        "sentences and translated in parts"
        for number, best in enumerate(found, first)
        if best[0].was_split
    ]


def scored(number: int, source: str, target: str, found: ScoredTranslation, jsonl: bool) -> str:
    """What `score` prints for pair `number`."""
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
) -> list[CorpusScore]:
    """The scores of a model's translations by each metric, in the order asked for.

    The interval of perplexity is not known: its ends are NaN.
    """
    texts = [name for name in metrics if name != "perplexity"]
    found: dict[str, CorpusScore] = {}
    if texts:
        scores = corpus_scores(translator(sources), references, texts, tokenize)
        found = dict(zip(texts, scores, strict=True))
    if "perplexity" in metrics:
        value = perplexity(translator.score(sources, references))
        found["perplexity"] = CorpusScore("perplexity", value, math.nan, math.nan, "")
    return [found[name] for name in metrics]


def scores_table(scores: Sequence[CorpusScore]) -> str:
    """Scores for people."""
    rows = [["metric", "score", "95 % interval", "signature"]]
    for each in scores:
        interval = "" if math.isnan(each.low) else f"{each.low:.2f} to {each.high:.2f}"
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
    """Scores for programs: an object a line, without what is not known."""
    rows = []
    for each in scores:
        values = dataclasses.asdict(each)
        rows.append({k: v for k, v in values.items() if v != "" and v is not None and v == v})
    return "".join(_json_line(row) for row in rows)


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
    decode = config.decode
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
        ["longest source", f"{config.longest_source} tokens; longer lines are split"],
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
        *[[each.metric, f"{each.value:.2f} ({each.test_set})"] for each in summary.scores],
        [
            "training",
            f"{progress.update:,} updates{skipped}, {progress.epochs:.1f} epochs, "
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
        return f"stopped before the first update: nothing is left in {summary.out}"
    command = f"{program()} train --resume --out {shlex.quote(str(summary.out))}"
    return f"stopped at update {summary.progress.update}; go on with: {command}"


def preset_rows() -> list[list[str]]:
    """A row for each preset under a head."""
    rows = [["preset", "layers", "d_model", "d_ff", "heads", "vocabulary", "parameters", "MB"]]
    for name in PRESETS:
        recipe = compose(name)
        model, vocabulary = recipe.model, recipe.tokenizer.vocab_size
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
                f"{vocabulary:,}",
                f"{parameters:,}",
                f"{4 * parameters / 1e6:.0f}",
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

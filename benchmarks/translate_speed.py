"""How fast crosshead translates, beside Hugging Face's generate and CTranslate2: see README.md.

All translate the same tokenized sentences with the same weights by beam search. Each runs with the
batches and threads that a calibration finds best for it; then they take turns.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from harness import (
    CORES,
    ROOT,
    Answer,
    PeakMemory,
    Settings,
    Worker,
    choose_settings,
    data_folder,
    describe,
    machine,
    mebibytes,
    serve,
    spread,
    table,
    take_turns,
)

from crosshead.addons.interop.ctranslate2_model import library
from crosshead.bundle.base import Bundle
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import UserError
from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.tasks.batched_search import TokenInputs, search_all
from crosshead.tasks.registry import load_bundle
from crosshead.tasks.translation.translator import Translator
from crosshead.text.parallel.corpora import read_pairs
from crosshead.text.parallel.section import DataConfig
from crosshead.text.tokenizers import token_ids
from crosshead.vocabulary import EOS, PAD

BUDGETS = [1024, 4096, 16384]
"""Source tokens in a batch, padding counted, that the calibration tries."""

MAX_EXTRA = 50
"""The longest output is this many tokens longer than the source."""

OURS, TEXT = "crosshead float32", "crosshead float32, text to text"

DEFAULTS: dict[str, Settings] = {
    OURS: {"library": "crosshead", "precision": "float32"},
    "crosshead bfloat16": {"library": "crosshead", "precision": "bfloat16"},
    "generate float32": {"library": "generate", "precision": "float32", "attention": "sdpa"},
    "generate bfloat16": {"library": "generate", "precision": "bfloat16", "attention": "sdpa"},
    "CTranslate2 float32": {"library": "CTranslate2", "precision": "float32", "translators": 1},
    "CTranslate2 int8": {"library": "CTranslate2", "precision": "int8", "translators": 1},
}
CHOICES: dict[str, dict[str, list[Any]]] = {
    "crosshead": {"budget": BUDGETS, "threads": [1, CORES]},
    "generate": {"budget": BUDGETS, "threads": [1, CORES], "attention": ["sdpa", "eager"]},
    # Two translators of one thread each, say, take batches in parallel.
    "CTranslate2": {"budget": BUDGETS, "translators": [1, CORES]},
}

Ids = list[list[int]]

Translate = Callable[[Ids], Ids]
"""From source ids to target ids, each with the end of the sentence, in the same order."""


def main() -> None:
    options = _options()
    bundle = load_named(options.bundle)
    raw = data_folder() / "multi30k" / "raw"
    test = read_pairs(
        DataConfig(
            source=[options.source or str(raw / "test_2016_flickr.en")],
            target=[options.reference or str(raw / "test_2016_flickr.de")],
        )
    )
    print("# Translation speed\n")
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        common = _write_work(Path(folder), bundle, options, test.source)
        chosen: dict[str, Settings] = {}
        calibration: list[list[str]] = []
        for side, defaults in DEFAULTS.items():
            settings = {"side": side, **common, **defaults}
            if options.calibrate:
                choices = CHOICES[settings["library"]]
                settings = choose_settings(settings, choices, _rate, calibration)
            chosen[side] = settings
        chosen[TEXT] = {**chosen[OURS], "side": TEXT, "library": "text"}
        workers = {side: Worker(settings) for side, settings in chosen.items()}
        texts = {side: worker.ask(texts=True)["texts"] for side, worker in workers.items()}
        answers = take_turns(workers, options.rounds, lambda number: {"texts": False})
        for worker in workers.values():
            worker.close()
    print(_report(bundle, options, chosen, texts, test.target, answers))
    if calibration:
        print(table(["calibration", "settings", "output tokens/s"], calibration))


def _report(
    bundle: Bundle,
    options: argparse.Namespace,
    chosen: dict[str, Settings],
    texts: dict[str, list[str]],
    references: list[str],
    answers: dict[str, list[dict[str, Any]]],
) -> str:
    """What was measured, as Markdown."""
    seconds = {side: [a["seconds"] for a in found] for side, found in answers.items()}
    rows = []
    for side, found in answers.items():
        same = sum(a == b for a, b in zip(texts[side], texts[OURS], strict=True)) / len(references)
        rows.append([
            side,
            describe(chosen[side]),
            spread([a["tokens"] / a["seconds"] for a in found]),
            spread(_quotients(seconds[side], seconds[OURS]), 2),
            f"{bleu(texts[side], references):.2f}",
            f"{same:.1%}",
            mebibytes(found[-1]["peak_bytes"]),
        ])  # fmt: skip
    header = ["side", "settings", "output tokens/s", f"time, in that of {OURS}", "BLEU"]
    header += [f"same text as {OURS}", "peak memory, MiB"]
    ours = _fastest("crosshead", seconds, chosen)
    rivals = [_fastest("generate", seconds, chosen), "CTranslate2 float32", "CTranslate2 int8"]
    ratios = []
    for rival in rivals:
        times = spread(_quotients(seconds[rival], seconds[ours]), 2)
        ratios.append(f"- {ours} is {times} times as fast as {rival}")
    weights = sum(parameter.numel() for parameter in bundle.model.parameters())
    return "\n".join([
        f"`{options.bundle}`, {weights / 1e6:.1f} M weights, {len(references):,} sentences, beam "
        f"{options.beam}, no length penalty, at most {MAX_EXTRA} tokens more than the source; "
        f"transformers {version('transformers')}, CTranslate2 {version('ctranslate2')}. From ids "
        "to ids, sorted by length on every side; loading is not counted. Peak memory is what "
        "translating adds to the process once the model is loaded.\n",
        table(header, rows),
        f"Round by round, {options.rounds} rounds; median, least and largest:\n",
        *ratios,
        "",
    ])  # fmt: skip


def _quotients(above: list[float], below: list[float]) -> list[float]:
    return [a / b for a, b in zip(above, below, strict=True)]


def _fastest(library: str, seconds: dict[str, list[float]], chosen: dict[str, Settings]) -> str:
    """The side of a library that took the least time."""
    sides = [side for side in seconds if chosen[side]["library"] == library]
    return min(sides, key=lambda side: statistics.median(seconds[side]))


def _rate(settings: Settings) -> float:
    """Output tokens a second with these settings, in one pass after another."""
    worker = Worker(settings)
    worker.ask(texts=False)
    answer = worker.ask(texts=False)
    worker.close()
    return float(answer["tokens"] / answer["seconds"])


def load_named(path: Path) -> Bundle:
    """The bundle at `path`; raises `UserError` where there is none, and says how to get one."""
    if not path.is_dir():
        raise UserError(
            f"{path}: there is no bundle; name one that `crosshead train` made of Multi30k "
            "English-German, or any with --source and --reference"
        )
    return load_bundle(path)


def _write_work(
    folder: Path, bundle: Bundle, options: argparse.Namespace, lines: list[str]
) -> Settings:
    """Write what the workers read, the lines and the CTranslate2 model; the settings of all."""
    from ctranslate2_model import write_ctranslate2

    write_ctranslate2(bundle.model, folder / "ctranslate2")
    ids = [[*row, EOS] for row in token_ids(bundle.source_tokenizer, lines)]
    (folder / "work.json").write_text(json.dumps({"lines": lines, "ids": ids}))
    return {
        "bundle": str(options.bundle),
        "files": str(folder),
        "beam": options.beam,
        "threads": CORES,
        "budget": BUDGETS[1],
    }


def start(settings: Settings, memory: PeakMemory) -> Answer:
    """A translator as the settings say, for the process of one side."""
    bundle = load_bundle(settings["bundle"])
    work = json.loads((Path(settings["files"]) / "work.json").read_text())
    if settings["library"] == "text":
        return _text(bundle, settings, work["lines"], memory)
    translate = LIBRARIES[settings["library"]](bundle, settings)
    memory.reset()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        outputs = translate(work["ids"])
        reply: dict[str, Any] = {"seconds": time.perf_counter() - began}
        reply["tokens"] = sum(map(len, outputs))
        if request["texts"]:
            tokenizer = bundle.target_tokenizer
            reply["texts"] = [tokenizer.decode([i for i in row if i != EOS]) for row in outputs]
        return reply

    return answer


def _text(bundle: Bundle, settings: Settings, lines: list[str], memory: PeakMemory) -> Answer:
    """Our translator as users call it: tokenization and everything else included."""
    translator, decode = Translator(bundle), _decode_config(settings)
    memory.reset()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        best = [found[0] for found in translator.translate(lines, decode=decode)]
        reply: dict[str, Any] = {"seconds": time.perf_counter() - began}
        reply["tokens"] = sum(len(translation.pieces) for translation in best)
        if request["texts"]:
            reply["texts"] = [translation.text for translation in best]
        return reply

    return answer


def _crosshead(bundle: Bundle, settings: Settings) -> Translate:
    model = bundle.model.to(getattr(torch, settings["precision"]))
    decode = _decode_config(settings)

    def translate(sources: Ids) -> Ids:
        found = search_all(
            model, TokenInputs([row[:-1] for row in sources]), bundle.specials, decode
        )
        return [[*best.tokens, EOS] if best.finished else best.tokens for [best] in found]

    return translate


def _generate(bundle: Bundle, settings: Settings) -> Translate:
    from peers import marian_of  # only this side's process needs it

    model = marian_of(bundle.model, settings["attention"])
    model.to(getattr(torch, settings["precision"]))

    def translate(sources: Ids) -> Ids:
        outputs: dict[int, list[int]] = {}
        for rows, source in _batches(sources, settings["budget"]):
            found = model.generate(
                input_ids=source,
                attention_mask=(source != PAD).long(),
                num_beams=settings["beam"],
                do_sample=False,
                length_penalty=0.0,
                # It then ends, as ours does, when as many hypotheses as the beam have.
                early_stopping=True,
                max_new_tokens=source.shape[1] + MAX_EXTRA,
            )
            for row, ids in zip(rows, found[:, 1:].tolist(), strict=True):
                kept = list(takewhile(lambda token: token != EOS, ids))
                outputs[row] = [*kept, EOS] if len(kept) < len(ids) else kept
        return [outputs[row] for row in range(len(sources))]

    return translate


def _ctranslate2(bundle: Bundle, settings: Settings) -> Translate:
    translator = library().Translator(
        str(Path(settings["files"]) / "ctranslate2"),
        compute_type=settings["precision"],
        inter_threads=settings["translators"],
        intra_threads=max(1, settings["threads"] // settings["translators"]),
    )

    def translate(sources: Ids) -> Ids:
        results = translator.translate_batch(
            [[str(token) for token in row] for row in sources],
            max_batch_size=settings["budget"],
            batch_type="tokens",
            beam_size=settings["beam"],
            length_penalty=0.0,
            max_decoding_length=max(map(len, sources)) + MAX_EXTRA,
            return_end_token=True,
        )
        return [[int(token) for token in result.hypotheses[0]] for result in results]

    return translate


LIBRARIES = {"crosshead": _crosshead, "generate": _generate, "CTranslate2": _ctranslate2}


def _decode_config(settings: Settings) -> DecodeConfig:
    return DecodeConfig(
        beam=settings["beam"],
        length_penalty=0.0,
        max_extra=MAX_EXTRA,
        batch_tokens=settings["budget"],
    )


def _batches(sources: Ids, budget: int) -> Iterator[tuple[list[int], torch.Tensor]]:
    """The rows and the padded ids of each batch, longest first, within a budget of tokens."""
    order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
    first = 0
    while first < len(order):
        width = len(sources[order[first]])
        rows = order[first : first + max(budget // width, 1)]
        padded = [sources[row] + [PAD] * (width - len(sources[row])) for row in rows]
        yield rows, torch.tensor(padded)
        first += len(rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    add = parser.add_argument
    default = ROOT / "runs" / "multi30k-en-de"
    add("bundle", type=Path, nargs="?", default=default, help="a trained bundle (%(default)s)")
    add("--source", help="lines to translate (Multi30k's test_2016_flickr.en)")
    add("--reference", help="their translations (Multi30k's test_2016_flickr.de)")
    add("--beam", type=int, default=5, help="(%(default)s)")
    add("--rounds", type=int, default=5, help="turns of each side (%(default)s)")
    add(
        "--no-calibration",
        dest="calibrate",
        action="store_false",
        help="all cores and batches of 4,096 tokens for all: a quick look",
    )
    return parser.parse_args()


if __name__ == "__main__":
    try:
        serve(start) if sys.argv[1:] == ["--worker"] else main()
    except UserError as error:
        sys.exit(str(error))

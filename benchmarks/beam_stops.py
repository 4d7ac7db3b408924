"""The cost of beam search's exact stop, counted in steps of the model: see README.md.

Steps and hypotheses are counted, not seconds, so that the figures do not depend on the machine.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import torch
from harness import data_folder, table
from torch import Tensor
from translate_speed import load_named

from crosshead.decoding.settings import Stop
from crosshead.errors import UserError
from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.models.base import SequenceModel
from crosshead.tasks.translation.line_translator import Translation
from crosshead.tasks.translation.translator import Translator
from crosshead.text.parallel.corpora import read_pairs
from crosshead.text.parallel.section import DataConfig

HEADER = ["stop", "steps", "hypothesis-steps", "BLEU", "mean score", "score higher", "lists differ"]


def main() -> None:
    options = _options()
    raw = data_folder() / "multi30k" / "raw"
    pairs = read_pairs(
        DataConfig(
            source=[options.source or str(raw / "val.en")],
            target=[options.reference or str(raw / "val.de")],
        )
    )
    torch.set_num_threads(1)
    translator = Translator(load_named(options.bundle))
    flags = {"beam": options.beam, "length_penalty": options.length_penalty}
    given = {key: value for key, value in flags.items() if value is not None}
    decode = translator.bundle.config.decode.model_copy(update=given)
    print(
        f"beam {decode.beam}, length penalty {decode.length_penalty:g}, at most {decode.max_extra} "
        f"tokens more than the source, n-best {options.n_best}, {len(pairs.source)} sentences\n"
    )
    rows, first, hypotheses = [], None, 0
    for stop in get_args(Stop):
        with counted(translator.model) as counts:
            found = translator.translate(
                pairs.source,
                decode=decode.model_copy(update={"stop": stop}),
                n_best=options.n_best,
            )
        first, hypotheses = first or found, hypotheses or counts["hypotheses"]
        ratio = counts["hypotheses"] / hypotheses
        rows.append([
            stop,
            f"{counts['steps']:,}",
            f"{counts['hypotheses']:,} ({ratio:.2f} times)",
            f"{bleu([each[0].text for each in found], pairs.target):.2f}",
            f"{sum(each[0].score for each in found) / len(found):.4f}",
            str(sum(b[0].score > a[0].score + 1e-5 for a, b in zip(first, found, strict=True))),
            str(sum(texts(a) != texts(b) for a, b in zip(first, found, strict=True))),
        ])  # fmt: skip
    print(table(HEADER, rows))


def texts(found: list[Translation]) -> list[str]:
    """Return the texts of a list of translations."""
    return [each.text for each in found]


@contextmanager
def counted(model: SequenceModel) -> Iterator[dict[str, int]]:
    """Count the steps of a model, and the hypotheses that are fed in them."""
    counts, step = {"steps": 0, "hypotheses": 0}, model.step

    def counting(state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        counts["steps"] += 1
        counts["hypotheses"] += len(tokens)
        return step(state, tokens)

    model.step = counting  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        del model.step


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path, help="The bundle to search.")
    parser.add_argument("--source", help="Source sentences (default: Multi30k's val.en).")
    parser.add_argument("--reference", help="Their translations (default: Multi30k's val.de).")
    parser.add_argument("--beam", type=int, help="Size of the beam (default: the bundle's).")
    parser.add_argument(
        "--length-penalty", type=float, help="Exponent of the penalty (default: the bundle's)."
    )
    parser.add_argument(
        "--n-best", type=int, default=1, help="Translations for each sentence (default: 1)."
    )
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")

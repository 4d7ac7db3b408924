"""Small models that Marian itself trains, with its scores and translations.

Marian runs in an environment of its own: the variable PYMARIAN_PYTHON names a Python that has the
package `pymarian`.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import sentencepiece

from tests.addons.interop.sentencepieces import learned, marian_vocabulary

TRAINED = (
    "--type transformer --dim-emb 32 --enc-depth 1 --dec-depth 1 --transformer-heads 2 "
    "--transformer-dim-ffn 64 --train-sets train.source train.target --learn-rate 0.005 "
    "--lr-warmup 50 --after 700u --mini-batch 64 --seed 1 --clip-norm 1 --beam-size 4 --normalize 1"
)
_PROGRAM = "import sys, _pymarian; _pymarian.main(sys.argv[1:])"


class NativeMarian:
    """A model of Marian in a directory, with SentencePiece.

    Args:
        python: The Python that has pymarian.
        directory: The directory.
        sides: The lines of `train.source`, `train.target`, `test.source` and `test.target`.
        joint: True for one SentencePiece model of both sides.
        listed: True if the files have pieces and `vocab.yml` lists them, as in OPUS-MT. False if
            Marian itself segments them.
    """

    def __init__(
        self,
        python: str,
        directory: Path,
        sides: Mapping[str, Sequence[str]],
        *,
        joint: bool,
        listed: bool,
    ) -> None:
        self._python, self._directory, self._listed = python, directory, listed
        texts = {side: list(sides[f"train.{side}"]) for side in ("source", "target")}
        whole = [*texts["source"], *texts["target"]]
        spms = {
            side: learned(whole if joint else text, 150, bos_id=-1, eos_id=0, unk_id=1)
            for side, text in texts.items()
        }
        for side, spm in spms.items():
            (directory / f"{side}.spm").write_bytes(spm)
            processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
            for name in (f"train.{side}", f"test.{side}"):
                lines = list(sides[name])
                if listed:
                    lines = [" ".join(processor.encode(line, out_type=str)) for line in lines]
                (directory / name).write_text("\n".join(lines) + "\n")
        self._vocabularies = "source.spm target.spm"
        if listed:
            ids = marian_vocabulary(*spms.values())
            del ids["<pad>"]
            rows = "".join(f"{json.dumps(piece)}: {index}\n" for piece, index in ids.items())
            (directory / "vocab.yml").write_text(rows)
            self._vocabularies = "vocab.yml vocab.yml"

    def train(self, options: str) -> None:
        """Train the model; the directory has `model.npz` and `model.npz.decoder.yml` then."""
        self._run(f"train --model model.npz {TRAINED} {options}")

    def scores(self) -> list[float]:
        """Return the log-probability of each pair of the test set."""
        command = "score --model model.npz --train-sets test.source test.target"
        return list(map(float, self._run(command)))

    def greedy(self) -> list[str]:
        """Return the greedy translations of the test set."""
        found = self._run("decode --models model.npz --input test.source --beam-size 1")
        if self._listed:
            found = ["".join(line.split()).replace("\u2581", " ") for line in found]
        return [line.strip() for line in found]

    def _run(self, command: str) -> list[str]:
        settings = f"--quiet --cpu-threads 1 --workspace 300 --vocabs {self._vocabularies}"
        done = subprocess.run(
            [self._python, "-c", _PROGRAM, *command.split(), *settings.split()],
            cwd=self._directory, check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.splitlines()

"""One line from a cold start: `crosshead translate` with its engines, beside CTranslate2 alone.

    python benchmarks/cold_start.py BUNDLE --text "A dog runs."

The commands take turns. CPU time and memory are those of whole processes.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import ctranslate2, sentencepiece
bundle = sys.argv[1]
tokenizer = sentencepiece.SentencePieceProcessor(bundle + "/tokenizer.model")
model = ctranslate2.Translator(bundle + "/.engines/ctranslate2", inter_threads=1, intra_threads=1)
for line in sys.stdin:
    pieces = tokenizer.encode(line.strip(), out_type=str)
    print(tokenizer.decode(model.translate_batch([pieces], beam_size=4)[0].hypotheses[0]))
"""
"""A program of CTranslate2 alone, for a bundle with one SentencePiece tokenizer."""


def main() -> None:
    """Run the commands in turns, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--text", default="A dog runs.")
    parser.add_argument("--turns", type=int, default=10)
    given = parser.parse_args()
    translate = [sys.executable, "-m", "crosshead", "translate", str(given.bundle)]
    commands = {
        "crosshead with a stored model": translate,
        "crosshead with its own engine": [*translate, "--engine", "crosshead"],
        "CTranslate2 alone": [sys.executable, "-c", SCRIPT, str(given.bundle)],
    }
    # Python keeps compiled modules, as it does for every user.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    memory: dict[str, int] = {}
    answers: dict[str, str] = {}
    for turn in range(given.turns + 1):  # the first one stores the model, and fills caches
        for name, command in commands.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
            ) as process:
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(f"{given.text}\n")
                process.stdin.close()
                answers[name] = process.stdout.read()
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if process.returncode:
                raise SystemExit(f"{name} failed")
            if turn:
                spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                seconds[name].append(spent)
                memory[name] = used.ru_maxrss // 1024
    assert len(set(answers.values())) == 1, answers
    for name, each in seconds.items():
        print(
            f"{name}: {statistics.median(each):.2f} s of CPU ({min(each):.2f} to {max(each):.2f}), "
            f"{memory[name]} MB"
        )


if __name__ == "__main__":
    main()

"""Tags in sentences: whether all are there, nested, and around the right words.

    python benchmarks/tagged_text.py BUNDLE --source val.en --target val.de \\
        --train train.en train.de

One or two phrases of one to four words get a pair of tags in each sentence of `--source`. The
sentences are translated with and without tags. A word aligner (IBM model 1 with positions), learned
from the training files with the bundle's tokenizers, says which words of a translation belong to a
phrase. It is of the kind that guides attention in training, so it is no independent judge. Phrases
of which it finds no word in the translation are left out.

The last line has the share of sentences with all tags, the share that is well-formed, the BLEU of
the text without tags and that of the untagged sentences, the share of phrases whose F1 is at least
0.5 (its words by the judge beside the words in its tags), the mean F1, and the ratio of CPU times.
"""

import re
import time
from collections.abc import Iterator

import numpy as np
from judge import Judge

from crosshead.evaluation.sacrebleu_metrics import bleu

WORD = re.compile(r"\w+")
TAG = re.compile(r"</?[a-z]\d>")


def tagged(line: str, draw: np.random.Generator) -> str:
    """Put one or two pairs of tags around phrases of a sentence, side by side or nested."""
    words = [match.span() for match in WORD.finditer(line)]
    if len(words) < 4:
        return line
    spans: list[tuple[int, int]] = []
    first = int(draw.integers(len(words)))
    last = min(len(words), first + int(draw.integers(1, 5)))
    spans.append((first, last))
    if draw.random() < 0.3 and last - first > 1:
        spans.append((first, last - 1))
    elif draw.random() < 0.5 and last < len(words) - 1:
        begin = int(draw.integers(last, len(words)))
        spans.append((begin, min(len(words), begin + int(draw.integers(1, 4)))))
    inserted: list[tuple[int, int, str]] = []
    for number, (begin, end) in enumerate(spans):
        inserted.append((words[begin][0], number, f"<t{number}>"))
        inserted.append((words[end - 1][1], -number, f"</t{number}>"))
    for offset, _, tag in sorted(inserted, reverse=True):
        line = line[:offset] + tag + line[offset:]
    return line


def phrases(line: str) -> dict[str, tuple[int, int]]:
    """Return the offsets of each tagged phrase in the line without tags."""
    found: dict[str, tuple[int, int]] = {}
    taken = 0
    for match in TAG.finditer(line):
        name, at = match[0].strip("</>"), match.start() - taken
        found[name] = (at, -1) if match[0][1] != "/" else (found.get(name, (0, 0))[0], at)
        taken += len(match[0])
    return found


def well_formed(line: str) -> bool:
    """Return whether all tags are nested and closed."""
    stack: list[str] = []
    for match in TAG.finditer(line):
        if match[0][1] != "/":
            stack.append(match[0][1:-1])
        elif not stack or stack.pop() != match[0][2:-1]:
            return False
    return not stack


def judged(line: str, output: str, judge: Judge) -> Iterator[float]:
    """Yield the F1 of each phrase: its words by the judge beside the words in its tags."""
    target = TAG.sub("", output)
    links = judge.links(TAG.sub("", line), target)
    best = links.source[links.weights.argmax(1)] if len(links.source) else links.source
    given, placed = phrases(line), phrases(output)
    for name, (begin, end) in given.items():
        expected, found = set(), set()
        for row, ((first, last), (start, stop)) in enumerate(zip(links.target, best, strict=True)):
            if not WORD.search(target[first:last]) or not links.weights[row].any():
                continue
            if begin <= start and stop <= end:
                expected.add(row)
            if placed[name][0] <= first and last <= placed[name][1]:
                found.add(row)
        if expected:  # else the model has left the phrase out
            both = len(expected & found)
            yield 2 * both / (len(expected) + len(found))


def main() -> None:
    """Translate, judge and print."""
    judge = Judge(__doc__)
    lines = [tagged(line, judge.draw) for line in judge.source]
    used = []
    outputs = []
    for some in (judge.source, lines):
        begin = time.process_time()
        outputs.append(judge.translate(some))
        used.append(time.process_time() - begin)
    untagged, found = outputs
    pairs = list(zip(lines, found, strict=True))
    scores = [f1 for pair in pairs for f1 in judged(*pair, judge)]
    kept = [sorted(TAG.findall(a)) == sorted(TAG.findall(b)) for a, b in pairs]
    without = [TAG.sub("", line) for line in found]
    scored = [bleu(each, judge.target) for each in (without, untagged)]
    print(
        f"{len(lines)} sentences, {len(scores)} phrases: all tags {np.mean(kept):.1%}, well-formed "
        f"{np.mean(list(map(well_formed, found))):.1%}, BLEU {scored[0]:.2f} (untagged "
        f"{scored[1]:.2f}), around the right words {np.mean(np.array(scores) >= 0.5):.1%} (mean F1 "
        f"{np.mean(scores):.3f}), CPU time {used[1] / used[0]:.2f} times"
    )


if __name__ == "__main__":
    main()

"""`crosshead serve` and LibreTranslate with one model under load: see README.md.

    python benchmarks/serving.py runs/en-de --libretranslate VENV --folder FOLDER > serving.md

FOLDER keeps every measurement, and an interrupted run goes on where it ended.
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness import data_folder, machine, progress, spread, table
from libretranslate_server import Installation, LibreTranslate
from load import Server, percentile
from tsung import Found, Phase, check_tsung, closed_loop, open_loop, rate_of

from crosshead.evaluation.sacrebleu_metrics import corpus_scores
from crosshead.system.lines import read_lines
from crosshead.system.plotting import new_figure, rendered
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator

OWN, FAST, PEER = "crosshead", "crosshead, CTranslate2 int8", "LibreTranslate"

CHOICES: Mapping[str, Sequence[dict[str, Any]]] = {
    OWN: [{"workers": 1, "batch": 32}, {"workers": 2, "batch": 32}, {"workers": 2, "batch": 8}],
    FAST: [{"workers": 1, "batch": 32}, {"workers": 2, "batch": 32}, {"workers": 2, "batch": 4}],
    PEER: [
        {"server": "waitress", "workers": 1, "threads": 4, "inter": 1, "intra": 0},
        {"server": "waitress", "workers": 1, "threads": 4, "inter": 2, "intra": 1},
        {"server": "waitress", "workers": 1, "threads": 16, "inter": 2, "intra": 1},
        {"server": "gunicorn", "workers": 2, "threads": 2, "inter": 1, "intra": 1},
        {"server": "gunicorn", "workers": 2, "threads": 8, "inter": 1, "intra": 1},
    ],
}
"""The settings that the calibration tries. The first of LibreTranslate is its default; the
default of crosshead on two cores is two workers and a batch of 32."""

CLIENTS = (1, 4, 16)
"""The numbers of clients of the closed loops."""

SHARES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
"""Arrivals a second as shares of the sentences a second that LibreTranslate translates at most.
Beyond half, a side takes part as far as its own closed loops have come."""

_WARM = 40
"""Requests to a server before it is measured: every thread and process loads what it needs."""

Started = Callable[[str, Mapping[str, Any]], Server | LibreTranslate]
"""A function that starts the server of a side with settings."""

Values = dict[str, Any]
"""What was measured, as JSON."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument(
        "--libretranslate", type=Path, required=True, metavar="VENV",
        help="virtual environment with libretranslate and gunicorn",
    )  # fmt: skip
    parser.add_argument("--folder", type=Path, required=True, help="keeps all measurements")
    parser.add_argument("--pair", default="en-de", help="of the bundle (default: en-de)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=8, help="of each load (default: 8)")
    parser.add_argument("--compared", type=int, default=300, help="test sentences (default: 300)")
    given = parser.parse_args()
    check_tsung()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers end, too
    source, target = given.pair.split("-")
    raw = data_folder() / "multi30k" / "raw"
    texts = list(dict.fromkeys(filter(is_sentence, read_lines(raw / f"train.{source}"))))
    sides = [read_lines(raw / f"test_2016_flickr.{code}") for code in (source, target)]
    test = [pair for pair in zip(*sides, strict=True) if is_sentence(pair[0])][: given.compared]
    beam = load_as(Translator, [given.bundle], "cpu", 1).bundle.config.decode.beam
    installation = Installation(
        given.libretranslate.resolve(), given.folder.resolve() / "argos", (source, target), beam
    )
    install(given.bundle, installation)

    def started(side: str, settings: Mapping[str, Any]) -> Server | LibreTranslate:
        progress(f"starting {side}: {named(settings)}")
        if side == PEER:
            return LibreTranslate(installation, **settings)
        engine = ["--engine=ctranslate2", "--type=int8"] if side == FAST else []
        options = [f"--{name}={value}" for name, value in settings.items()]
        return Server(given.bundle, *options, *engine)

    bench = Bench(given.folder / "measurements.jsonl", started, texts, (source, target))
    with contextlib.closing(bench):
        bench.calibrate()
        outputs = {side: bench.outputs(side, [each for each, _ in test]) for side in CHOICES}
        for number in range(given.rounds):
            bench.measure(number, given.seconds)
    print(machine())
    own = version("ctranslate2")
    print(f"- LibreTranslate's: {installation.versions()}; crosshead's: ctranslate2 {own}")
    print(f"- beam {beam}\n")
    references = [reference for _, reference in test]
    print(report(bench.known, outputs, references, given.rounds))
    picture = given.folder / "serving.svg"
    picture.write_bytes(chart(bench.known, given.rounds))
    progress(f"the chart is {picture}")


def is_sentence(line: str) -> bool:
    """Return whether a line is surely one sentence, whose body needs no escapes.

    Both servers split it into one sentence. The mark at its end stays, because LibreTranslate
    changes the end of a translation of a text without one.
    """
    return re.fullmatch(r"[A-Z][A-Za-z ,'-]{10,}\.", line) is not None


def install(bundle: Path, installation: Installation) -> None:
    """Export a bundle for Argos Translate, and install it, unless it is there."""
    package = installation.folder / "model.argosmodel"
    if package.exists():
        return
    installation.folder.mkdir(parents=True, exist_ok=True)
    scratch = package.with_name("new.argosmodel")
    command = [
        sys.executable, "-m", "crosshead", "export", str(bundle), "--to", "argos", "--type", "int8",
        "--no-verify", "--force", "--out", str(scratch),
    ]  # fmt: skip
    subprocess.run(command, check=True, stdout=sys.stderr)
    installation.install(scratch)
    scratch.rename(package)


class Bench:
    """The measurements, which are kept in a file, and the servers that they need.

    Args:
        file: The file of measurements, one JSON object a line.
        started: Starts a server.
        texts: Different sentences.
        pair: The codes of the languages.
    """

    def __init__(
        self, file: Path, started: Started, texts: Sequence[str], pair: tuple[str, str]
    ) -> None:
        self.started, self.pair = started, pair
        self.bodies = [body_of(text, pair) for text in texts]
        self._servers: dict[str, Server | LibreTranslate] = {}
        self._random = random.Random(1)
        text = file.read_text("utf-8") if file.exists() else ""
        text = text[: text.rfind("\n") + 1]  # an interruption may have cut the last line
        lines = map(json.loads, text.splitlines())
        self.known: dict[str, Values] = {line["name"]: line["values"] for line in lines}
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file.open("w", encoding="utf-8")
        self._file.write(text)

    def close(self) -> None:
        """Stop the servers."""
        for server in self._servers.values():
            server.stop()
        self._file.close()

    def kept(self, name: str, measure: Callable[[], Values]) -> Values:
        """Return what was measured under a name; measure it if it is new."""
        if name not in self.known:
            self.known[name] = measure()
            line = json.dumps({"name": name, "values": self.known[name]})
            print(line, file=self._file, flush=True)
        return self.known[name]

    def server(self, side: str, clients: int) -> Server | LibreTranslate:
        """Return the server of a side that is best for clients; start it if it does not run."""
        settings = best_of(self.known, side)[question_of(clients)]
        name = f"{side} {named(settings)}"
        if name not in self._servers:
            self._servers[name] = self.warm(self.started(side, settings))
        return self._servers[name]

    def warm(self, server: Server | LibreTranslate) -> Server | LibreTranslate:
        """Translate some sentences, so that the server has loaded everything."""
        translations(server.address, self.some_bodies(_WARM), threads=16)
        return server

    def some_bodies(self, count: int | None = None) -> list[str]:
        """Return different bodies in random order."""
        return self._random.sample(self.bodies, count or len(self.bodies))

    def calibrate(self) -> None:
        """Try all settings of each side."""
        for side, choices in CHOICES.items():
            for settings in choices:
                found = self.tried(side, settings)
                shown = ", ".join(f"{each['rate']:.0f} with {n}" for n, each in found.items())
                progress(f"{side}, {named(settings)}: sentences a second: {shown} clients")

    def tried(self, side: str, settings: Mapping[str, Any]) -> Values:
        """Return the closed loops of 1 and 16 clients of a side with settings."""

        def measure() -> Values:
            with self.started(side, settings) as server:
                self.warm(server)
                return {
                    str(clients): self.loop(server, clients, each)
                    for clients, each in ((1, 80), (16, 40))
                }

        return self.kept(tried_name(side, settings), measure)

    def loop_of(self, side: str, clients: int, each: int) -> Values:
        """Return the measurements of a closed loop of a side with its best settings."""
        return self.loop(self.server(side, clients), clients, each)

    def loop(self, server: Server | LibreTranslate, clients: int, each: int) -> Values:
        """Return the measurements of a closed loop."""
        before = processor_seconds(server.process.pid)
        found = closed_loop(server.address, self.some_bodies(), clients, each)
        used = processor_seconds(server.process.pid) - before
        return {
            **summary(found, clients * each, found.missing),
            "rate": rate_of(found.answers),
            "used": used / clients / each,
            "generator": found.own_seconds / clients / each,
        }

    def outputs(self, side: str, sources: Sequence[str]) -> list[str]:
        """Return the translations of a side."""
        bodies = [body_of(text, self.pair) for text in sources]

        def measure() -> Values:
            return {"texts": translations(self.server(side, 4).address, bodies, threads=4)}

        found: list[str] = self.kept(f"outputs {side} {len(sources)}", measure)["texts"]
        return found

    def measure(self, number: int, seconds: int) -> None:
        """Measure a round: all sides in turns, the other way round every other round."""
        order = list(CHOICES)[:: 1 if number % 2 == 0 else -1]
        for clients, side in itertools.product(CLIENTS, order):
            question = question_of(clients)
            rate = self.tried(side, best_of(self.known, side)[question])[str(question)]["rate"]
            each = max(10, math.ceil(rate * seconds / clients))
            found = self.kept(
                closed_name(self.known, number, side, clients),
                partial(self.loop_of, side, clients, each),
            )
            progress(f"round {number + 1}: {side}, {clients} clients: {found['rate']:.1f} a second")
        for side in order:
            phases = self.phases(side, seconds)
            found = self.kept(open_name(number, side), partial(self.opened, side, phases))
            for name, each in found.items():
                shown = spread([milliseconds([each], share)[0] for share in (0, 0.5, 0.99)])
                progress(f"round {number + 1}: {side}, {name}: {shown} ms (least–p99)")

    def phases(self, side: str, seconds: int) -> list[Phase]:
        """Return the arrival rates of a side."""
        capacity = most(self.known, PEER)
        largest = 1.0 if side == PEER else max(0.5, most(self.known, side) / capacity)
        shares = [share for share in SHARES if share <= largest]
        return [Phase(f"{share:g}", share * capacity, seconds) for share in shares]

    def opened(self, side: str, phases: Sequence[Phase]) -> Values:
        """Return the measurements of an open loop, by its phases."""
        found = open_loop(self.server(side, 16).address, self.some_bodies(), phases)
        by_phase = {}
        for phase in phases:
            answers = [each for each in found.answers if each.name == phase.name]
            # What is without an answer at the end came last.
            missing = found.missing if phase is phases[-1] else 0
            begins = [each.begin for each in answers]
            by_phase[phase.name] = {
                **summary(Found(answers, missing, 0.0), len(answers) + missing, missing),
                "asked": phase.rate,
                "rate": (len(begins) - 1) / (max(begins) - min(begins)) if begins[1:] else 0.0,
            }
        return by_phase


def tried_name(side: str, settings: Mapping[str, Any]) -> str:
    """Return the name of the measurement of settings."""
    return f"tried {side} {named(settings)}"


def question_of(clients: int) -> int:
    """Return the number of clients, 1 or 16, by which the settings for clients are chosen."""
    return 1 if clients == 1 else 16


def best_of(known: Mapping[str, Values], side: str) -> dict[int, Mapping[str, Any]]:
    """Return the best settings of a side for 1 client, by the median, and for 16, by the rate.

    Args:
        known: The measurements by their names, those of the calibration among them.
        side: The side.
    """
    tried = [(settings, known[tried_name(side, settings)]) for settings in CHOICES[side]]
    return {
        1: min(tried, key=lambda each: milliseconds([each[1]["1"]], 0.5)[0])[0],
        16: max(tried, key=lambda each: float(each[1]["16"]["rate"]))[0],
    }


def closed_name(known: Mapping[str, Values], number: int, side: str, clients: int) -> str:
    """Return the name of the measurement of a closed loop.

    It has the settings if they are not those for 16 clients.
    """
    best = best_of(known, side)
    settings = best[question_of(clients)]
    shown = "" if settings == best[16] else f" with {named(settings)}"
    return f"closed {number} {side} {clients}{shown}"


def open_name(number: int, side: str) -> str:
    """Return the name of the measurement of an open loop."""
    return f"open {number} {side}"


def named(settings: Mapping[str, Any]) -> str:
    """Return settings as words."""
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def body_of(text: str, pair: tuple[str, str]) -> str:
    """Return the body of a request."""
    return json.dumps({"q": text, "source": pair[0], "target": pair[1]})


def summary(found: Found, sent: int, missing: int) -> Values:
    """Return the times of answers with status 200 in seconds, and the numbers of the others."""
    times = [round(each.seconds, 5) for each in found.answers if each.status == 200]
    refused = len(found.answers) - len(times)
    return {"times": times, "sent": sent, "refused": refused, "missing": missing}


def translations(address: str, bodies: Sequence[str], threads: int) -> list[str]:
    """Return the translations of requests, asked some at a time."""

    def ask(body: str) -> str:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{address}/translate", body.encode(), headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            text: str = json.load(answer)["translatedText"]
            return text

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(ask, bodies))


def processor_seconds(process: int) -> float:
    """Return the seconds of a core that a process and its children have taken (Linux only)."""
    ticks = 0
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = place.read_text().rpartition(")")[2].split()
            if process in (int(place.parent.name), int(fields[1])):
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def report(
    known: Mapping[str, Values],
    outputs: Mapping[str, list[str]],
    references: list[str],
    rounds: int,
) -> str:
    """Return the results in Markdown.

    Args:
        known: The measurements by their names.
        outputs: The translations of the test sentences by each side.
        references: Their references.
        rounds: The number of rounds.
    """
    parts = [
        settings_table(known),
        quality_table(outputs, references),
        closed_table(known, rounds),
        open_table(known, rounds),
        comparison(known, rounds),
    ]
    return "\n".join(parts)


def settings_table(known: Mapping[str, Values]) -> str:
    """Return the findings of the calibration as a table."""
    rows = []
    for side, choices in CHOICES.items():
        best = best_of(known, side)
        for settings in choices:
            found = known[tried_name(side, settings)]
            [median] = milliseconds([found["1"]], 0.5)
            mark = ", ".join(str(clients) for clients, each in best.items() if each == settings)
            rows.append(
                [side, named(settings), f"{median:.1f}", f"{found['16']['rate']:.0f}", mark]
            )
    header = ["side", "settings", "1 client: median ms", "16 clients: sentences/s", "best for"]
    return table(header, rows)


def quality_table(outputs: Mapping[str, list[str]], references: list[str]) -> str:
    """Return the scores of the sides, and how their translations agree, as a table."""
    rows = []
    for side, texts in outputs.items():
        bleu, chrf = corpus_scores(texts, references)
        same = sum(map(str.__eq__, texts, outputs[PEER])) / len(texts)
        rows.append([side, f"{same:.1%}", f"{bleu.value:.2f}", f"{chrf.value:.2f}"])
    header = [f"{len(references)} test sentences", "identical to LibreTranslate", "BLEU", "chrF2"]
    return table(header, rows)


def closed_table(known: Mapping[str, Values], rounds: int) -> str:
    """Return the closed loops as a table, with ratios round by round."""
    rows = []
    for side, clients in itertools.product(CHOICES, CLIENTS):
        found = closed_rounds(known, side, clients, rounds)
        peers = closed_rounds(known, PEER, clients, rounds)
        rows.append([
            side, str(clients), spread([each["rate"] for each in found], 1),
            spread([own["rate"] / peer["rate"] for own, peer in zip(found, peers, strict=True)], 2),
            *(spread(milliseconds(found, share), 1) for share in (0.5, 0.99)),
            spread([1000 * each["used"] for each in found], 1),
            str(sum(each["refused"] + each["missing"] for each in found)),
        ])  # fmt: skip
    header = [
        "side", "clients", "sentences/s", "times LibreTranslate", "median ms", "p99 ms",
        "ms of a core for a sentence", "not 200",
    ]  # fmt: skip
    return table(header, rows)


def open_table(known: Mapping[str, Values], rounds: int) -> str:
    """Return the open loops as a table."""
    rows = []
    for side in CHOICES:
        for share in known[open_name(0, side)]:
            found = open_rounds(known, side, share, rounds)
            counts = [sum(each[kind] for each in found) for kind in ("sent", "refused", "missing")]
            rows.append([
                side, share, spread([each["rate"] for each in found], 1),
                *(spread(milliseconds(found, part), 1) for part in (0.5, 0.95, 0.99)),
                *map(str, counts),
            ])  # fmt: skip
    header = [
        "side", "share of LibreTranslate's capacity", "arrivals/s", "p50 ms", "p95 ms", "p99 ms",
        "requests", "refused", "without an answer",
    ]  # fmt: skip
    return table(header, rows)


def comparison(known: Mapping[str, Values], rounds: int) -> str:
    """Return the figures that matter as a list, with ratios round by round."""

    def over(own: Sequence[float], peer: Sequence[float]) -> str:
        return spread([one / other for one, other in zip(own, peer, strict=True)], 2)

    lines = []
    for side in (FAST, OWN):
        rates = [
            [each["rate"] for each in closed_rounds(known, one, 16, rounds)] for one in (side, PEER)
        ]
        medians = [milliseconds(closed_rounds(known, one, 1, rounds), 0.5) for one in (side, PEER)]
        half = [
            milliseconds(open_rounds(known, one, "0.5", rounds), share)
            for one, share in ((side, 0.99), (PEER, 0.5))
        ]
        lines += [
            f"- {side}, 16 clients: {over(*rates)} times the sentences a second of LibreTranslate",
            f"- {side}, arrivals at half of LibreTranslate's capacity: the p99 is {over(*half)} "
            "times the p50 of LibreTranslate",
            f"- {side}, one client: the median is {over(*medians)} times that of LibreTranslate",
        ]
    loops = [each for side in CHOICES for each in closed_rounds(known, side, 16, rounds)]
    generator = spread([1000 * each["generator"] for each in loops], 2)
    lines.append(f"- the load generator took {generator} ms of a core for a request")
    lines.append(f"- the capacity of LibreTranslate: {most(known, PEER):.1f} sentences a second")
    return "\n".join(lines) + "\n"


def most(known: Mapping[str, Values], side: str) -> float:
    """Return the largest rate of a side in the closed loops of the first round."""
    names = [closed_name(known, 0, side, clients) for clients in CLIENTS]
    return max(float(known[name]["rate"]) for name in names)


def closed_rounds(
    known: Mapping[str, Values], side: str, clients: int, rounds: int
) -> list[Values]:
    """Return the measurements of a closed loop, by round."""
    return [known[closed_name(known, number, side, clients)] for number in range(rounds)]


def open_rounds(known: Mapping[str, Values], side: str, share: str, rounds: int) -> list[Values]:
    """Return the measurements of a phase of an open loop, by round."""
    return [known[open_name(number, side)][share] for number in range(rounds)]


def milliseconds(found: Sequence[Values], share: float) -> list[float]:
    """Return a percentile of each measurement in ms.

    A request that was refused, or has no answer, has taken for ever.
    """
    lists = [each["times"] + [math.inf] * (each["refused"] + each["missing"]) for each in found]
    return [1000 * percentile(each, share) for each in lists]


def chart(known: Mapping[str, Values], rounds: int) -> bytes:
    """Return a chart of latency by arrivals a second as SVG: the median of the rounds."""
    from matplotlib.ticker import LogLocator

    figure = new_figure(figsize=(7, 4.2))
    axes = figure.subplots()
    for side, colour in zip(CHOICES, ("#0072b2", "#009e73", "#d55e00"), strict=True):
        for share, style in ((0.5, "-"), (0.99, "--")):
            points = []
            for name in known[open_name(0, side)]:
                found = open_rounds(known, side, name, rounds)
                rate = statistics.median(each["rate"] for each in found)
                points.append((rate, statistics.median(milliseconds(found, share))))
            label = f"{side}, {'median' if share == 0.5 else 'p99'}"
            axes.plot(
                *zip(*points, strict=True), style, color=colour, marker="o", ms=3, label=label
            )
    axes.axvline(most(known, PEER), color="#888888", lw=0.8, label=f"capacity of {PEER}")
    axes.set(yscale="log", xlabel="arrivals a second", ylabel="latency, ms")
    axes.set_xlim(left=0)
    axes.grid(True, lw=0.3)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    figure.legend(loc="outside lower center", ncols=3, fontsize=7, handlelength=3.5)
    return rendered(figure, "svg")


if __name__ == "__main__":
    main()

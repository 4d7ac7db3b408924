"""The share of simulated data curves whose gain lies in the stated interval: see README.md."""

import argparse
from collections.abc import Callable

import numpy as np
from harness import table

from crosshead.addons.experiments.data_curve import ScoreOfPairs, fit_power_law, gain

PAIRS = 29_000
"""The number of pairs of the whole run."""

CURVES: dict[str, Callable[[float], float]] = {
    "power law, exponent 0.1": lambda n: 120 - 230 * n**-0.1,
    "power law, exponent 0.3": lambda n: 50 - 400 * n**-0.3,
    "power law, exponent 0.6": lambda n: 40 - 3000 * n**-0.6,
    "logarithm": lambda n: -30 + 6 * float(np.log(n)),
    "flat": lambda n: 30.0,
    "S-shaped": lambda n: 45 / (1 + (8000 / n) ** 1.2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100, help="Draws of each curve.")
    parser.add_argument("--half", type=float, default=1.2, help="Half of a score's 95 %% interval.")
    parser.add_argument("--runs", type=int, default=3, help="All pairs, a half, a quarter, ...")
    options = parser.parse_args()
    sizes = [PAIRS / 2**halvings for halvings in reversed(range(options.runs))]
    rows = []
    for name, curve in CURVES.items():
        truth, rng = curve(2 * PAIRS) - curve(PAIRS), np.random.default_rng(0)
        found = []
        for _ in range(options.draws):
            noise = rng.standard_normal(len(sizes)) * options.half / 1.96
            values = [curve(n) + float(each) for n, each in zip(sizes, noise, strict=True)]
            points = [
                ScoreOfPairs(int(n), y, y - options.half, y + options.half)
                for n, y in zip(sizes, values, strict=True)
            ]
            found.append(gain(fit_power_law(points), points[-1]))
        held = np.mean([each.low <= truth <= each.high for each in found])
        told = np.mean([each.is_certain for each in found])
        error = np.mean([each.value - truth for each in found])
        rows.append(
            [name, f"{truth:.2f}", f"{100 * held:.0f}", f"{100 * told:.0f}", f"{error:+.2f}"]
        )
    header = ["curve", "true gain", "gain in the interval, %", "gain shown, %", "mean error"]
    print(table(header, rows))


if __name__ == "__main__":
    main()

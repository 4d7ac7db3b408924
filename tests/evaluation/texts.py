"""Forty references, and translations of two systems: a better and a worse one."""

REFERENCES = [f"The dog number {n} runs over the green grass, quickly." for n in range(40)]
GOOD = [line.replace("quickly", "fast") if n % 4 else line for n, line in enumerate(REFERENCES)]
BAD = [line.replace("dog", "cat").replace("green", "wet") for line in REFERENCES]

"""Build the wheel and the source distribution, and try the wheel with each extra.

    python tools/release.py [EXTRA ...]    by default each of a user's extras, one after the other

The files are in dist/ at the end. Each extra is installed from the wheel, with the versions of
constraints.txt, into an environment of its own outside the repository. There the examples of
README.md run, which also need the extra `quickstart`.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator, Sequence
from os import environ, pathsep
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOR_DEVELOPERS = ("dev", "docs")


def build(out: Path) -> Path:
    """Build both files into a folder; return the wheel."""
    for old in out.glob("crosshead-*"):
        old.unlink()
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", out], cwd=ROOT, check=True)
    [wheel] = out.glob("*.whl")
    return wheel


def commands(python: Path) -> Iterator[list[str]]:
    """Yield the commands that run the examples of README.md."""
    for language, code in EXAMPLE.findall((ROOT / "README.md").read_text("utf-8")):
        if language == "sh":
            yield ["bash", "-e", "-o", "pipefail", "-c", code]
        else:
            yield [str(python), "-c", code]


def attempt(wheel: Path, extra: str) -> str:
    """Install the wheel with an extra and run the examples; return what failed, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder, "venv"), with_pip=True)
        python = Path(folder, "venv", "bin", "python")
        wanted = f"{wheel}[{','.join(dict.fromkeys((extra, 'quickstart')))}]"
        install = [str(python), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt")]
        path = f"{python.parent}{pathsep}{environ['PATH']}"
        for command in [[*install, wanted], *commands(python)]:
            done = subprocess.run(
                command, cwd=folder, env={**environ, "PATH": path}, text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            if done.returncode:
                return done.stdout
    return ""


def main(extras: Sequence[str]) -> int:
    """Build, try the extras and print a line for each; return the exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    users = [name for name in project["optional-dependencies"] if name not in FOR_DEVELOPERS]
    wheel = build(ROOT / "dist")
    failed = 0
    for extra in extras or users:
        output = attempt(wheel, extra)
        failed += bool(output)
        print(f"{output}{wheel.name}[{extra}]: {'FAILED' if output else 'works'}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

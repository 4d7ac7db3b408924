"""The wheel holds what it should and works where the repository is not."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import crosshead

ROOT = Path(__file__).parent.parent


def output_of(*command: str | Path, cwd: Path) -> str:
    """What a command prints; fails with all of its output where it exits with anything but 0."""
    elsewhere = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)),
        env=elsewhere, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def pip(*arguments: str | Path, cwd: Path) -> str:
    return output_of(
        sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, cwd=cwd
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", ROOT, "--no-deps", "--no-build-isolation", "-q", "-w", folder, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a new virtual environment with the wheel in it.

    The packages that crosshead needs are seen where this environment has them, by a path file; an
    editable install of crosshead there is not, since Python does not follow such files further.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip("--python", python, "install", "--no-deps", "--no-index", "-q", wheel, cwd=folder)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(output_of(python, "-c", where, cwd=folder).strip())
    (packages / "outer.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "crosshead").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "crosshead/py.typed" in package
    assert any(name.startswith("crosshead/recipe/shipped/") for name in package)
    info = f"crosshead-{crosshead.__version__}.dist-info"
    extra = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert names == package | {f"{info}/{name}" for name in extra}


def test_the_wheel_works_outside_the_repository(environment: Path, tmp_path: Path) -> None:
    where = "import crosshead; print(crosshead.__file__)"
    installed = Path(output_of(environment / "python", "-c", where, cwd=tmp_path).strip())
    assert installed.is_relative_to(environment.parent)
    version = output_of(environment / "crosshead", "--version", cwd=tmp_path)
    assert crosshead.__version__ in version
    assert "Usage" in output_of(environment / "python", "-m", "crosshead", "--help", cwd=tmp_path)


@pytest.mark.slow
def test_every_module_of_the_wheel_can_be_imported(environment: Path, tmp_path: Path) -> None:
    """No package of an extra is imported at the top of a module, but for those of the server."""
    code = """
import pkgutil, sys
for name in "babel beartype ctranslate2 hypothesis matplotlib tensorboard transformers".split():
    sys.modules[name] = None
import crosshead
names = [module.name for module in pkgutil.walk_packages(crosshead.__path__, "crosshead.")]
for name in names:
    if not name.endswith("__main__") and not name.startswith("crosshead.addons.serving."):
        __import__(name)
print(len(names))
"""
    assert int(output_of(environment / "python", "-c", code, cwd=tmp_path)) > 10


@pytest.mark.parametrize(
    "code",
    [
        "import crosshead",
        "import crosshead.cli",
        "import crosshead.cli, contextlib, sys\nsys.argv = ['crosshead', '--help']\n"
        "with contextlib.suppress(SystemExit): crosshead.cli.main()",
    ],
    ids=["package", "cli", "help"],
)
def test_torch_is_not_imported_before_a_model_is(code: str) -> None:
    slow = "torch transformers sentencepiece sacrebleu matplotlib"
    report = f"import sys; print('imported:', *sorted(set(sys.modules) & set('{slow}'.split())))"
    out = output_of(sys.executable, "-c", f"{code}\n{report}", cwd=ROOT)
    assert out.splitlines()[-1].split() == ["imported:"]


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'crosshead' has no attribute 'lode'"):
        crosshead.lode  # noqa: B018

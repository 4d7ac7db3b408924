from pathlib import Path
from typing import Protocol, Self

import check_architecture
import count_code
import lowest_versions
import pytest
import shape_checker
import torch
from jaxtyping import Float, TypeCheckError, jaxtyped
from shape_checker import check
from torch import Tensor

from crosshead.attention.attend import attend


@pytest.fixture
def root(tmp_path: Path) -> Path:
    modules = {
        "__init__.py": "The package.",
        "config.py": "The base of every\nconfiguration. It is frozen.",
        "attention/__init__.py": "Scores and masks.",
        "attention/attend.py": "Weights from scores\n\nMore.",
    }
    for name, docstring in modules.items():
        path = tmp_path / "crosshead" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""{docstring}"""\nx = 1\n')
    (tmp_path / "ARCHITECTURE.md").write_text("# A\n\n```text\ncrosshead/\n```\n\nMore.\n")
    (tmp_path / "CONTRIBUTING.md").write_text("| 9 | the beginning |\n| 4 | less |\n")
    return tmp_path


def test_the_tree_of_the_architecture_is_that_of_the_modules(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_architecture.main(root, write=False) == 1
    assert check_architecture.main(root, write=True) == 0
    assert check_architecture.main(root, write=False) == 0
    assert (root / "ARCHITECTURE.md").read_text() == (
        "# A\n\n```text\ncrosshead/\n"
        "  config.py               The base of every configuration\n"
        "  attention/              Scores and masks\n"
        "    attend.py             Weights from scores\n```\n\nMore.\n"
    )
    (root / "crosshead" / "attention" / "masks.py").write_text('"""Masks."""\n')
    assert check_architecture.main(root, write=False) == 1
    assert "--write" in capsys.readouterr().out


def test_code_is_counted_and_bounded(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '"""A."""\n\n# why\nx = """a\n\nb"""  # c\n\ndef f():\n    """Do it."""\n    return x\n'
    assert count_code.code_lines(text) == 4
    assert count_code.main(root, check=True) == 0
    assert count_code.main(root, check=False) == 0
    assert "      2  attention/\n" in (shown := capsys.readouterr().out)
    assert shown.endswith("      4  of 4 allowed\n")
    (root / "crosshead" / "config.py").write_text("x = 1\ny = 2\n")
    assert count_code.main(root, check=True) == 1


class Scale(Protocol):
    def factor(self) -> float: ...


class Double:
    def factor(self) -> float:
        return 2.0


def scaled(x: Float[Tensor, "B D"], by: Scale | None = None) -> Float[Tensor, "B 1"]:
    return x[:, :1] * (by.factor() if by else 1.0)


def flat(x: Float[Tensor, "B D"]) -> Float[Tensor, "B 1"]:
    return x[:, 0]


def keep(self: object) -> Self:
    return self


def test_shapes_are_checked() -> None:
    good = jaxtyped(scaled, typechecker=check)
    assert good(torch.ones(2, 3), Double()).tolist() == [[2.0], [2.0]]
    with pytest.raises(TypeCheckError, match="x"):
        good(torch.ones(3))
    with pytest.raises(TypeCheckError, match="by"):
        good(torch.ones(2, 3), 2.0)
    with pytest.raises(TypeCheckError, match="return"):
        jaxtyped(flat, typechecker=check)(torch.ones(2, 3))


def test_each_test_checks_its_first_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    good = jaxtyped(scaled, typechecker=check)
    monkeypatch.setattr(shape_checker, "CHECKS", 4)
    for _ in range(2):
        shape_checker.begin_test()
        good(torch.ones(2, 3), Double())
        with pytest.raises(TypeCheckError, match="x"):
            good(torch.ones(3))
        good(torch.ones(2, 3))
        assert good(torch.ones(2, 3, 1)).shape == (2, 1, 1)  # is not refused


def test_self_is_left_unchecked_outside_its_class() -> None:
    assert jaxtyped(keep, typechecker=check)(3) == 3


def test_the_functions_of_the_package_are_checked() -> None:
    with pytest.raises(TypeCheckError):
        attend(torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 3))


def test_the_lowest_versions_are_those_of_the_package_and_not_of_its_tools() -> None:
    text = """
[project]
name = "crosshead"
dependencies = ["torch>=2.9", "sacrebleu>=2.4,<3"]
[project.optional-dependencies]
plot = ["matplotlib>=3.9"]
pictures = ["crosshead[plot]"]
quickstart = ["babel>=2.16", "matplotlib>=3.9"]
dev = ["mypy"]
"""
    expected = ["babel==2.16", "matplotlib==3.9", "sacrebleu==2.4", "torch==2.9"]
    assert lowest_versions.lowest_versions(text) == expected
    with pytest.raises(ValueError, match="expected name>=version, found 'torch'"):
        lowest_versions.lowest_versions(text.replace("torch>=2.9", "torch"))
    with pytest.raises(ValueError, match=r"matplotlib has two lowest versions: 3.8 and 3.9"):
        lowest_versions.lowest_versions(text.replace("3.9", "3.8", 1))


def test_every_requirement_of_the_package_has_a_lowest_version() -> None:
    pyproject = Path(__file__).parent.parent / "pyproject.toml"
    lowest = lowest_versions.lowest_versions(pyproject.read_text(encoding="utf-8"))
    names = {line.split("==")[0] for line in lowest}
    assert {"torch", "matplotlib", "uvicorn", "ctranslate2", "argostranslate"} <= names

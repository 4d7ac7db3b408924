from pathlib import Path
from typing import Protocol, Self

import check_architecture
import lowest_versions
import pytest
import shape_checker
import torch
from jaxtyping import Float, TypeCheckError, jaxtyped
from shape_checker import check
from torch import Tensor

from crosshead.attention.attend import attend

TREE = """# Architecture

```text
crosshead/
  config.py        the base of every configuration
  attention/       scores and masks
    attend.py      weights from scores
  layers/          all of them
```
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("__init__.py", "config.py", "attention/attend.py", "layers/addnorm.py"):
        path = tmp_path / "crosshead" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "ARCHITECTURE.md").write_text(TREE)
    return tmp_path


def test_a_true_tree_passes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_architecture.main(root) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("config.py ", "settings.py ", "crosshead/settings.py is in the tree and not on disk"),
        ("layers/ ", "layer/ ", "crosshead/layer/ is in the tree and not on disk"),
        ("  config.py        the base of every configuration\n", "", "crosshead/config.py is on"),
        ("weights from scores", "", "crosshead/attention/attend.py has no sentence"),
        ("    attend.py", "   attend.py", "indented by other than 2 spaces"),
        ("```text", "```", "no ```text block"),
    ],
)
def test_a_false_tree_is_told(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    complaint: str,
) -> None:
    assert old in TREE
    (root / "ARCHITECTURE.md").write_text(TREE.replace(old, new))
    assert check_architecture.main(root) > 0
    assert complaint in capsys.readouterr().out


def test_a_new_module_must_be_listed_where_its_neighbours_are(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("attention/masks.py", "layers/encoder.py"):
        (root / "crosshead" / name).touch()
    assert check_architecture.main(root) == 1
    assert "crosshead/attention/masks.py is on disk" in capsys.readouterr().out


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

import pytest

from crosshead.cli import run
from crosshead.config import ConfigError
from crosshead.recipe.reference import commented_recipe


def test_the_command_explains_and_prints(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["recipe", "--explain", "lr"]) == 2
    assert "did you mean 'learning_rate'" in capfd.readouterr().err
    for key, hint in (
        ("label", "did you mean 'label_smoothing'?"),
        ("train.label", "did you mean 'label_smoothing'?"),
        ("train.heads", "did you mean 'model.heads'?"),
        ("adamw", "crosshead always uses Adam; train.weight_decay makes it AdamW"),
        ("modle.zzz", "`crosshead recipe --explain` lists the keys"),
    ):
        assert run(["recipe", "--explain", key]) == 2
        assert capfd.readouterr().err == f"crosshead: error: unknown key {key!r}; {hint}\n"
    assert run(["recipe"]) == 2
    assert "--explain" in capfd.readouterr().err
    assert run(["recipe", "--preset", "small", "--explain"]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert run(["recipe", "--preset", "tiny", "--model", "language"]) == 0
    assert 'architecture = "language"' in capfd.readouterr().out
    assert run(["recipe", "heads"]) == 0
    assert capfd.readouterr().out.startswith("model.heads = 8\n")
    assert run(["recipe", "--preset", "auto"]) == 2
    assert "auto chooses its values from the data" in capfd.readouterr().err
    with pytest.raises(ConfigError, match="unknown preset 'base' of language"):
        commented_recipe("base", "language")

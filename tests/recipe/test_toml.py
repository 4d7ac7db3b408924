import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosshead.errors import ConfigError, printable
from crosshead.recipe.compose import compose
from crosshead.recipe.presets import PRESETS
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.toml import read_toml, to_toml

ALLOWED = "\t\n\r\u2028\u2029"  # of all characters that no report prints
text = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], include_characters=ALLOWED), max_size=12
).filter(lambda found: printable(found, keep=ALLOWED) == found)
awkward = text | st.sampled_from(["\\", '"', "'''", '"""', "a\\n", "\t\r\n", "\u2028", "#"])


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    names = draw(st.lists(awkward.filter(lambda name: "\0" not in name), max_size=3))
    train: dict[str, Any] = {
        "device": draw(awkward),
        "adam_eps": draw(st.floats(1e-30, 1)),
        "clip_norm": draw(st.floats(0, 1e9)),
        "seed": draw(st.integers(0, 2**63 - 1)),
        "metric": draw(st.sampled_from(["bleu", "loss"])),
    }
    schedule = draw(st.sampled_from(["paper", "inverse-sqrt"]))
    train["schedule"] = schedule
    if schedule == "inverse-sqrt":
        train["learning_rate"] = draw(st.floats(min_value=1e-300, max_value=1000))
    budgets = {
        "max_updates": st.integers(1, 10**9),
        "max_epochs": st.integers(1, 10**9),
        "max_minutes": st.floats(1e-300, 1e8),
    }
    for name in draw(st.sets(st.sampled_from(sorted(budgets)))):
        train[name] = draw(budgets[name])
    model = {
        "d_key": draw(st.integers(1, 99)),
        "output_bias": draw(st.booleans()),
        "dropout": draw(st.floats(1 / 256, 255 / 256)),
    }
    data = {"source": names, "target": names, "drop_duplicates": draw(st.booleans())}
    layers = {"data": data, "model": model, "train": train}
    composed: Recipe = compose(draw(st.sampled_from(sorted(PRESETS["transformer"]))), layers)
    return composed.opened(())


@settings(max_examples=60)
@given(recipe=recipes())
def test_a_recipe_written_as_toml_is_read_back_equal(recipe: Recipe) -> None:
    written = to_toml(recipe).encode()
    assert compose(recipe=tomllib.loads(written.decode())) == recipe


def test_toml_is_read(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text('[model]\nheads = 4 # "ä"\n', encoding="utf-8")
    assert read_toml(path) == {"model": {"heads": 4}}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"[model]\nheads = \n", r".* line 2"),
        (b"a = 1\na = 2\n", ".*"),
        (b'source = "a\nb = 1\n', ".* line 1"),
        (b"a = 1\nb = train.en\n", ".* line 2"),
        (b'a = "C:\\Users"\n', ".*"),
        (b"Two young men.\n", ".*"),
        (b'{"en": "Two young men."}\n', ".*"),
    ],
)
def test_what_is_not_toml_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    advice = (
        r"expected lines such as \[train\] and device = 'cpu', with quotation marks around text "
        r"\(single ones if it contains \\\); if it is a file of data, give it with "
        "--source or --pairs"
    )
    with pytest.raises(ConfigError, match=rf"not valid TOML: {fault}.*; {advice}$") as caught:
        read_toml(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_recipe_that_is_not_utf8_is_refused_with_the_place_and_a_command(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes("[data]\nsource = 'Übung.de'\n".encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        read_toml(path)
    assert str(caught.value).startswith(f"{path}:2:11: not UTF-8 (byte 0xDC); ")
    assert "iconv -f ENCODING -t UTF-8 IN > OUT" in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml: no such file"):
        read_toml(tmp_path / "absent.toml")
    with pytest.raises(ConfigError, match="a directory, expected a file"):
        read_toml(tmp_path)


def test_what_cannot_be_a_recipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "sparse.toml").touch()
    os.truncate(tmp_path / "sparse.toml", 200 * 10**9)
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    (tmp_path / "long.toml").write_text("a = " + "9" * 5000)
    for name, words in (
        ("pipe", "a pipe or a device, expected"), ("sparse", "has more than"),
        ("deep", "not valid TOML"), ("long", "not valid TOML"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=rf"{name}\.toml: {words}"):
            read_toml(tmp_path / f"{name}.toml")

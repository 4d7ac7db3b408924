"""Synthetic scenes: captions that follow from them, regions, and combinations held out."""

import itertools
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from crosshead.addons.vision.data.scenes import (
    COLOURS,
    SHAPES,
    UNSEEN,
    Region,
    patches_of,
    read_regions,
    scenes,
    write_scenes,
)
from crosshead.errors import DataError
from tests.text.written import refusal, write

SOME = list(scenes(60, 36, seed=1))


def kinds(caption: str) -> list[tuple[str, str]]:
    words = caption.split()
    return [
        (colour, shape)
        for colour, shape in itertools.pairwise(words)
        if colour in COLOURS and shape in SHAPES
    ]


def middle(region: Region) -> tuple[float, float]:
    left, top, right, bottom = region.box
    return (left + right) / 2, (top + bottom) / 2


def test_each_region_holds_its_object_and_its_word_is_the_noun() -> None:
    for scene in SOME:
        words, found = scene.caption.split(), kinds(scene.caption)
        assert [words[region.word] for region in scene.regions] == [shape for _, shape in found]
        inside = np.zeros((36, 36), bool)
        for region, (colour, _) in zip(scene.regions, found, strict=True):
            left, top, right, bottom = region.box
            part = scene.pixels[top:bottom, left:right].reshape(-1, 3).astype(float)
            object_pixels = part[part.min(axis=1) < 200]
            apart = {
                name: abs(object_pixels.mean(axis=0) - value).sum()
                for name, value in COLOURS.items()
            }
            assert min(apart, key=lambda name: apart[name]) == colour
            inside[top:bottom, left:right] = True
        assert scene.pixels[~inside].min() > 200  # nothing is drawn elsewhere


def test_the_caption_says_where_the_objects_stand() -> None:
    relations = set()
    for scene in SOME:
        words, (first, *others) = scene.caption.split(), scene.regions
        for before, region in zip([first, others[0]], others, strict=False):
            [word] = set(words[before.word : region.word]) & {"left", "right", "above", "below"}
            (x, y), (other_x, other_y) = middle(first), middle(region)
            across, down = other_x - x, other_y - y
            side = {
                "left": across > abs(down), "right": -across > abs(down),
                "above": down > abs(across), "below": -down > abs(across),
            }  # fmt: skip
            assert side[word], scene.caption
            relations.add(word)
    assert len(relations) == 4


def test_combinations_held_out_are_in_every_unseen_scene_and_in_no_other() -> None:
    assert not any(kind in UNSEEN for scene in SOME for kind in kinds(scene.caption))
    unseen = [kinds(scene.caption) for scene in scenes(40, 36, seed=1, unseen=True)]
    assert all(any(kind in UNSEEN for kind in found) for found in unseen)
    seen = {kind for scene in scenes(400, 24, seed=1) for kind in kinds(scene.caption)}
    assert len(seen) == len(COLOURS) * len(SHAPES) - len(UNSEEN)
    assert all(any(colour == kind[0] for kind in seen) for colour, _ in UNSEEN)


def test_objects_of_a_scene_differ_and_seeds_give_the_same_scenes() -> None:
    assert all(len(set(kinds(each.caption))) == len(each.regions) for each in SOME)
    again = next(scenes(1, 36, seed=1))
    assert (again.pixels == SOME[0].pixels).all() and again.caption == SOME[0].caption
    assert next(scenes(1, 36, seed=2)).caption != again.caption


def test_patches_of_a_region_by_hand() -> None:
    found = patches_of(Region(0, (4, 7, 9, 8)), 12, 4)
    assert found.tolist() == [[False] * 3, [False, True, True], [False] * 3]


def test_the_files_are_the_same_each_time(tmp_path: Path) -> None:
    first, second = (
        write_scenes(tmp_path / name, 24, train=5, others=4) for name in ("one", "two")
    )
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    images, train, *_, unseen = first
    names = zipfile.ZipFile(images).namelist()
    assert len(names) == 5 + 3 * 4 and names[0] == "train/000000.png"
    rows = [json.loads(line) for line in unseen.read_text().splitlines()]
    assert rows[3]["image"] in names and len(read_regions(train)) == 5
    assert [list(each.box) for each in read_regions(unseen)[3]] == [
        each["box"] for each in rows[3]["regions"]
    ]


def test_wrong_sizes_and_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="20 pixels are too small"):
        next(scenes(1, 20, seed=1))
    plain = write(tmp_path / "plain.jsonl", '{"image": "a.png", "caption": "a dog"}\n')
    assert "plain.jsonl:1: expected `regions`" in refusal(read_regions, plain)
    assert "gone.jsonl: no such file" in refusal(read_regions, plain.with_name("gone.jsonl"))


def test_large_objects_come_first_and_then_the_order_is_that_of_reading() -> None:
    for scene in SOME:
        words = scene.caption.split()
        places = []
        for region in scene.regions:
            x, y = middle(region)
            places.append((words[region.word - 2] == "small", int(y // 12), int(x // 12)))
        assert places == sorted(places)

"""The page computes in JavaScript what the program computes: texts, pieces, searches, traces."""

import base64
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from crosshead.addons.look.session import Session
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import UserError
from crosshead.inspection import computing
from crosshead.inspection.computing import computing_forms
from crosshead.inspection.saved_page import saved_page
from crosshead.models.registry import build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.tasks.registry import TASKS
from crosshead.tasks.translation.translator import Translator
from crosshead.text.markers import MARKERS, TERM_MARKERS
from crosshead.text.tokenizers import Tokenizer, TokenizerConfig, train_tokenizer
from tests.browser import opened
from tests.conftest import ROOT
from tests.inspection.pipelines import CONFIGS, pipeline_of
from tests.parameters import mostly_slow

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MULTI30K = Path(os.environ.get("CROSSHEAD_DATA", ROOT.parent / "shared" / "data")) / "multi30k/raw"
ANSWERS = Path(__file__).parent / "page" / "answers.mjs"
ENGLISH = [
    "A dog runs over the green grass and catches a ball.", "Two men in blue shirts stand by a car.",
    "She reads a book in the park, and he sleeps.", "Don't run: the café is closed at 10 o'clock!",
    "The children play football near the old house", "A woman (in red) sings; people listen.",
]  # fmt: skip
GERMAN = [
    "Ein Hund läuft über das grüne Gras und fängt einen Ball.",
    "Zwei Männer stehen am Auto.",
    "Sie liest ein Buch im Park, und er schläft.",
    "Größe 10 ist schön, naïve Übermut",
]
TEXT, OTHER = "Two men stand.", "A man sleeps."
STACK = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 24, "heads": 4}

SHAPES: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"norm": "pre", "activation": "gelu", "positions": "learned", "max_length": 90},
    "multi-query": {"kv_heads": 1, "activation": "swish", "tie": "none", "output_bias": True},
    "grouped": {"kv_heads": 2, "norm": "pre", "d_key": 3, "d_value": 5, "tie": "two-way"},
    "odd width": {"d_model": 15, "heads": 3, "start": "pad", "activation": "gelu-tanh"},
}
SEARCHES: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": {"beam": 1, "min_length": 3},
    "multi-query": {"beam": 3, "stop": "exact", "length_penalty": 2.0},
    "grouped": {"beam": 5, "stop": "count", "length_offset": 0.0, "length_penalty": 1.0},
    "odd width": {"beam": 2, "stop": "last", "length_penalty": 0.0, "min_length": 2},
}
EDITS: dict[str, list[dict[str, Any]]] = {
    "head off": [{"edit": "off", "kind": "cross", "layer": 1, "head": 2}],
    "layer off": [{"edit": "off", "kind": "encoder", "layer": 2, "head": None}],
    "uniform": [{"edit": "uniform", "kind": "decoder", "layer": 1, "head": 1}],
    "diagonal": [{"edit": "diagonal", "kind": "cross", "layer": 2, "head": 3}],
    "diagonal of the source": [{"edit": "diagonal", "kind": "encoder", "layer": 1}],
    "edges": [
        {"edit": "edge", "kind": "encoder", "layer": 1, "head": 1, "query": 2, "key": 3},
        {"edit": "edge", "kind": "cross", "layer": 2, "query": 1, "key": 0},
    ],
    "nothing left": [{"edit": "edge", "kind": "decoder", "layer": 1, "query": 0, "key": 0}],
    "nothing left, uniform": [
        {"edit": "edge", "kind": "decoder", "layer": 2, "query": 0, "key": 0},
        {"edit": "uniform", "kind": "decoder", "layer": 2, "head": 2},
    ],
    "patches": [
        {"edit": "patch", "text": OTHER, "stack": "encoder", "layer": 1, "position": 2},
        {"edit": "patch", "text": OTHER, "stack": "decoder", "layer": 0, "position": 1},
        {"edit": "patch", "text": OTHER, "stack": "decoder", "layer": 2, "position": 3},
    ],
    "prefix": [{"edit": "prefix", "ids": [270, 271]}],
    "all together": [
        {"edit": "prefix", "ids": [272]},
        {"edit": "off", "kind": "decoder", "layer": 1, "head": 3},
        {"edit": "patch", "text": OTHER, "stack": "encoder", "layer": 0, "position": 0},
        {"edit": "edge", "kind": "cross", "layer": 1, "head": 3, "query": 2, "key": 1},
    ],
    "an edge outside": [{"edit": "edge", "kind": "encoder", "layer": 1, "query": 90, "key": 0}],
}  # fmt: skip

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")


def tokenizer_of(lines: Sequence[str], size: int) -> Tokenizer:
    special = [*MARKERS, *TERM_MARKERS, "A.B|C"]
    return train_tokenizer(TokenizerConfig(kind="bpe", vocab_size=size, special=special), lines)


def translator_of(
    shape: dict[str, Any], decode: dict[str, Any], sides: Sequence[Tokenizer], seed: int = 0
) -> Translator:
    """An untrained model whose weights are large enough for sure choices."""
    config = TransformerConfig(**STACK | {"dropout": 0.0} | shape)
    source, target = sides
    torch.manual_seed(seed)
    model = build_model(config, source.vocab_size, target.vocab_size).eval()
    for each in model.parameters():
        each.data += 0.1 * torch.randn_like(each)
    settings = TextBundleConfig(
        task=config.task, model=config, joint_tokenizer=source is target,
        source_vocabulary=source.vocab_size, target_vocabulary=target.vocab_size,
        longest_source=60, decode=DecodeConfig(**{"max_extra": 4} | decode),
    )  # fmt: skip
    pipeline = TASKS[config.task].pipeline(TextBundle(settings, model, source, target))
    assert isinstance(pipeline, Translator)
    return pipeline


@pytest.fixture(scope="module")
def joint() -> Tokenizer:
    return tokenizer_of(ENGLISH + GERMAN, 400)


@pytest.fixture(scope="module")
def translators(joint: Tokenizer) -> dict[str, Translator]:
    apart = [tokenizer_of(ENGLISH, 330), tokenizer_of(GERMAN, 320)]
    return {
        name: translator_of(
            shape, SEARCHES[name], [joint, joint] if "tie" not in shape else apart, seed
        )
        for seed, (name, shape) in enumerate(SHAPES.items())
    }


def asked(session: Session, lines: Sequence[Any]) -> Iterator[Any]:
    """What the page answers to each line."""
    computed = {"models": session.models, "text": "", "computing": forms_of(session)}
    text = "\n".join(json.dumps(each) for each in [computed, *lines])
    done = subprocess.run(
        ["node", ANSWERS], input=text, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return map(json.loads, done.stdout.splitlines())


def forms_of(session: Session) -> list[dict[str, Any]]:
    forms = computing_forms(session.pipelines)
    assert forms is not None
    return forms


def expect_same(found: Any, expected: Any, place: str = "") -> None:
    """Check that values are the same, and numbers within 1e-5 of the largest one beside them."""
    if isinstance(expected, dict) and "shape" in expected:
        numbers = np.frombuffer(base64.b64decode(expected["data"]), expected["type"])
        assert found["shape"] == expected["shape"], place
        most = max(1.0, float(np.abs(numbers).max()))
        np.testing.assert_allclose(found["data"], numbers, rtol=0, atol=1e-5 * most, err_msg=place)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for name, each in expected.items():
            expect_same(found[name], each, f"{place}.{name}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), place
        for number, pair in enumerate(zip(found, expected, strict=True)):
            expect_same(*pair, f"{place}[{number}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-5, rel=1e-5), place
    else:
        assert found == expected, place


@pytest.mark.parametrize("name", mostly_slow(SHAPES, ["post-norm", "grouped"]))
def test_the_page_computes_what_the_program_computes(
    translators: dict[str, Translator], name: str
) -> None:
    session = Session({"m": translators[name]})
    requests: list[dict[str, Any]] = [
        {"ask": "trace", "text": TEXT},
        {"ask": "trace", "text": ENGLISH[2]},
        *({"ask": "trace", "text": TEXT, "edits": each} for each in EDITS.values()),
        {"ask": "heads", "text": TEXT},
        {"ask": "states", "text": TEXT, "other": OTHER, "stack": "decoder"},
    ]
    outside = []
    for request, found in zip(requests, asked(session, requests), strict=True):
        try:
            expected = session.answer(request)
        except UserError as error:
            outside.append(request)
            expected = {"error": str(error)}
        expect_same(found, expected, json.dumps(request))
    assert outside == [{"ask": "trace", "text": TEXT, "edits": EDITS["an edge outside"]}]


def test_rounded_weights_are_computed_as_such(
    translators: dict[str, Translator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computing, "LARGEST_EXACT", 0)
    translator = translators["post-norm"]
    session = Session({"m": translator_of({}, {}, [translator.tokenizer] * 2)})
    session.pipelines[0].model.half().float()
    [form] = forms_of(session)
    assert {each["type"] for each in form["weights"].values()} == {"float16"}
    [found] = asked(session, [{"ask": "trace", "text": TEXT}])
    expect_same(found, session.answer({"ask": "trace", "text": TEXT}))


def test_two_models_on_one_page(translators: dict[str, Translator]) -> None:
    session = Session({"a": translators["post-norm"], "b": translators["pre-norm"]})
    request = {"ask": "trace", "text": TEXT, "model": 1}
    [found] = asked(session, [request])
    expect_same(found, session.answer(request))


@pytest.mark.parametrize("name", sorted(set(CONFIGS) - {"transformer", "pre-norm, multi-query"}))
def test_other_models_are_recorded(name: str) -> None:
    assert computing_forms([pipeline_of(name)]) is None


def test_what_a_page_cannot_compute_is_recorded(
    joint: Tokenizer, translators: dict[str, Translator], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [joint, joint]
    plain = translators["post-norm"]
    assert computing_forms([plain]) is not None
    assert computing_forms([pipeline_of("transformer")]) is None  # its pieces are characters
    assert computing_forms([plain, pipeline_of("luong")]) is None
    for shape in ({"positions": "rotary"}, {"score": "dot"}, {"pattern": "window", "radius": 2}):
        assert computing_forms([translator_of(shape, {}, both)]) is None
    assert computing_forms([translator_of({}, {"sample": True, "beam": 1}, both)]) is None
    assert computing_forms([translator_of({}, {"beam": 17}, both)]) is None
    monkeypatch.setattr(computing, "LARGEST", 1000)
    assert computing_forms([plain]) is None


# The texts that the model reads.

READ = [
    "A man sleeps.", "  A\tman \u00a0 sleeps \n", "a\u00adb\u200bc d\u200de", "نمی\u200cخواهم",
    "क्\u200dष", "Ein Café, naïve", "日本語と中文", "٣ ١٢ 45", "e\u0301 nfd", "x\u0085y\u001cz",
    "\ufeffA man", "A B C D", "A MAN SLEEPS IN THE GREEN PARK.", "TWO MEN STAND! A DOG RUNS.",
    "The Old House Is in the Park", "the old house. a dog", "USA", "I", "i", "ÜBER DAS GRAS",
    "STRASSE GROẞ", "ISTANBUL İZMİR", "ΟΔΟΣ ΣΑΣ", "ﬁne ŉ ß", "DON'T RUN ’TIL 10 O’CLOCK",
    "A4 B5 C6", "Größe 100 % für 5 $ (#1).", "A.B|C and xA.B|C.", "-- ... ?!", "x" * 50,
    "USA Today Is Here", "50 % OFF", "\x1a0 \x1a", "a  b   c", "Über Größe",
    "50% Off Now For Dogs", "ᵃ ª º ⅷ ½ Ⅷ", "\U0001d400\U0001d401", "\u0149 \u01f0", "DŽEP",
    "café's l'eau", "აბ ა.", "ᲐᲑ Ა",
]  # fmt: skip
REFUSED = [
    "<b>A man</b> sleeps", "{name} sleeps", "see www.a.org", "see https://a.org/x", "a@b.org",
    "@anna", "#dogs", "%s dogs", "%(name)s", "100%%", "$NAME$", "__name__", "read notes.pdf",
    "A dog \U0001f436", "\u2665 dogs", "1\ufe0f\u20e3 dog", "\u2022 dogs", "\U0010fffd",
    "\u2581 b", "\u2585", "ǄEP STOJI", "ǆep", "word " * 70,
]  # fmt: skip


def ids_of(translator: Translator, text: str) -> list[int]:
    """The ids that a model reads, or none if it does not read the text at once."""
    planned = translator.planned([text], 0)
    return planned.ids[0] if len(planned.ids) == 1 and not planned.marked[0].words else []


def test_the_page_reads_texts_as_the_program_does(translators: dict[str, Translator]) -> None:
    translator = translators["post-norm"]
    tokenizer = translator.tokenizer
    found = list(asked(Session({"m": translator}), [*READ, *REFUSED, "", " \u200b ", "a\ud800b"]))
    for text, each in zip(READ, found, strict=False):
        ids = ids_of(translator, text)
        pieces, decoded = tokenizer.pieces(ids), tokenizer.decode(ids)
        assert each == {"ids": ids, "pieces": pieces, "text": decoded}, ascii(text)
    for text, each in zip([*REFUSED, "", " ", "half"], found[len(READ) :], strict=True):
        assert each.keys() == {"error"}, ascii(text)


def test_the_page_reads_no_text_otherwise(translators: dict[str, Translator]) -> None:
    draw = random.Random(0)
    letters = (
        "aAbBßçIİiσΣςǆﬁåÅ漢あ한אقक्١½Ⅷ  ..,'’!?-:;()\t\u00a0\u200b\u200c\u200d\u00ad\ufeff\x1a°€1"
    )
    words = ["dog", "Dog", "DOG", "the", "A.B|C", "A4", "don't", "Über", "x.py", "%d", "\u2022"]
    texts = [
        "".join(draw.choice([draw.choice(letters), draw.choice(words), " "]) for _ in range(size))
        for size in range(1, 25)
        for _ in range(60)
    ]
    translator = translators["post-norm"]
    read = 0
    for text, each in zip(texts, asked(Session({"m": translator}), texts), strict=True):
        if "error" not in each:
            read += 1
            assert each["ids"] == ids_of(translator, text), ascii(text)
    assert read > 300


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="needs ../shared/data")
def test_the_page_reads_captions_as_the_program_does() -> None:
    sides = [(MULTI30K / f"val.{end}").read_text("utf-8").splitlines() for end in ("en", "de")]
    tokenizer = tokenizer_of([line for lines in sides for line in lines], 2000)
    translator = translator_of({}, {}, [tokenizer, tokenizer])
    lines = [line for pair in zip(*sides, strict=True) for line in pair][:500]
    lines += [change(line) for line in lines[:60] for change in (str.upper, str.lower, str.title)]
    for line, found in zip(lines, asked(Session({"m": translator}), lines), strict=True):
        assert found.get("ids") == ids_of(translator, line), (line, found)


def test_a_saved_page_computes_without_a_server(
    browser: "Browser", translators: dict[str, Translator], tmp_path: Path
) -> None:
    session = Session({"m": translators["grouped"]})
    file = tmp_path / "page.html"
    file.write_text(saved_page(session.models, TEXT, computing=forms_of(session)), "utf-8")

    def expect(*edits: dict[str, Any]) -> dict[str, Any]:
        """Check the output on the page, and return the answer of the program."""
        answer = session.answer({"ask": "trace", "text": OTHER, "edits": [*edits]})
        text = answer["found"][0]["text"]
        shown = "(text) => document.getElementById('translation').textContent === text"
        page.wait_for_function(shown, arg=text)
        return answer

    with opened(browser, file.as_uri(), offline=True) as page:
        page.get_by_role("tab").first.wait_for()
        page.get_by_label("Text").fill(OTHER)
        page.get_by_role("button", name="Look", exact=True).click()
        answer = expect()
        taken = {"</s>", answer["target"][0]}
        others = [number for piece, _, number in answer["best"][0] if piece not in taken]
        page.get_by_role("group", name="Most probable pieces").get_by_role("button").last.click()
        prefix = {"edit": "prefix", "ids": others[-1:]}
        page.locator("#before").wait_for()
        expect(prefix)
        page.get_by_role("tab", name="Heads").click()
        page.get_by_role("button", name="layer 1, head 2").click()
        page.get_by_role("button", name="Switch this head off").click()
        page.get_by_role("button", name="Take back: head 2").wait_for()
        off = {"edit": "off", "kind": "cross", "layer": 1, "head": 2}
        expect(prefix, off)
        page.get_by_role("button", name="layer 1, head 1").click()
        page.locator(".map canvas").click(position={"x": 36, "y": 12})
        page.get_by_role("button", name="1 may not attend to 2").wait_for()
        expect(prefix, off, {**off, "edit": "edge", "head": 1, "query": 0, "key": 1})
        assert page.locator("#error").inner_text() == ""
        assert page.get_by_role("tab", name="Training").count() == 0
        assert "computes" in page.locator("#source").inner_text()
        page.get_by_label("Text").fill("see https://a.org")
        page.get_by_role("button", name="Look", exact=True).click()
        page.locator("#error:not(:empty)").wait_for()

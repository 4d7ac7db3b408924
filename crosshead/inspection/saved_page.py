"""The page that shows traces, as one file that needs no server."""

import base64
import dataclasses
import hashlib
import html
import json
import re
from collections.abc import Sequence
from typing import Any

from crosshead.inspection.edits import Edit
from crosshead.inspection.forms import trace_form, weights_form
from crosshead.inspection.record import AttentionWeights
from crosshead.inspection.trace import Trace
from crosshead.system.web import page_files

_IMPORT = re.compile(r'^import [^;]* from "\./(\w+\.mjs)";\n', re.MULTILINE)


_NOTE = re.compile(r'(?<=<p id="source">)[^<]*')
_COMPUTES = "This page is a saved one: it computes what it shows, and reaches no server."
_ROUNDED = " Its weights are rounded to 16 bits (float16), so its numbers are a little off."


def saved_page(
    models: Sequence[dict[str, Any]],
    text: str,
    answers: Sequence[dict[str, Any]] = (),
    computing: Sequence[dict[str, Any]] | None = None,
) -> str:
    """Return the page as one HTML file that reaches no server.

    It shows models, as the server describes them, and a text. Each answer has its `request` and its
    `answer`. With the forms of the models (`computing_forms`) the page computes its answers.
    """
    parts = {name: each.content.decode() for name, each in page_files(__package__).items()}
    script = _joined(parts, "page.mjs", set())
    style = parts["base.css"] + parts["look.css"]
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    )
    content = {"models": models, "text": text, "answers": answers, "computing": computing}
    data = json.dumps(content).replace("<", "\\u003c")
    icon = base64.b64encode(parts["icon.svg"].encode()).decode()
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">\n<style>{style}</style>\n'
    )
    tail = (
        f'<script type="application/json" id="recorded">{data}</script>\n'
        f'<script type="module">{script}</script>\n'
    )
    page = re.sub(r"<link [^>]*>\n|<script [^>]*></script>\n", "", parts["look.html"])
    if computing is not None:
        page = _NOTE.sub(_COMPUTES + _ROUNDED * _is_rounded(computing), page)
    return page.replace("<title>", head + "<title>").replace("</body>", tail + "</body>")


def page_of(found: Trace | AttentionWeights) -> str:
    """Return the page that shows one trace, or attention weights alone."""
    if isinstance(found, Trace):
        pieces, translates = found.source or found.read, bool(found.found)
        form = trace_form(found) | {"edits": [_words(each) for each in found.edits]}
    else:
        form, pieces, translates = weights_form(found), found.keys, False
    text = "".join(pieces).replace("\u2581", " ").removesuffix("</s>").strip()
    model = {"name": "", "shape": "", "translates": translates}
    answer = {"request": {"ask": "trace", "text": text}, "answer": form}
    return saved_page([model | {"heads": {}, "stacks": {}, "checkpoints": []}], text, [answer])


def _words(edit: Edit) -> str:
    """Return an edit as it is written in Python, without the trace of a patch."""
    values = [
        str(getattr(edit, each.name)) for each in dataclasses.fields(edit) if each.name != "trace"
    ]
    return f"{type(edit).__name__}({', '.join(values)})"


def frame_of(found: Trace | AttentionWeights) -> str:
    """Return the page as an element of a notebook, apart from the rest of it."""
    page = html.escape(page_of(found))
    style = "width: 100%; height: 40rem; border: 0"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'


def _is_rounded(computing: Sequence[dict[str, Any]]) -> bool:
    """Return whether weights are in float16."""
    return any(each["type"] == "float16" for form in computing for each in form["weights"].values())


def _joined(parts: dict[str, str], name: str, done: set[str]) -> str:
    """Return a module and those that it imports, in the order that they need, as one script."""
    done.add(name)
    text = parts[name]
    first = [_joined(parts, each, done) for each in _IMPORT.findall(text) if each not in done]
    return "".join([*first, re.sub(r"^export ", "", _IMPORT.sub("", text), flags=re.MULTILINE)])


def _hash(text: str) -> str:
    """Return the source of a content security policy that allows a text and nothing else."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

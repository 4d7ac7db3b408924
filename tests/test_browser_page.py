"""A real browser translates with the page in an ONNX export and no other server.

transformers.js comes from npm, or from the folder that the variable TRANSFORMERS_JS names: the
folder `dist` of the package @huggingface/transformers.
"""

import functools
import http.server
import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crosshead.addons.interop.base import ForeignSearch
from crosshead.addons.interop.onnx import ONNX
from crosshead.addons.interop.onnx_runtime import LoadedGraphs
from tests.addons.interop.small_bundles import TEXT, shown, small_bundle

PAGE = Path(__file__).parent.parent / "crosshead" / "addons" / "interop" / "translate.html"
PACKAGE = "@huggingface/transformers@3.8.1"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 240

DRIVER = """<!doctype html><iframe src="translate.html"></iframe><script>
const wait = async (ready) => {
  while (!ready()) await new Promise((done) => setTimeout(done, 100));
};
const frame = document.querySelector("iframe");
frame.addEventListener("load", async () => {
  const find = (name) => frame.contentDocument.querySelector(name);
  await wait(() => find("[role=status]").textContent !== "The model is being loaded.");
  if (!find("button").disabled) {
    find("textarea").value = LINES;
    find("button").click();
    await wait(() => !find("button").disabled);
  }
  let blocked = "";
  frame.contentDocument.addEventListener("securitypolicyviolation", (event) => {
    blocked = event.blockedURI;
  });
  await frame.contentWindow.fetch("https://example.org/").catch(() => {});
  await wait(() => blocked);
  const said = [find("[role=status]").textContent, find("output").textContent, blocked];
  await fetch("/said", { method: "POST", body: JSON.stringify(said) });
});
</script>"""
"""The page that loads the real one in a frame, types into it, presses its button and reports."""


LIBRARY = """export const env = { backends: { onnx: { wasm: {} } } };
export const pipeline = async (task, model) => async (line) => {
  if (env.useBrowserCache !== false || model !== ".") throw new Error("an earlier export");
  globalThis.look();
  if (line === "bad") throw new Error("no");
  return [{ translation_text: line.toUpperCase() }];
};"""
"""A library that notes what the page shows while it translates, and cannot translate one line."""

DOCUMENT = """const listeners = [];
const names = ["button", "output", "[role=status]", "form", "textarea"];
const parts = Object.fromEntries(names.map((name) => [name, { textContent: "" }]));
parts.form.addEventListener = (_, listener) => listeners.push(listener);
globalThis.document = { querySelector: (name) => parts[name] };
globalThis.location = { href: import.meta.url };
const seen = [];
globalThis.look = () => seen.push([parts["[role=status]"].textContent, parts.output.textContent]);
"""
"""The parts of a page that its script uses."""

PRESSES = """look();
for (const text of ["bad", "a\\nb", "c"]) {
  parts.textarea.value = text;
  await listeners[0]({ preventDefault() {} });
  if (text !== "c") look();
}
console.log(JSON.stringify(seen));
"""
"""Presses the button with a text that fails and with others, and reports what the page showed."""


def browser() -> str:
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    pytest.skip(f"needs a browser: one of {', '.join(BROWSERS)}")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `dist` of transformers.js."""
    browser()  # nothing is fetched without a browser
    if given := os.environ.get("TRANSFORMERS_JS"):
        return Path(given)
    if not shutil.which("npm"):
        pytest.skip("needs npm, or the folder of transformers.js in TRANSFORMERS_JS")
    folder = tmp_path_factory.mktemp("npm")
    command = ["npm", "install", PACKAGE, "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"npm cannot install {PACKAGE}: {done.stderr.strip()[-200:]}")
    return folder / "node_modules" / "@huggingface" / "transformers" / "dist"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and keeps what the driver reports."""

    said: "queue.Queue[list[str]]"

    def do_POST(self) -> None:
        self.said.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str, "queue.Queue[list[str]]"]]:
    """A folder, the address where it is served, and what the driver reports."""
    folder, said = tmp_path / "site", queue.Queue[list[str]]()
    folder.mkdir()
    handler = type("Here", (Handler,), {"said": said})
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(handler, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}/", said
    server.shutdown()
    thread.join()
    server.server_close()


def drive(served: tuple[Path, str, "queue.Queue[list[str]]"], home: Path, lines: str) -> list[str]:
    """What the page says and shows after the lines were typed in, without any other network."""
    folder, address, said = served
    (folder / "driver.html").write_text(DRIVER.replace("LINES", json.dumps(lines)))
    process = subprocess.Popen(
        [
            browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--user-data-dir={home}", "--remote-debugging-port=0", f"{address}driver.html",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        return said.get(timeout=SECONDS)
    finally:
        process.terminate()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize(
    ("shape", "tokenizer"),
    [({}, {}), ({"tie": "none", "positions": "rotary"}, {"joint": False})],
    ids=["usual", "two-vocabularies"],
)
def test_a_browser_translates_offline(
    kind: str,
    shape: dict[str, str],
    tokenizer: dict[str, bool],
    served: tuple[Path, str, "queue.Queue[list[str]]"],
    library: Path,
    tmp_path: Path,
) -> None:
    folder, _, _ = served
    (folder / "transformers").symlink_to(library)
    bundle = small_bundle(shape, tokenizer, seed=1)
    ONNX.write(bundle, kind, folder)
    search = ForeignSearch(1, 0.0, 41)
    ONNX.write_search(bundle, search, folder)
    lines = list(dict.fromkeys(TEXT["source"]))
    graphs = LoadedGraphs(bundle, folder)
    # One line at a time, as the page does: in int8, the lines of a batch change each other.
    expected = [graphs.translate([line], search)[0] for line in lines]
    assert any(expected)
    status, output, blocked = drive(served, tmp_path / "home", "\n".join(lines))
    assert status == "The model is ready. This page sends no text to any server but its own."
    assert [*map(shown, output.split("\n"))] == [*map(shown, expected)]
    assert blocked.startswith("https://example.org")


def test_the_page_may_reach_its_own_server_only() -> None:
    """Each source that the policy names is the server itself, or made by the page."""
    policy = PAGE.read_text("utf-8").partition('content="default-src')[2].partition('"')[0]
    sources = {source for part in f"default-src{policy}".split(";") for source in part.split()[1:]}
    assert sources == {"'self'", "'none'", "'unsafe-inline'", "'wasm-unsafe-eval'", "blob:"}


@pytest.mark.slow
def test_an_error_goes_away_and_work_shows(tmp_path: Path) -> None:
    """The script of the page runs in Node, with a document and a library of its own."""
    if not shutil.which("node"):
        pytest.skip("needs Node")
    script = PAGE.read_text("utf-8").partition('<script type="module">')[2].partition("</script>")
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "transformers.min.js").write_text(LIBRARY)
    (tmp_path / "page.mjs").write_text(f"{DOCUMENT}\n{script[0]}\n{PRESSES}")
    done = subprocess.run(
        ["node", tmp_path / "page.mjs"], capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    ready = "The model is ready. This page sends no text to any server but its own."
    assert json.loads(done.stdout) == [
        [ready, ""],
        ["Translating line 1 of 1.", ""],
        ["The text cannot be translated: no", ""],
        ["Translating line 1 of 2.", ""],
        ["Translating line 2 of 2.", ""],
        [ready, "A\nB"],
        ["Translating line 1 of 1.", ""],
    ]


@pytest.mark.slow
def test_a_missing_library_is_said(
    served: tuple[Path, str, "queue.Queue[list[str]]"], tmp_path: Path
) -> None:
    shutil.copy(PAGE, served[0])
    status, output, _ = drive(served, tmp_path / "home", "a dog")
    assert status.startswith("The model cannot be loaded: ") and not output

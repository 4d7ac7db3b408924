// Tests of the page's functions of texts, run by Node: `node --test tests/addons/serving/page/`.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as text from "../../../../crosshead/addons/serving/page/text.mjs";

const LANGUAGES = [
  { code: "de", name: "German", targets: ["de", "fr"] },
  { code: "en", name: "English", targets: ["de", "en", "fr"] },
  { code: "fr", name: "French", targets: ["fr"] },
];
const codes = (found) => found.map((each) => each.code);

test("a translation is its sentences and the white space between them", () => {
  assert.deepEqual(text.located("  Ja. Ja.\nNein.\n", ["Ja.", "Ja.", "Nein."]), [
    { text: "  ", sentence: null },
    { text: "Ja.", sentence: 0 },
    { text: " ", sentence: null },
    { text: "Ja.", sentence: 1 },
    { text: "\n", sentence: null },
    { text: "Nein.", sentence: 2 },
    { text: "\n", sentence: null },
  ]);
  assert.deepEqual(text.located("", []), []);
  assert.deepEqual(text.located("a", [""]), [{ text: "a", sentence: null }]);
});

test("a sentence out of place leaves the rest as one part", () => {
  assert.deepEqual(text.located("A. B. C.", ["A.", "x", "C."]), [
    { text: "A.", sentence: 0 },
    { text: " B. C.", sentence: null },
  ]);
});

test("only languages that go together are offered", () => {
  assert.deepEqual(codes(text.sources(LANGUAGES)), ["de", "en"]);
  assert.deepEqual(codes(text.targets(LANGUAGES, "en")), ["de", "fr"]);
  assert.deepEqual(codes(text.targets(LANGUAGES, "de")), ["fr"]);
  assert.deepEqual(codes(text.targets(LANGUAGES, "auto")), ["de", "fr"]);
  assert.equal(text.isPair(LANGUAGES, "en", "de"), true);
  assert.equal(text.isPair(LANGUAGES, "de", "en"), false);
  assert.equal(text.isPair(LANGUAGES, "en", "en"), false);
});

test("stored languages are a pair of texts", () => {
  assert.deepEqual(text.storedPair('["en","de"]'), ["en", "de"]);
  for (const damaged of [null, "", "{", "7", "null", "{}", "[]", '["en"]', '["en",1]', '"en"']) {
    assert.equal(text.storedPair(damaged), null);
  }
});

test("messages are sentences", () => {
  assert.equal(text.asSentence("the server is busy; try again later"), "The server is busy; try again later.");
  assert.equal(text.asSentence("Why?"), "Why?");
  assert.equal(text.asSentence(" "), "Something went wrong.");
});

test("the time to wait is between a second and a minute", () => {
  assert.deepEqual(["0", "7", "9999", " 5 "].map(text.retrySeconds), [1, 7, 60, 5]);
  assert.deepEqual([null, "", "Mon, 01 Jan 2035 00:00:00 GMT"].map(text.retrySeconds), [null, null, null]);
});

test("characters are code points", () => {
  assert.deepEqual(["", "ä😀b"].map(text.characters), [0, 3]);
  assert.deepEqual([[0, 0], [1, 0], [3, 5]].map((each) => text.countWords(...each)), [
    "0 characters", "1 character", "3 of 5 characters",
  ]);
});

test("sizes are rounded", () => {
  assert.deepEqual([5, 2048, 1024 ** 2 * 1.25].map(text.sizeWords), ["5 bytes", "2 KiB", "1.3 MiB"]);
});

test("an address ends in a name", () => {
  assert.equal(text.lastPart("http://proxy/x/download_file/ab.a%20b.txt"), "ab.a%20b.txt");
});

test("doubtful sentences are named", () => {
  const sentence = (source, ...flags) => ({ source, translations: [{ text: "x", flags }] });
  assert.equal(text.doneWords([sentence("a")]), "Translated.");
  assert.equal(
    text.doneWords([sentence("a"), sentence("in 2021", "number"), sentence("b", "empty")]),
    "Translated. Check “in 2021”: the translation lacks a number, and 1 more.",
  );
});

test("the way names what is not obvious", () => {
  const [de, en, fr] = LANGUAGES;
  assert.equal(text.wayWords([en, de], null), "");
  assert.equal(text.wayWords([en, de, fr], "English"), "Detected language: English. Translated through German.");
});

test("translations are listed once", () => {
  assert.deepEqual(text.distinct(["b", "a", " ", "b"]), ["b", "a"]);
});

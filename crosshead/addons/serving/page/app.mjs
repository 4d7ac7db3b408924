// The page: languages, the text as one types, its translation, and everything said about it.

import { wireFiles } from "./files.mjs";
import { ask } from "./server.mjs";
import { Sentences } from "./sentences.mjs";
import { asSentence, characters, countWords, doneWords, isPair, sources, storedPair, targets, wayWords } from "./text.mjs";
import { store, stored, wireTheme } from "./theme.mjs";

const PAUSE = 300; // milliseconds without a key before a text is sent
const MOST_OTHERS = 4; // alternatives of a sentence
const LANGUAGES = "crosshead.languages", KEY = "crosshead.key"; // names of what the browser keeps

const find = (id) => document.getElementById(id);
const source = find("source"), target = find("target"), text = find("text");

let languages = [], limits = {}, keyRequired = false;
let result = null; // the answer on show
let timer = 0, pending = null;
let retry = null; // what the button "Try again" does

const translation = new Sentences(find("translation"), find("menu"), {
  others: async (sentence, signal) => {
    const [from, to] = [result.languages[0], result.languages.at(-1)];
    const body = { text: sentence, source: from.code, target: to.code, alternatives: alternatives() };
    const [found] = (await ask("v1/translate", { body, key: key(), signal })).translations;
    return [found.text, ...found.alternatives];
  },
  changed: () => say("The sentence was replaced."),
  failed: (error) => fail(error),
});

const key = () => find("key").value.trim();
const alternatives = () => Math.min(MOST_OTHERS, limits.alternatives);
const nameOf = (code) => languages.find((each) => each.code === code)?.name ?? code;

function say(words) {
  find("status").textContent = words;
  find("error").textContent = "";
  offerRetry(null);
}

/** Show a button that asks again, or hide it. */
function offerRetry(again) {
  retry = again;
  find("again").hidden = !again;
}

/** Show an error. What may succeed later is asked again: after the seconds that the server says, or by a button. */
function fail(error, again = null) {
  find("status").textContent = "";
  let words = asSentence(error.message);
  if (again && error.seconds) {
    words += ` Trying again in ${error.seconds} s.`;
    timer = setTimeout(again, 1000 * error.seconds);
  }
  find("error").textContent = words;
  offerRetry(error.mayPass && !error.seconds ? again : null);
}

function options(select, entries, chosen) {
  select.replaceChildren(...entries.map(([code, name]) => new Option(name, code)));
  select.value = entries.some(([code]) => code === chosen) ? chosen : entries[0]?.[0];
}

/** Offer the languages that go together, with the chosen ones where they do. */
function offer(from, to) {
  const known = sources(languages).map((each) => [each.code, each.name]);
  const all = known.length > 1 ? [["auto", "Detect language"], ...known] : known;
  options(source, all, from);
  options(target, targets(languages, source.value).map((each) => [each.code, each.name]), to);
  text.lang = source.value === "auto" ? "" : source.value;
  store(LANGUAGES, JSON.stringify([source.value, target.value]));
  hintSwap();
}

/** Return the languages after a swap; a detected language counts as the source. */
function swapped() {
  const from = source.value === "auto" ? result?.languages[0].code : source.value;
  return from === undefined ? null : [target.value, from];
}

function swapHint() {
  const pair = swapped();
  if (pair === null) return "Type a text first, or choose its language, to swap.";
  const [from, to] = pair;
  if (isPair(languages, from, to)) return "";
  return `This server does not translate ${nameOf(from)} to ${nameOf(to)}.`;
}

function hintSwap() {
  const words = swapHint();
  find("swap-hint").textContent = find("swap").title = words;
  find("swap").setAttribute("aria-disabled", String(words !== ""));
}

function swap() {
  const words = swapHint();
  if (words) return say(words);
  if (result) text.value = translation.text;
  offer(...swapped());
  changedLanguages();
}

function changedLanguages() {
  translation.forget();
  later(0);
}

function show(found, words = "") {
  result = found;
  const hasOthers = Boolean(found) && found.languages.length > 1 && alternatives() > 0;
  translation.show(found, target.value, hasOthers);
  find("sentences-hint").hidden = !hasOthers;
  find("copy").hidden = !found || !navigator.clipboard;
  say(words);
  hintSwap();
}

/** Translate the text after a pause; what was asked before is not awaited any more. */
function later(pause) {
  clearTimeout(timer);
  pending?.abort();
  find("translation").removeAttribute("aria-busy");
  const count = characters(text.value);
  find("count").textContent = countWords(count, limits.characters);
  find("clear").hidden = count === 0;
  if (!text.value.trim()) return show(null);
  if (limits.characters && count > limits.characters) {
    return fail({ message: `The text has ${count} characters, and this server takes ${limits.characters}` });
  }
  if (keyRequired && !key()) return fail({ message: "Enter your API key above" });
  timer = setTimeout(translate, pause);
}

async function translate() {
  const { signal } = (pending = new AbortController());
  const body = { text: text.value, source: source.value, target: target.value };
  find("translation").setAttribute("aria-busy", "true");
  try {
    const found = await ask("v1/translate", { body, key: key(), signal });
    if (signal.aborted) return;
    const [only] = found.translations;
    const detected = found.detected_language && nameOf(found.detected_language.language);
    show({ ...only, languages: wayOf(only) }, `${doneWords(only.sentences)} ${wayWords(only.languages, detected)}`.trim());
  } catch (error) {
    if (!signal.aborted) fail(error, translate);
  }
  if (!signal.aborted) find("translation").removeAttribute("aria-busy");
}

/** Return the languages of an answer; it names none if a text is in the target language already. */
function wayOf(found) {
  if (found.languages.length) return found.languages;
  return [{ code: target.value, name: nameOf(target.value) }];
}

async function copy() {
  try {
    await navigator.clipboard.writeText(translation.text);
    say("Copied.");
  } catch {
    fail({ message: "The browser does not allow copying. Select the text instead" });
  }
}

function wireText() {
  text.addEventListener("input", () => later(PAUSE));
  source.addEventListener("change", () => (offer(source.value, target.value), changedLanguages()));
  target.addEventListener("change", () => (offer(source.value, target.value), changedLanguages()));
  find("swap").addEventListener("click", swap);
  find("copy").addEventListener("click", copy);
  find("clear").addEventListener("click", () => {
    text.value = "";
    later(0);
    text.focus();
  });
  find("key-field").addEventListener("submit", (event) => {
    event.preventDefault(); // Enter sends the text, not the form
    later(0);
  });
  find("key").addEventListener("input", () => {
    store(KEY, key(), "sessionStorage");
    later(PAUSE);
  });
}

/** Ask the server what it translates; while it loads, again and again. */
async function begin() {
  try {
    const paths = ["languages", "frontend/settings", "v1/limits"];
    const [known, settings, most] = await Promise.all(paths.map((path) => ask(path)));
    languages = known;
    limits = most;
    keyRequired = settings.keyRequired;
    find("key-field").hidden = !keyRequired;
    find("key").value = stored(KEY, "sessionStorage") ?? "";
    const [from, to] = storedPair(stored(LANGUAGES)) ?? ["auto", settings.language.target.code];
    offer(from, to);
    wireText();
    const pair = () => ({ source: source.value, target: target.value });
    wireFiles({ formats: settings.supportedFilesFormat, mostBytes: limits.body_bytes, pair, key });
    say("");
    later(0); // the browser may have kept a text
  } catch (error) {
    fail({ message: error.message, seconds: error.seconds, mayPass: true }, begin);
  }
}

wireTheme(find("theme"));
find("again").addEventListener("click", () => {
  const again = retry;
  say("Trying again…");
  text.focus(); // the button is gone
  again();
});
begin();

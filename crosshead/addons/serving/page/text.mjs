// Functions of texts and lists alone: no page, no network.

/**
 * Return the parts of a translation: the sentences, and the white space between them.
 *
 * Each part has its text, and the number of its sentence, or null between sentences. If a sentence
 * is not found in its place, the rest of the text is one part without a number.
 */
export function located(text, sentences) {
  const parts = [];
  let position = 0;
  for (const [number, sentence] of sentences.entries()) {
    const start = text.indexOf(sentence, position);
    if (start < 0) break;
    if (start > position) parts.push({ text: text.slice(position, start), sentence: null });
    if (sentence) parts.push({ text: sentence, sentence: number });
    position = start + sentence.length;
  }
  if (position < text.length) parts.push({ text: text.slice(position), sentence: null });
  return parts;
}

/** Return the languages that have another language as their target. */
export function sources(languages) {
  return languages.filter((each) => each.targets.some((code) => code !== each.code));
}

/** Return the languages that a source can be translated to, for "auto" those of all sources. */
export function targets(languages, source) {
  return languages.filter((target) =>
    languages.some(
      (each) =>
        (source === "auto" || each.code === source) &&
        each.code !== target.code &&
        each.targets.includes(target.code),
    ),
  );
}

/** Return whether a source language can be translated to another one. */
export function isPair(languages, source, target) {
  return source !== target && targets(languages, source).some((each) => each.code === target);
}

/** Return a stored pair of languages, or null if there is none or it is damaged. */
export function storedPair(json) {
  try {
    const found = JSON.parse(json);
    const isPair = Array.isArray(found) && found.length === 2 && found.every((code) => typeof code === "string");
    return isPair ? found : null;
  } catch {
    return null;
  }
}

/** Return a message as a sentence: a capital letter first, a full stop last. */
export function asSentence(message) {
  const text = String(message).trim() || "Something went wrong";
  return text[0].toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}

/** Return the seconds of a Retry-After header, between 1 and 60, or null without one. */
export function retrySeconds(header) {
  if (header === null || !/^\d+$/.test(header.trim())) return null;
  return Math.min(60, Math.max(1, Number(header)));
}

/** Return how many characters a text has, as the server counts them: by code points. */
export function characters(text) {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/** Return the words for a count of characters and its limit; 0 is no limit. */
export function countWords(count, limit) {
  if (limit) return `${count} of ${limit} characters`;
  return count === 1 ? "1 character" : `${count} characters`;
}

/** Return a size in bytes as people read it. */
export function sizeWords(bytes) {
  if (bytes >= 2 ** 20) return `${Math.round((bytes / 2 ** 20) * 10) / 10} MiB`;
  return bytes >= 1024 ? `${Math.round(bytes / 1024)} KiB` : `${bytes} bytes`;
}

/** Return the last part of an address: the server may be known by another name than its own. */
export function lastPart(address) {
  return address.slice(address.lastIndexOf("/") + 1);
}

/** Return the words about the way of a translation: the detected language, languages between. */
export function wayWords(languages, detected) {
  const names = languages.map((each) => each.name);
  const words = [];
  if (detected) words.push(`Detected language: ${detected}.`);
  if (names.length > 2) words.push(`Translated through ${names.slice(1, -1).join(", ")}.`);
  return words.join(" ");
}

const DOUBTS = {
  script: "its letters are unlike the training data",
  words: "its words are unlike the training data",
  pieces: "its text is unlike the training data",
  empty: "it has no translation",
  repetition: "the translation repeats itself",
  length: "the translation has an unusual length",
  copy: "the translation is a copy",
  number: "the translation lacks a number",
};

/** Return that the sentences are translated, and what is doubtful about the first doubtful one. */
export function doneWords(sentences) {
  const doubtful = sentences.filter((each) => each.translations[0].flags.length);
  if (!doubtful.length) return "Translated.";
  const [{ source, translations }] = doubtful;
  const beginning = source.length > 40 ? `${source.slice(0, 39)}…` : source;
  const more = doubtful.length > 1 ? `, and ${doubtful.length - 1} more` : "";
  return `Translated. Check “${beginning}”: ${DOUBTS[translations[0].flags[0]] ?? "it is doubtful"}${more}.`;
}

/** Return different texts, without empty ones, in order. */
export function distinct(texts) {
  return [...new Set(texts)].filter((each) => each.trim());
}

function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

/** Return the command of an example request of an operation in OpenAPI. */
export function command(address, method, path, operation) {
  const [kind, { schema } = {}] = Object.entries(operation.requestBody?.content ?? {}).at(-1) ?? [];
  const described = [
    ...operation.parameters.map((each) => [each.name, each.schema]),
    ...Object.entries(schema?.properties ?? {}),
  ];
  const values = described.filter(([, each]) => each.examples).map(([name, each]) => [name, each.examples[0]]);
  const words = ["curl", "-s", address + path.slice(1)];
  if (operation.security) words.push("-H", "Authorization: Bearer KEY");
  if (method === "get" && values.length) words[2] += `?${new URLSearchParams(values)}`;
  else if (kind === "application/json") words.push("--json", JSON.stringify(Object.fromEntries(values)));
  else {
    const option = kind === "multipart/form-data" ? "-F" : "-d";
    words.push(...values.flatMap(([name, value]) => [option, `${name}=${value}`]));
  }
  return words.map(quoted).join(" ");
}

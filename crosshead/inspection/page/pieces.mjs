// The pieces of a text: what a model reads of it, byte-pair encoding (Sennrich et al. 2016), and the way back.

const SPACE = "\u2581";
const RESERVED = ["\x1a", SPACE, "\u2585"]; // an escape is U+001A and the place in this list
const UNKNOWN = 3;
const BYTE = /^<0x([0-9A-F]{2})>$/;

/** Return the tokenizer of a form: its pieces, in the order of their ids, and those that are never split. */
export function tokenizer({ pieces, special }) {
  const [own, bytes] = [new Map(), new Map()];
  for (const [id, piece] of pieces.entries()) {
    if (BYTE.test(piece)) bytes.set(parseInt(BYTE.exec(piece)[1], 16), id);
    else if (id > UNKNOWN && !special.includes(piece)) own.set(piece, id);
  }
  const encoder = new TextEncoder();
  const spelled = (piece) =>
    own.has(piece) ? [own.get(piece)] : Array.from(encoder.encode(piece), (each) => bytes.get(each));
  const longestFirst = special.toSorted((a, b) => b.length - a.length);
  const escaped = longestFirst.map((each) => each.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  const splitter = new RegExp(`(${escaped.join("|") || "(?!)"})`, "u");
  const idsOf = (word) => (special.includes(word) ? [pieces.indexOf(word)] : merged(word, own).flatMap(spelled));
  const known = new Map();
  const encodedWord = (word) => {
    if (!known.has(word)) known.set(word, idsOf(word));
    return known.get(word);
  };
  const encode = (text) => {
    if (!text) return [];
    const written = text.replace(/[\x1a\u2581\u2585]/g, (each) => `\x1a${RESERVED.indexOf(each)}`);
    const parts = (SPACE + written.replaceAll(" ", SPACE)).split(splitter);
    const words = parts.flatMap((part, i) => (i % 2 ? [part] : (part.match(/\u2581?[^\u2581]+|\u2581/gu) ?? [])));
    return words.flatMap(encodedWord);
  };
  const spelling = pieces.map((piece, id) => {
    if (id < UNKNOWN) return [];
    return BYTE.test(piece) ? [parseInt(BYTE.exec(piece)[1], 16)] : [...encoder.encode(piece.replaceAll(SPACE, " "))];
  });
  const decode = (ids) => {
    const bytesOfIds = Uint8Array.from(ids.flatMap((id) => spelling[id]));
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytesOfIds);
    return text.replace(/\x1a([0-2])/g, (_, place) => RESERVED[place]).replace(/^ /, "");
  };
  return { encode, decode, pieces: (ids) => ids.map((id) => pieces[id]) };
}

/** Return the pieces of a word: neighbours are merged, the piece with the smallest id first, the leftmost of equals. */
function merged(word, ids) {
  const symbols = Array.from(word);
  const rank = (i) => (i + 1 < symbols.length ? (ids.get(symbols[i] + symbols[i + 1]) ?? Infinity) : Infinity);
  const ranks = symbols.map((_, i) => rank(i)); // of each symbol with the next one
  for (;;) {
    let best = 0;
    for (let i = 1; i < ranks.length; i += 1) if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] === Infinity) return symbols;
    symbols.splice(best, 2, symbols[best] + symbols[best + 1]);
    ranks.splice(best + 1, 1);
    ranks[best] = rank(best);
    if (best) ranks[best - 1] = rank(best - 1);
  }
}

const LEFT_OUT = new RegExp(
  "[\\u00ad\\u034f\\u061c\\u115f\\u1160\\u180b-\\u180f\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u2064" +
    "\\u2066-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff9-\\ufffb\\u{e0000}-\\u{e01ef}]" +
    "|(?<![\\p{L}\\p{M}])[\\u200c\\u200d]+|(?<=[" +
    "\\p{Script=Latin}\\p{Script=Greek}\\p{Script=Cyrillic}\\p{Script=Han}\\p{Script=Hangul}\\p{Script=Hiragana}" +
    "\\p{Script=Katakana}])[\\u200c\\u200d]+",
  "gu",
);

/** Return a text as a person sees it: all white space is spaces, and marks that change no letter are left out. */
export function visible(text) {
  return text.replace(LEFT_OUT, "").replace(/[\s\p{Cc}]+/gu, (run) => (/[^ ]/.test(run) ? " " : run));
}

const BLANK = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+";
const ENDS = new RegExp(`^${BLANK}|${BLANK}$`, "g");

/** Return a text without the white space around it. */
function stripped(text) {
  return text.replace(ENDS, "");
}

// All that may be a tag, an address, a placeholder, a name or a file. The server takes them out of a text before the
// model reads it, and puts them into the translation.
const MARKS = new RegExp(
  "[\\u{100000}-\\u{10ffff}<{@]|:\\/\\/|[wW]{3}\\.|__|\\$[^\\s$]+\\$|%[-+#.]*[\\p{L}\\p{N}%(]|#[^\\s\\p{P}\\p{Nd}]" +
    "|\\.(?:pdf|doc|xls|ppt|odt|txt|csv|json|xml|htm|jpe?g|png|gif|svg|mp[34]|zip|exe|py|js)",
  "u",
);
// Emoji and other signs: those of several characters, those that this JavaScript does not know, and those that the
// server takes out of a text if the tokenizer lacks them.
const SPECIAL_SIGNS = new RegExp(
  "[\\p{Emoji_Modifier}\\p{Regional_Indicator}\\p{Cn}\\ufe0e\\ufe0f\\u20e3\\u{e0020}-\\u{e007f}]" +
    "|\\u200d\\p{Extended_Pictographic}",
  "u",
);
const SIGNS = /(?!\p{ASCII})[\p{So}\p{Sm}\p{Extended_Pictographic}\u2022\u2023]/gu;

/** Return the ids of a text as the server gives them to the model, or throw an error if only the server can. */
export function readIds(text, { encode, pieces }, { longest, most, tag }) {
  const refused = (what) => new Error(`this saved page cannot read ${what}; open the model with crosshead look`);
  const core = stripped(text);
  const seen = text.replace(core, () => visible(core));
  if (!stripped(seen)) throw new Error("the text is empty: there is nothing to look at; give some words");
  if (/\p{Surrogate}/u.test(text)) throw refused("half a character");
  const isUnread = (sign) => pieces(encode(sign)).some((each) => BYTE.test(each));
  const both = `${core} ${seen}`;
  const sign = both.match(MARKS) ?? both.match(SPECIAL_SIGNS) ?? both.match(SIGNS)?.filter(isUnread);
  if (sign?.length) throw refused(`tags, addresses, placeholders and signs such as ${sign[0]}`);
  const inCase = (each) => {
    const known = inKnownCase(each, (form) => encode(form).length, refused);
    return tag ? `${tag} ${stripped(known)}` : known;
  };
  const count = encode(inCase(stripped(seen))).length;
  if (count > most) throw refused(`a text of ${count} pieces, more than ${most}`);
  // The program splits such a text into sentences.
  if (count > longest && ENDED.test(core)) throw refused("a long text with a sign that may end a sentence within it");
  return encode(stripped(visible(inCase(seen))));
}

const ENDED = /\p{Sentence_Terminal}\P{L}*\p{L}/u;
const LETTERS = "[\\p{L}\\p{Nl}\\p{No}]+";
const WORD = new RegExp(`(?<![\\p{L}\\p{N}_])${LETTERS}(?:['\u2019]${LETTERS})*(?![\\p{L}\\p{N}_])`, "gu");
const isUpper = (text) => /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);
const isLower = (text) => /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);

function isTitle(text) {
  const words = text.match(WORD) ?? [];
  const fits = (word) => {
    const [first, ...rest] = Array.from(word);
    const isSmall = rest.join("") === rest.join("").toLowerCase();
    return (isUpper(first) && isSmall) || (isLower(word) && rest.length < 3);
  };
  return words.length >= 4 && words.every(fits);
}

/**
 * Return a text in one case, such as all capitals, with each word in the case that costs the fewest pieces.
 *
 * Other texts stay as they are (after Lita et al. 2003, "tRuEcasIng").
 */
function inKnownCase(text, cost, refused) {
  const hasCapitals = (isUpper(text) && Array.from(text).filter(isUpper).length > 1) || isTitle(text);
  if (!hasCapitals && !isLower(text)) return text;
  const digraph = text.match(/[\u01c4-\u01cc\u01f1-\u01f3\u1f80-\u1fff]/u); // JavaScript has no title case for these
  if (digraph) throw refused(`a text in one case with the letter ${digraph[0]}`);
  const cheapest = (forms) => forms.reduce((best, each) => (cost(each) < cost(best) ? each : best));
  let end = 0;
  const known = (word, at) => {
    const between = (end ? "" : ".") + text.slice(end, at);
    end = at + word.length;
    const small = word.toLowerCase();
    const [initial, rest] = [Array.from(word)[0], Array.from(small).slice(1).join("")];
    const head = /[\u10d0-\u10ff]/.test(initial) ? initial : initial.toUpperCase(); // Georgian sentences have no capital
    const begins = hasCapitals && /[.!?][^\p{L}\p{N}_]*$/u.test(between);
    const forms = begins ? [head + rest, word] : [small, head + rest, word];
    return cheapest(forms.filter((each) => Array.from(each).length === Array.from(word).length));
  };
  return cheapest([text, text.replace(WORD, known)]);
}

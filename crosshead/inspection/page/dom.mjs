// Elements of the page. Text goes in as text nodes alone, so nothing of a model becomes markup.

const SVG = "http://www.w3.org/2000/svg";
const MATH = "http://www.w3.org/1998/Math/MathML";

/** Give an element attributes and children, as `el` does, and return the element. */
export function filled(element, attributes, children = []) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat());
  return element;
}

/** Return an element of HTML; an attribute `onclick` is a listener, and `--name` a property of its style. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Return an element of SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Return an element of MathML. */
export function math(tag, ...children) {
  return filled(document.createElementNS(MATH, tag), {}, children);
}

/** Return a piece as people see it: a space is ␣, and a character that cannot be seen is its number. */
export function shown(piece) {
  const seen = piece.replace(/[ \u2581]/g, "␣").replaceAll("\n", "\\n");
  return seen.replace(/\p{C}/gu, (each) => `\\u{${each.codePointAt(0).toString(16)}}`) || "(empty)";
}

/** Return a piece as people see it, cut off after some letters. */
export function clipped(piece, most = 16) {
  const letters = [...shown(piece)];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : letters.join("");
}

/** Return a number with some digits after the point, and a true minus sign. */
export function digits(number, count = 3) {
  if (!Number.isFinite(number)) return number < 0 ? "−∞" : "∞";
  const text = number.toFixed(count);
  return text.startsWith("-") ? (Number(text) ? `−${text.slice(1)}` : text.slice(1)) : text;
}

/** Return a choice with a label; `options` are pairs of value and words. */
export function choice(label, options, value, chosen) {
  const select = el(
    "select",
    { onchange: () => chosen(select.value) },
    options.map(([each, words]) => el("option", { value: each, selected: String(each) === String(value) }, words)),
  );
  return el("label", { class: "inline" }, label, select);
}

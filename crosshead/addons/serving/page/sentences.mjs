// The translation as sentences, each of which opens a menu of other translations.

import { distinct, located } from "./text.mjs";

/**
 * The box of the translation and its menu.
 *
 * The sentences are one stop of the Tab key; the arrow keys go from one to the next. `others` is
 * asked for the translations of a source sentence, and `changed` is called after a choice.
 */
export class Sentences {
  constructor(box, menu, { others, changed, failed }) {
    Object.assign(this, { box, menu, others, changed, failed });
    this.chosen = new Map(); // the chosen translation by the source sentence
    this.open = null; // the sentence whose menu is open
    this.pending = null; // ends the request for a menu
    box.addEventListener("click", (event) => this.#openFrom(event.target));
    box.addEventListener("keydown", (event) => this.#moved(event));
    menu.addEventListener("keydown", (event) => this.#movedInMenu(event));
    menu.addEventListener("focusout", (event) => {
      const to = event.relatedTarget;
      if (!menu.contains(to) && to !== this.open) this.close(false);
    });
  }

  /** Show a translation. Sentences are buttons if there may be others. */
  show(found, language, hasOthers) {
    this.close(false);
    const focused = this.box.contains(document.activeElement);
    this.box.lang = language;
    const sentences = found ? found.sentences : [];
    const parts = found ? located(found.text, sentences.map((each) => each.translations[0].text)) : [];
    this.box.replaceChildren(...parts.map((part) => this.#element(part, sentences, hasOthers)));
    const first = this.#all()[0];
    if (first) {
      first.tabIndex = 0;
      if (focused) first.focus();
    }
  }

  /** The shown translation, with what was chosen. */
  get text() {
    return this.box.textContent;
  }

  /** Forget all choices: they belong to a pair of languages. */
  forget() {
    this.chosen.clear();
  }

  /** Close the menu, and go back to its sentence if `back`. */
  close(back) {
    const sentence = this.open;
    this.pending?.abort();
    this.open = this.pending = null;
    this.menu.hidden = true;
    this.menu.replaceChildren();
    sentence?.setAttribute("aria-expanded", "false");
    if (back) sentence?.focus();
  }

  #all() {
    return [...this.box.querySelectorAll(".sentence")];
  }

  #element(part, sentences, hasOthers) {
    if (part.sentence === null) return document.createTextNode(part.text);
    const source = sentences[part.sentence].source;
    const text = this.chosen.get(source) ?? part.text;
    if (!hasOthers) return document.createTextNode(text);
    const element = document.createElement("span");
    element.className = sentences[part.sentence].translations[0].flags.length ? "sentence doubtful" : "sentence";
    element.textContent = text;
    element.tabIndex = -1;
    element.dataset.source = source;
    for (const [name, value] of [["role", "button"], ["aria-haspopup", "menu"], ["aria-expanded", "false"]]) {
      element.setAttribute(name, value);
    }
    return element;
  }

  async #openFrom(target) {
    const sentence = target.closest(".sentence");
    if (!sentence || String(getSelection())) return; // a selection with the mouse is no click
    const again = sentence === this.open;
    this.close(false);
    if (again) return;
    this.#makeStop(sentence);
    this.open = sentence;
    this.pending = new AbortController();
    const { signal } = this.pending;
    sentence.setAttribute("aria-expanded", "true");
    try {
      const texts = await this.others(sentence.dataset.source, signal);
      if (!signal.aborted) this.#showMenu(sentence, distinct([...texts, sentence.textContent]));
    } catch (error) {
      if (signal.aborted) return;
      this.close(true);
      this.failed(error);
    }
  }

  #showMenu(sentence, texts) {
    const items = texts.map((text) => {
      const item = document.createElement("button");
      item.type = "button";
      item.textContent = text;
      item.setAttribute("role", "menuitemradio");
      item.setAttribute("aria-checked", String(text === sentence.textContent));
      item.tabIndex = -1;
      item.addEventListener("click", () => this.#choose(sentence, text));
      return item;
    });
    this.menu.lang = this.box.lang;
    this.menu.replaceChildren(...items);
    this.menu.hidden = false;
    const rows = sentence.getClientRects();
    const outer = this.menu.offsetParent.getBoundingClientRect();
    this.menu.style.top = `${rows[rows.length - 1].bottom - outer.top + 4}px`;
    (items.find((item) => item.getAttribute("aria-checked") === "true") ?? items[0]).focus();
    this.menu.scrollIntoView({ block: "nearest" });
  }

  #choose(sentence, text) {
    this.chosen.set(sentence.dataset.source, text);
    sentence.textContent = text;
    this.close(true);
    this.changed();
  }

  #makeStop(sentence) {
    for (const each of this.#all()) each.tabIndex = each === sentence ? 0 : -1;
    sentence.focus();
  }

  #moved(event) {
    const all = this.#all();
    const at = all.indexOf(event.target);
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const steps = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 };
    if (event.key === "Enter" || event.key === " ") this.#openFrom(event.target);
    else if (event.key === "Escape" && this.open) this.close(true);
    else if (event.key in steps) this.#makeStop(all[Math.min(all.length - 1, Math.max(0, steps[event.key]))]);
    else return;
    event.preventDefault();
  }

  #movedInMenu(event) {
    const items = [...this.menu.children];
    const at = items.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (next !== undefined) items[(next + items.length) % items.length].focus();
    else if (event.key === "Escape") this.close(true);
    else if (event.key === "Tab") return this.close(true); // and on from the sentence
    else return;
    event.preventDefault();
  }
}

// A file: chosen or dropped, sent, translated, and downloaded.

import { sendForm } from "./server.mjs";
import { asSentence, lastPart, sizeWords } from "./text.mjs";

const find = (id) => document.getElementById(id);

/** Wire the section of files; `pair` gives the chosen languages, `key` the API key. */
export function wireFiles({ formats, mostBytes, pair, key }) {
  const section = find("file-section"), input = find("file"), progress = find("progress");
  const send = find("send"), cancel = find("cancel"), link = find("download");
  const status = find("file-status"), failure = find("file-error");
  let pending = null;

  section.hidden = false;
  input.accept = formats.join(",");
  find("file-hint").textContent = `${formats.join(", ")}; at most ${sizeWords(mostBytes)}.`;

  function show({ words = "", error = "", isBusy = false }) {
    status.textContent = words;
    failure.textContent = error;
    progress.hidden = cancel.hidden = !isBusy;
    send.disabled = isBusy || !input.files.length;
  }

  function sent(share) {
    if (share < 1) {
      progress.value = share;
      return;
    }
    progress.removeAttribute("value"); // sent; how long the translation takes is not known
    status.textContent = "Translating…";
  }

  /** Forget the file before: its link, and its translation under way. */
  function forget() {
    pending?.abort();
    pending = null;
    link.hidden = true;
  }

  async function translate() {
    const file = input.files[0];
    forget();
    if (file.size > mostBytes) {
      show({ error: `${file.name} has ${sizeWords(file.size)}, and the server takes at most ${sizeWords(mostBytes)}.` });
      return;
    }
    const form = new FormData();
    for (const [name, value] of Object.entries({ ...pair(), file })) form.append(name, value);
    const own = (pending = new AbortController());
    progress.value = 0;
    show({ words: `Sending ${file.name}…`, isBusy: true });
    cancel.focus();
    try {
      const found = await sendForm("translate_file", form, { key: key(), signal: own.signal, onSent: sent });
      if (pending !== own) return;
      const part = lastPart(found.translatedFileUrl);
      link.href = `download_file/${part}`;
      link.textContent = `Download ${decodeURIComponent(part).replace(/^[0-9a-f]+\./, "")}`;
      link.hidden = false;
      show({ words: `${file.name} is translated.` });
      link.focus();
    } catch (error) {
      if (pending !== own) return; // another file was chosen meanwhile
      if (error.name === "AbortError") show({ words: "Cancelled." });
      else show({ error: asSentence(error.message) });
      send.focus();
    }
  }

  send.addEventListener("click", translate);
  cancel.addEventListener("click", () => pending?.abort());
  input.addEventListener("change", () => {
    forget();
    show({});
  });
  show({}); // the browser may have kept a file
  section.addEventListener("dragover", (event) => event.preventDefault());
  section.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length && cancel.hidden) {
      input.files = event.dataTransfer.files;
      translate();
    }
  });
}

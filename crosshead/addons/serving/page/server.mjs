// Requests to the server that the page came from. Addresses are relative, so a proxy may add a path.

import { retrySeconds } from "./text.mjs";

/**
 * A request that failed: its message, the seconds after which to ask again, or null, and whether the
 * same request may succeed later.
 */
export class ServerError extends Error {
  constructor(message, { seconds = null, mayPass = false } = {}) {
    super(message);
    Object.assign(this, { seconds, mayPass });
  }
}

const unreachable = () => new ServerError("The server cannot be reached. Check the connection", { mayPass: true });

/** Return the JSON of an answer; `body` makes it a POST, `signal` ends it early. */
export async function ask(path, { body, key, signal } = {}) {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const request = { headers, signal, cache: "no-store" };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    Object.assign(request, { method: "POST", body: JSON.stringify(body) });
  }
  let answer;
  try {
    answer = await fetch(path, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable();
  }
  const found = await answer.json().catch(() => null);
  if (answer.ok && found !== null) return found;
  throw errorOf(answer.status, found, answer.headers.get("Retry-After"));
}

/**
 * Send a form with a file, and return the JSON of the answer.
 *
 * `fetch` does not tell how much of a body is sent, so this is an XMLHttpRequest. `onSent` is
 * called with the sent share, from 0 to 1.
 */
export function sendForm(path, form, { key, signal, onSent }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    if (key) request.setRequestHeader("Authorization", `Bearer ${key}`);
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) onSent(event.loaded / event.total);
    });
    request.upload.addEventListener("load", () => onSent(1));
    request.addEventListener("load", () => {
      if (request.status === 200 && request.response) resolve(request.response);
      else reject(errorOf(request.status, request.response, request.getResponseHeader("Retry-After")));
    });
    request.addEventListener("error", () => reject(unreachable()));
    request.addEventListener("abort", () => reject(new DOMException("cancelled", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

function errorOf(status, found, after) {
  const message = typeof found?.error === "string" ? found.error : `The server answered ${status}`;
  const seconds = status === 429 || status === 503 ? retrySeconds(after) : null;
  return new ServerError(message, { seconds, mayPass: status === 429 || status >= 500 });
}

// Where the answers come from: the server of the page, or the page itself if it was saved.

import { opened } from "./tensor.mjs";

async function answerOf(response) {
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

/** Return the source of a page that a server has sent. */
export async function server() {
  const { models, text } = await answerOf(await fetch("models"));
  const ask = async (request) => {
    const headers = { "Content-Type": "application/json" };
    return answerOf(await fetch("ask", { method: "POST", headers, body: JSON.stringify(request) }));
  };
  return { models, text, ask, has: () => true, live: true };
}

/** Return a request without what has its default, as text that equal requests share. */
export function key({ model = 0, edits = [], ...request }) {
  const rest = Object.entries(request).filter(([, value]) => value !== undefined && value !== null);
  return JSON.stringify([model, edits, ...rest.sort()]);
}

/** Return the source of a saved page: the answers that it holds. */
export function recording({ models, text, answers }) {
  const known = new Map(answers.map(({ request, answer }) => [key(request), answer]));
  const ask = async (request) => {
    const answer = known.get(key(request));
    if (!answer) throw new Error("this saved page holds no answer to that; open the model with crosshead look");
    return answer;
  };
  return { models, text, ask, has: (request) => known.has(key(request)), live: false };
}

/** Return a source that keeps the latest answers, with tensors unpacked. */
export function remembering(source, most = 40) {
  const kept = new Map();
  const ask = (request) => {
    const name = key(request);
    if (!kept.has(name)) {
      const answer = source.ask(request).then((each) => (each.attention ? opened(each) : each));
      answer.catch(() => kept.delete(name));
      kept.set(name, answer);
      if (kept.size > most) kept.delete(kept.keys().next().value);
    }
    return kept.get(name);
  };
  return { ...source, ask };
}

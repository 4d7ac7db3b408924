// Answer the lines of standard input, as a saved page does: first the page, then one request or one text a line.

import { createInterface } from "node:readline";
import { computed } from "../../../crosshead/inspection/page/computed.mjs";
import { readIds, tokenizer } from "../../../crosshead/inspection/page/pieces.mjs";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const saved = JSON.parse((await lines.next()).value);
const [source, [form]] = [computed(saved), saved.computing];
const own = tokenizer(form.source);

async function answerTo(asked) {
  if (typeof asked !== "string") return source.ask(asked);
  const ids = readIds(asked, own, form);
  return { ids, pieces: own.pieces(ids), text: own.decode(ids) };
}

for await (const line of lines) {
  const answer = await answerTo(JSON.parse(line)).catch((error) => ({ error: error.message }));
  console.log(JSON.stringify(answer, (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value)));
}

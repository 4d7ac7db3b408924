// The documentation: a section for each operation of the server, from its description in OpenAPI.

import { ask } from "./server.mjs";
import { command } from "./text.mjs";

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Return a sentence as nodes; what stands between backquotes is code. */
function prose(text) {
  return text.split("`").map((part, place) => (place % 2 ? element("code", {}, part) : part));
}

function table(caption, head, rows) {
  if (!rows.length) return "";
  const heads = [head, "meaning"].map((each) => element("th", { scope: "col" }, each));
  const body = rows.map(([name, text]) =>
    element("tr", {},
      element("th", { scope: "row" }, element("code", {}, name)), element("td", {}, ...prose(text))),
  );
  return element("table", {},
    element("caption", { class: "unseen" }, caption),
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...body));
}

function meaning(schema, needed) {
  const choices = schema.enum?.map((each) => `\`${each}\``).join(", ");
  return [schema.description, choices && `One of ${choices}.`, needed && "Needed."].filter(Boolean).join(" ");
}

/** Return the values of an operation, each with its meaning. */
function values({ parameters, requestBody }) {
  const { properties = {}, required = [] } = Object.values(requestBody?.content ?? {})[0]?.schema ?? {};
  return [
    ...parameters.map((each) => [each.name, meaning(each.schema, each.required)]),
    ...Object.entries(properties).map(([name, each]) => [name, meaning(each, required.includes(name))]),
  ];
}

function section({ id, name, method, path, operation }) {
  const told = operation.summary + (operation.security ? " It needs a key, if the server has keys." : "");
  const answers = Object.entries(operation.responses).map(([status, each]) => [status, each.description]);
  const parts = [
    element("h3", { id }, element("code", {}, name)),
    element("p", {}, ...prose(told)),
    table(`Values of ${name}`, "value", values(operation)),
    table(`Answers of ${name}`, "status", answers),
  ];
  if (!path.includes("{")) {
    const example = command(new URL(".", location.href).href, method, path, operation);
    const role = { class: "wide", role: "region", tabindex: "0", "aria-label": `Example of ${name}` };
    parts.push(element("pre", role, element("code", {}, example)));
  }
  return parts;
}

function show({ info, paths, tags }) {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      id: `${method}${path}`.replace(/\W+/g, "-").replace(/-$/, ""),
      name: `${method.toUpperCase()} ${path}`,
      method, path, operation,
    })),
  );
  const groups = tags.map((tag) => [tag, operations.filter((each) => each.operation.tags[0] === tag.name)]);
  const links = groups.map(([tag, some]) => {
    const items = some.map(({ id, name }) => element("li", {}, element("a", { href: `#${id}` }, name)));
    return element("li", {}, tag.name, element("ul", {}, ...items));
  });
  const sections = groups.map(([tag, some]) =>
    element("section", {},
      element("h2", {}, tag.name), element("p", {}, ...prose(tag.description)), ...some.flatMap(section)),
  );
  document.querySelector("#errors").append(...prose(info.description));
  document.querySelector("main").append(
    element("nav", { "aria-label": "Paths" }, element("ul", {}, ...links)), ...sections);
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

ask("spec").then(show, (error) => document.querySelector("#errors").append(`${error.message}.`));

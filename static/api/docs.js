// Lists the operations of /api/openapi.json, each with a form, and shows what was answered.
// Everything is put on the page as text, never as markup; the token stays in memory.

const EXAMPLES = {
  NewMessage: { body: "hello", tag: "created", keys: ["order-42"], delay_level: 3 },
  NewMessages: { messages: [{ body: "one" }, { body: "two", delay_level: 1 }] },
};

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function exampleOf(operation) {
  const reference = operation.requestBody?.content["application/json"].schema.$ref;
  return reference === undefined ? null : EXAMPLES[reference.split("/").pop()] ?? {};
}

function addressOf(path, parameters, form) {
  const query = new URLSearchParams();
  let address = path;
  for (const { name, in: place } of parameters) {
    const value = form.elements[name].value.trim();
    if (place === "path") address = address.replace(`{${name}}`, encodeURIComponent(value));
    else if (value !== "") query.set(name, value);
  }
  return query.size > 0 ? `${address}?${query}` : address;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function run(method, path, operation, form, output) {
  const headers = { Authorization: `Bearer ${document.getElementById("token").value.trim()}` };
  const options = { method, headers, credentials: "omit" };
  if (operation.requestBody !== undefined) {
    headers["Content-Type"] = "application/json";
    options.body = form.elements.body.value;
  }
  const began = performance.now();
  try {
    const response = await fetch(addressOf(path, operation.parameters, form), options);
    const text = await response.text();
    const spent = Math.round(performance.now() - began);
    const line = element("span", { class: response.ok ? "good" : "bad" }, `${response.status} ${response.statusText}, ${spent} ms`);
    output.replaceChildren(line, element("pre", { tabindex: "0" }, pretty(text)));
  } catch (error) {
    output.replaceChildren(element("span", { class: "bad" }, `No answer: ${error.message}`));
  }
}

function formOf(method, path, operation, identity) {
  const form = element("form");
  for (const { name, required, description = "" } of operation.parameters) {
    const field = element("input", { id: `${identity}-${name}`, name, autocomplete: "off", spellcheck: "false" });
    if (required) field.required = true;
    form.append(element("label", { for: field.id }, required ? name : `${name} (${description || "optional"})`), field);
  }
  const example = exampleOf(operation);
  if (example !== null) {
    const body = element("textarea", { id: `${identity}-body`, name: "body", spellcheck: "false" });
    body.value = JSON.stringify(example, null, 2);
    form.append(element("label", { for: body.id }, "JSON body"), body);
  }
  const button = element("button", { type: "submit" }, "Send");
  const output = element("output", { "aria-live": "polite" });
  form.append(button, output);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    await run(method, path, operation, form, output);
    button.disabled = false;
  });
  return form;
}

function show(description) {
  const main = document.getElementById("operations");
  const shown = [];
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [name, operation] of Object.entries(methods)) {
      const method = name.toUpperCase();
      const summary = element("summary", {},
        element("span", { class: "method" }, method),
        element("span", { class: "path" }, path),
        element("span", { class: "what" }, operation.summary));
      shown.push(element("details", {}, summary,
        formOf(method, path, operation, operation.operationId)));
    }
  }
  main.replaceChildren(...shown);
  main.removeAttribute("aria-busy");
  // what was above grew: whoever came for an error is taken there again
  if (location.hash.length > 1) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

const answer = await fetch("/api/openapi.json");
if (answer.ok) show(await answer.json());
else document.getElementById("operations").replaceChildren(element("p", { class: "bad" }, `The description cannot be read: ${answer.status}.`));

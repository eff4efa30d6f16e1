// Shows /openapi.json to a reader: every operation with its fields, its answer and a line for curl.

import { h as el, render } from "./vendor/preact.js";

const place = document.getElementById("operations");
place.replaceChildren();
const origin = location.origin;

function show(api) {
  const follow = (schema) => (schema?.$ref ? api.components.schemas[schema.$ref.split("/").pop()] : schema);
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const group = operation.tags?.[0] || "more";
      groups.set(group, [...(groups.get(group) || []), describe(path, method, operation, follow)]);
    }
  }
  render(
    [...groups].flatMap(([group, operations]) => [el("h2", {}, group), ...operations]),
    place,
  );
}

function describe(path, method, operation, follow) {
  const [type, content] = Object.entries(operation.requestBody?.content || {})[0] || [];
  const body = follow(content?.schema);
  const answer = Object.entries(operation.responses).find(([status]) => status.startsWith("2"));
  const answered = follow(answer?.[1].content?.["application/json"]?.schema);
  const fields = [
    ...(operation.parameters || [])
      .filter((field) => field.in === "path" || !type)
      .map((field) => [field.name, field.schema, field.description, field.required]),
    ...Object.entries(body?.properties || {}).map(([name, schema]) => [
      name,
      schema,
      schema.description,
      (body.required || []).includes(name),
    ]),
  ];
  return el(
    "details",
    { class: "operation" },
    el(
      "summary",
      {},
      el("span", { class: `method method-${method}` }, method.toUpperCase()),
      el("span", { class: "path" }, plain(path)),
      el("span", { class: "soft" }, operation.summary),
    ),
    el(
      "div",
      { class: "inside" },
      operation.description && el("p", {}, words(operation.description)),
      el("pre", { tabindex: "0" }, el("code", {}, curl(path, method, type, fields))),
      fields.length ? table("Fields", fields, follow) : null,
      answered?.properties
        ? table(
            "Answer",
            Object.entries(answered.properties).map(([name, schema]) => [name, schema, schema.description, true]),
            follow,
          )
        : null,
    ),
  );
}

/** Text whose `marked` parts are code. */
const words = (text) => text.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));

const plain = (path) => path.replace(":path}", "}");

function table(title, fields, follow) {
  const rows = fields.map(([name, schema, text, required]) =>
    el(
      "tr",
      {},
      el("td", {}, el("code", {}, name)),
      el("td", {}, kind(schema) + (required ? "" : ", optional")),
      el("td", {}, words(text || follow(schema)?.description || "")),
    ),
  );
  return el("div", {}, el("h3", {}, title), el("table", {}, el("tbody", {}, rows)));
}

function kind(schema) {
  if (!schema) return "";
  if (schema.anyOf)
    return schema.anyOf
      .filter((one) => one.type !== "null")
      .map(kind)
      .join(" or ");
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.type === "array") return `list of ${kind(schema.items) || "values"}`;
  if (schema.enum) return schema.enum.join(", ");
  return schema.contentMediaType || schema.format === "binary" ? "file" : schema.type || "";
}

function example(schema) {
  return schema?.examples?.[0] ?? schema?.default ?? (schema?.type === "array" ? [] : "...");
}

function curl(path, method, type, fields) {
  const url =
    origin + plain(path).replace(/\{(\w+)\}/, (_, name) => example(fields.find((field) => field[0] === name)?.[1]));
  if (type === "multipart/form-data") return `curl -F files=@photo.jpg -F k=3 -F candidates=unseen ${url}`;
  if (type) {
    const body = Object.fromEntries(
      fields.filter((field) => field[3]).map(([name, schema]) => [name, example(schema)]),
    );
    return `curl -X ${method.toUpperCase()} -H 'content-type: application/json' -d '${JSON.stringify(body)}' ${url}`;
  }
  const query = fields.find((field) => field[0] === "query") ? "?query=giraffe" : "";
  return `curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}'${url}${query}'`;
}

const answer = await fetch("/openapi.json").catch(() => null);
if (answer?.ok) show(await answer.json());
else render(el("p", { class: "problem" }, "The description could not be read. Is `unseen serve` still running?"), place);

/** Describes the routes: OpenAPI 3.1 from the same data that the server is built from, and an HTML page. */
import { VERSION } from "../../base/version.ts";
import type { Route } from "./route.ts";

export function openapi(routes: readonly Route[]): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "hoptime collector",
      version: VERSION,
      description: "Delay and loss between points of a network, from their records.",
    },
    components: {
      securitySchemes: { token: { type: "http", scheme: "bearer", description: "hoptime token add" } },
      schemas: { Problem: PROBLEM },
    },
    paths,
  };
}

const PROBLEM = {
  type: "object",
  required: ["error", "message"],
  properties: {
    error: { type: "string", description: "a word for programs" },
    message: { type: "string", description: "one line for people" },
    hint: { type: "string" },
    parameter: { type: "string" },
    expected: { type: "string" },
  },
};

function operation({
  needs,
  summary,
  query,
  body,
  bodyType,
  answer,
  response,
}: Route): Record<string, unknown> {
  const required = new Set((query?.required as string[] | undefined) ?? []);
  const parameters = Object.entries(query?.properties ?? {}).map(([name, schema]) => ({
    name,
    in: "query",
    required: required.has(name),
    description: (schema as { description?: string }).description ?? name,
    schema,
  }));
  const content = {
    ...(body ? { "application/json": { schema: body } } : {}),
    ...(bodyType ? { [bodyType]: { schema: { type: "string", format: "binary" } } } : {}),
  };
  return {
    summary,
    ...(needs === "none" ? {} : { security: [{ token: [needs] }], description: `Token scope: ${needs}.` }),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body || bodyType ? { requestBody: { required: true, content } } : {}),
    responses: {
      "200": {
        description: answer,
        ...(response ? { content: { "application/json": { schema: response } } } : {}),
      },
      default: {
        description: "refused, and why",
        content: { "application/json": { schema: { $ref: "#/components/schemas/Problem" } } },
      },
    },
  };
}

/** Plain HTML without script or style, so that the strictest policy allows it. */
export function docsPage(routes: readonly Route[]): string {
  const rows = routes.map(
    ({ method, path, needs, summary, query, answer }) =>
      `<tr><td><code>${method} ${htmlText(path)}</code></td><td>${htmlText(summary)}<br><small>${htmlText(answer)}</small></td><td>${htmlText(Object.keys(query?.properties ?? {}).join(", "))}</td><td>${needs}</td></tr>`,
  );
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>hoptime collector: HTTP API</title>
<h1>hoptime collector ${htmlText(VERSION)}: HTTP API</h1>
<p>For programs: <a href="docs/openapi.json">openapi.json</a>.</p>
<table border="1" cellpadding="6"><tr><th>route</th><th>what it is for</th><th>parameters</th><th>token scope</th></tr>
${rows.join("\n")}
</table></html>
`;
}

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
function htmlText(text: string): string {
  return text.replace(/[&<>"]/g, (c) => ENTITIES[c] ?? c);
}

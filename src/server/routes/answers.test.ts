/** Responses match their schemas: every field, and no others. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Check, Errors } from "typebox/schema";
import { afterAll, beforeAll, expect, it } from "vitest";
import { message, observedRecords, POINTS } from "../../../tests/support/collector-records.ts";
import { BATCH_TYPE } from "../../transport/batch.ts";
import { type RunningServer, startServer } from "../server.ts";

const folder = mkdtempSync(join(tmpdir(), "hoptime-answers-"));
let server: RunningServer;
let paths: Record<
  string,
  Record<string, { responses: Record<string, { content?: Record<string, { schema: object }> }> }>
>;

beforeAll(async () => {
  server = await startServer({
    ...{ data: join(folder, "data"), listen: "127.0.0.1:0", segments: [{ ...POINTS, label: "" }] },
  });
  const observed = await observedRecords(["lda", "lds:rows=2,columns=512", "flows"], { seconds: 12 });
  const response = await fetch(`${server.url}/v1/records`, {
    method: "POST",
    headers: { "content-type": BATCH_TYPE },
    body: new Uint8Array(message(observed.records)),
  });
  expect(response.status).toBe(200);
  await server.service.settle();
  ({ paths } = await ask<{ paths: typeof paths }>("/docs/openapi.json"));
  expectDescribed("/v1/records", "post", await response.json());
});

afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

async function ask<T>(path: string): Promise<T> {
  const response = await fetch(server.url + path);
  const body = (await response.json()) as T;
  expect(response.status, JSON.stringify(body)).toBe(200);
  return body;
}

/** Forbids additional properties in objects whose fields are listed. */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (schema === null || typeof schema !== "object") return schema;
  const out = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, strict(value)]));
  if (out["type"] === "object" && Object.keys((out["properties"] as object | undefined) ?? {}).length > 0)
    out["additionalProperties"] = false;
  return out;
}

function expectDescribed(path: string, method: string, body: unknown): void {
  const schema = paths[path]?.[method]?.responses["200"]?.content?.["application/json"]?.schema;
  expect(schema, `${path} is not described`).toBeDefined();
  const closed = strict(schema) as object;
  if (!Check(closed as never, body)) {
    const [, errors] = Errors(closed as never, body);
    throw new Error(`${path}: ${JSON.stringify(errors.slice(0, 5))}`);
  }
}

const pair = `from=${POINTS.from}&to=${POINTS.to}`;
for (const path of [
  "/v1/segments",
  "/v1/points",
  "/v1/health",
  "/v1/plan",
  "/v1/overview",
  `/v1/latency?${pair}&estimator=lda`,
  `/v1/latency?${pair}&estimator=lds&step=10s`,
  `/v1/flows?${pair}`,
  `/v1/flows?${pair}&group=host`,
  "/v1/paths",
  "/v1/incidents",
  "/v1/coverage",
  "/v1/alerts",
])
  it(`GET ${path}`, async () => {
    expectDescribed(path.split("?")[0] ?? "", "get", await ask(path));
  });

it("GET /v1/flow, and where it goes", async () => {
  const { flows } = await ask<{ flows: { flow: string }[] }>(`/v1/flows?${pair}`);
  const flow = encodeURIComponent(flows[0]?.flow ?? "");
  expectDescribed("/v1/flow", "get", await ask(`/v1/flow?${pair}&flow=${flow}`));
  expectDescribed("/v1/flow/segments", "get", await ask(`/v1/flow/segments?flow=${flow}`));
});

it("a field that is not described is found", () => {
  expect(() => expectDescribed("/v1/segments", "get", { segments: [], more: 1 })).toThrow(/more|additional/i);
});

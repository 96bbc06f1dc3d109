/** Metrics pushed as OTLP to a test server, which checks what it receives. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { message, observedRecords, POINTS } from "../../tests/support/collector-records.ts";
import { otlpName } from "./otlp.ts";
import { startServer } from "./server.ts";

interface DataPoint {
  attributes: { key: string; value: { stringValue: string } }[];
  startTimeUnixNano?: string;
  timeUnixNano: string;
  asDouble: number;
}
interface Metric {
  name: string;
  unit: string;
  gauge?: { dataPoints: DataPoint[] };
  sum?: { aggregationTemporality: number; isMonotonic: boolean; dataPoints: DataPoint[] };
}
interface Pushed {
  resourceMetrics: {
    resource: { attributes: DataPoint["attributes"] };
    scopeMetrics: { metrics: Metric[] }[];
  }[];
}

it("says what /metrics says, in OpenTelemetry's names, types and units; failures are counted and logged once", async () => {
  const got: { type: string | undefined; body: Pushed }[] = [];
  let status = 200;
  const receiver = createServer((request, response) => {
    let text = "";
    request.on("data", (d: Buffer) => {
      text += d.toString();
    });
    request.on("end", () => {
      got.push({ type: request.headers["content-type"], body: JSON.parse(text) as Pushed });
      response.writeHead(status).end(status === 200 ? "{}" : "");
    });
  });
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/v1/metrics`;
  const data = mkdtempSync(join(tmpdir(), "hoptime-otlp-"));
  const log: string[] = [];
  const server = await startServer({
    ...{ data, listen: "127.0.0.1:0", segments: [{ ...POINTS, label: "" }], tickMs: 1e9 },
    otlp: { url, intervalMs: 50, timeoutMs: 2000, resource: { "deployment.environment": "test" } },
    onLog: (text) => log.push(text),
  });
  try {
    const { records } = await observedRecords(["lda"], { seconds: 5 });
    await server.service.ingest(message(records), null, null);
    await server.service.settle();
    const before = got.length;
    while (got.length < before + 3) await new Promise((resolve) => setTimeout(resolve, 20));
    const { type, body } = got.at(-1) ?? { type: "", body: { resourceMetrics: [] } };
    expect(type).toBe("application/json");
    const [{ resource, scopeMetrics } = { resource: { attributes: [] }, scopeMetrics: [] }] =
      body.resourceMetrics;
    const about = Object.fromEntries(resource.attributes.map((a) => [a.key, a.value.stringValue]));
    expect(about).toMatchObject({ "service.name": "hoptime", "deployment.environment": "test" });
    const metrics = new Map(scopeMetrics[0]?.metrics.map((m) => [m.name, m]));
    const stored = metrics.get("hoptime_records")?.sum;
    expect(stored).toMatchObject({ aggregationTemporality: 2, isMonotonic: true });
    const point = stored?.dataPoints.find((p) => p.attributes[0]?.value.stringValue === "stored");
    expect(point?.asDouble).toBe(records.length);
    expect(BigInt(point?.timeUnixNano ?? 0)).toBeGreaterThan(BigInt(point?.startTimeUnixNano ?? 0));
    const delay = metrics.get("hoptime_segment_delay");
    expect(delay?.unit).toBe("s");
    const [row] = delay?.gauge?.dataPoints ?? [];
    expect(row?.asDouble).toBeGreaterThan(1e-4);
    expect(row?.asDouble).toBeLessThan(3e-4);
    expect(row?.attributes.map((a) => a.key)).toEqual(["from", "to", "label", "estimator"]);
    // Every metric of /metrics is present.
    const names = (await (await fetch(`${server.url}/metrics`)).text()).match(/^# TYPE \S+/gm) ?? [];
    for (const name of names.map((n) => n.slice("# TYPE ".length)))
      expect([...metrics.keys(), "hoptime_http_requests", "hoptime_http_request"]).toContain(
        otlpName(name).name,
      );
    status = 500;
    const failing = got.length;
    while (got.length < failing + 3) await new Promise((resolve) => setTimeout(resolve, 20));
    expect(log.filter((l) => l.startsWith("OTLP"))).toEqual(["OTLP: status 500"]);
  } finally {
    await server.close();
    receiver.close();
    receiver.closeAllConnections();
    rmSync(data, { recursive: true, force: true });
  }
});

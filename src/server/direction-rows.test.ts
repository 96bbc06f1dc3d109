/** Taps start to separate directions: from then on the segment's name stands for the direction, in answers, lists, alerts and metrics. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { message, observedRecords, POINTS } from "../../tests/support/collector-records.ts";
import { earlier } from "../base/time.ts";
import { serverOptions } from "./config/collector-options.ts";
import { parseConfig } from "./config/read-config.ts";
import { startServer } from "./server.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-direction-rows-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const DIRECTION = "from 10.1.0.0/16,fd00:1::/64";
const { from, to } = POINTS;
const PAIR = `from=${from}&to=${to}`;
const CONFIG = `
data: ${join(root, "data")}
segments: ["${from}:${to}", "${from}:${to}=${DIRECTION}", "${from}:${to}=gold"]
alerts:
  - {name: slow, when: mean > 2ms, segment: "${from}:${to}", for: 2s}
  - {name: any, when: mean > 2ms, for: 2s}
`;

it("a segment without a label is its direction once that has rows, and the time before stays there", async () => {
  const { records } = await observedRecords(["lda", "lds:rows=2,columns=256"], {
    ...{ seconds: 12, ratePps: 300, spike: 5_000_000 },
  });
  const firstNs = records.map((r) => r.epoch.startNs).reduce(earlier);
  const separatedNs = firstNs + 4_000_000_000n;
  const server = await startServer({
    ...serverOptions(parseConfig(CONFIG, "hoptime.yaml")),
    ...{ listen: "127.0.0.1:0", tickMs: 1e9, now: () => firstNs + 12_000_000_000n },
  });
  try {
    const said = records.map((r) => (r.epoch.startNs < separatedNs ? r : { ...r, segment: DIRECTION }));
    const gold = records.map((r) => ({ ...r, segment: "gold" }));
    for (const part of [said.filter((r) => r.segment === ""), said.filter((r) => r.segment !== ""), gold]) {
      await server.service.ingest(message(part), null, null);
      await server.service.settle();
    }
    const ask = async <T>(path: string) => (await (await fetch(server.url + path)).json()) as T;
    interface Listed {
      segments: { label: string }[];
    }
    for (const list of ["segments", "overview"])
      expect((await ask<Listed>(`/v1/${list}`)).segments.map((s) => s.label).sort()).toEqual([
        DIRECTION,
        "gold",
      ]);
    for (const route of ["latency", "flows"])
      expect(await ask<{ label: string }>(`/v1/${route}?${PAIR}`)).toMatchObject({ label: DIRECTION });
    expect(await ask(`/v1/latency?${PAIR}&label=`)).toMatchObject({ label: "" });
    const before = `since=${firstNs}&until=${separatedNs}`;
    expect(await ask(`/v1/latency?${PAIR}&${before}`)).toMatchObject({ label: "" });
    interface Alerts {
      alerts: { name: string; target: string }[];
    }
    const { alerts } = await ask<Alerts>("/v1/alerts?state=open");
    // If a rule has no segment, a traffic class is judged beside the whole.
    expect(alerts.map(({ name, target }) => `${name} ${target}`).sort()).toEqual([
      ...[`any ${from}:${to}`, `any ${from}:${to}=gold`, `slow ${from}:${to}`],
    ]);
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    const labels = [...metrics.matchAll(/^hoptime_segment_delay_seconds\{.*label="([^"]*)"/gm)];
    expect(new Set(labels.map((m) => m[1]))).toEqual(new Set([DIRECTION, "gold"]));
  } finally {
    await server.close();
  }
});

import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { type GeneratedPair, type GenerateOptions, generateCaptures } from "../../bench/generate-captures.ts";
import { type PlainRow, readRows } from "../support/capture-rows.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-generate-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const beforeFile = join(scratch, "before.pcap");
const afterFile = join(scratch, "after.pcap");
const generate = (options: Partial<GenerateOptions>): GeneratedPair =>
  generateCaptures({ packets: 20_000, beforeFile, afterFile, ...options });
const hash = (file: string) => createHash("sha256").update(readFileSync(file)).digest("hex");

test.each([
  ["as they come", {}],
  ["with IPv6 and VLAN tags before", { ipv6Share: 0.3, vlanShare: 0.3 }],
  ["cut by the snap length", { snapLength: 96 }],
  ["behind a queue that overflows", { utilisation: 1.5, queueLimitNs: 200_000 }],
])("the captures of a generated pair show what it says: %s", async (_, options) => {
  const truth = generate(options);
  // Digests over the bytes that both contain: tags before the packet move it towards the end of the captured part.
  const before = (await readRows(beforeFile, { cover: 64 })).rows;
  const after = (await readRows(afterFile, { cover: 64 })).rows;
  expect([before.length, after.length]).toEqual([truth.sent, truth.received]);
  const waiting = new Map<bigint, PlainRow>(before.map((r) => [r.digest, r]));
  expect(waiting.size).toBe(truth.sent);
  const delaysNs = after.map((r) => Number(r.timeNs - waiting.get(r.digest)!.timeNs));
  expect(Math.min(...delaysNs)).toBe(truth.minDelayNs);
  expect(Math.max(...delaysNs)).toBe(truth.maxDelayNs);
  expect(delaysNs.reduce((a, b) => a + b, 0) / delaysNs.length).toBeCloseTo(truth.meanDelayNs, 3);
  expect(after.every((r) => r.ttl === 63)).toBe(true);
  expect(truth.lost).toBeGreaterThan(0);
});

test("flows are as many as it says, and their sizes heavy-tailed", async () => {
  // Few senders, so that a long flow has time to send all its packets.
  const truth = generate({ packets: 100_000, activeFlows: 256 });
  const sizes = new Map<string, number>();
  for (const r of (await readRows(beforeFile)).rows) {
    const key = [r.src, r.dst, r.proto, r.sport, r.dport].join();
    sizes.set(key, (sizes.get(key) ?? 0) + 1);
  }
  // Only flows that never sent, and the rare two with the same key, may be missing.
  expect(sizes.size).toBeGreaterThan(truth.flows - 256 - 20);
  expect(sizes.size).toBeLessThanOrEqual(truth.flows);
  // Pareto with shape 1.1: 1 - 2^-1.1 = 53 % of single packets. Flows cut by the end of the file add a little.
  const single = [...sizes.values()].filter((n) => n === 1).length / sizes.size;
  expect(single).toBeGreaterThan(0.5);
  expect(single).toBeLessThan(0.62);
  expect(Math.max(...sizes.values())).toBeGreaterThan(200);
});

test("the same options make the same bytes, another seed makes others", () => {
  generate({ seed: 5 });
  const first = [hash(beforeFile), hash(afterFile)];
  generate({ seed: 5 });
  expect([hash(beforeFile), hash(afterFile)]).toEqual(first);
  generate({ seed: 6 });
  expect(hash(beforeFile)).not.toBe(first[0]);
});

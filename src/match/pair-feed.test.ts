/** The order in which two captures are read: whole batches if packets are dense, and BEFORE never too far ahead. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { writePcap } from "../../tests/support/small-pcap.ts";
import { Kernels } from "../base/kernels.ts";
import { DirectFeed, denseLeadNs } from "./pair-feed.ts";
import { STRIDE_ROWS } from "./stride-rows.ts";

const PACKETS = 20_000;
const DELAY_NS = 300_000;
const LEAD_NS = 8e6;
const START = 1_700_000_000_000_000_000n;

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "hoptime-feed-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

interface Given {
  side: 0 | 1;
  firstNs: number;
  lastNs: number;
  rows: number;
  far: boolean;
}

/** The strides of a pair of captures with a packet every `gapNs`. */
async function stridesOf(gapNs: number, windowNs: number): Promise<Given[]> {
  const [before, after] = ["before", "after"].map((name, side) => {
    const path = join(folder, `${name}.pcap`);
    const packets = Array.from({ length: PACKETS }, (_, i) => ({
      timeNs: START + BigInt(i * gapNs + side * DELAY_NS),
      src: "10.0.0.1",
      dst: "10.0.0.2",
      sport: 1000 + (i >> 16),
      dport: 9,
      ipid: i & 0xffff,
    }));
    writePcap(path, packets);
    return path;
  }) as [string, string];
  const plan = { before, after, capture: {}, alignNs: 0, leadNs: LEAD_NS, windowNs };
  const feed = await DirectFeed.open(new Kernels(), { ...plan, limit: Number.POSITIVE_INFINITY });
  const given: Given[] = [];
  for (let stride = await feed.next(); stride; stride = await feed.next()) {
    if (stride.kind === "end") continue;
    const { side, batch, from, to, far } = stride;
    const time = (row: number) => (batch.timeNs[row] ?? Number.NaN) + feed.head.shiftNs[side];
    given.push({ side, firstNs: time(from), lastNs: time(to - 1), rows: to - from, far });
  }
  feed.finish();
  return given;
}

/** How far BEFORE was ahead of AFTER's next packet: the maximum, and the minimum when AFTER is read. */
function leads(given: readonly Given[]): { most: number; least: number } {
  let most = 0;
  let least = Number.POSITIVE_INFINITY;
  const nextOf = (side: 0 | 1, from: number) => given.slice(from).find((stride) => stride.side === side);
  for (const [i, { side, lastNs }] of given.entries()) {
    const other = nextOf(side === 0 ? 1 : 0, i + 1);
    if (!other) continue;
    if (side === 0) most = Math.max(most, lastNs - other.firstNs);
    else least = Math.min(least, other.firstNs - lastNs);
  }
  return { most, least };
}

describe("strides of two captures", () => {
  test("are as long as batches where packets are dense, and BEFORE is not too far ahead", async () => {
    const windowNs = 1e9;
    const given = await stridesOf(2000, windowNs);
    for (const side of [0, 1] as const) {
      const rows = given.filter((stride) => stride.side === side).map((stride) => stride.rows);
      expect(rows.reduce((sum, n) => sum + n, 0)).toBe(PACKETS);
      expect(rows.filter((n) => n === STRIDE_ROWS)).toHaveLength(Math.floor(PACKETS / STRIDE_ROWS));
    }
    const { most, least } = leads(given);
    expect(given.some((stride) => stride.far)).toBe(true);
    expect(most).toBeGreaterThan(LEAD_NS);
    expect(most).toBeLessThanOrEqual(denseLeadNs({ leadNs: LEAD_NS, windowNs }));
    expect(least).toBeGreaterThanOrEqual(LEAD_NS / 4);
  });

  test("with a short window BEFORE is ahead by a part of it at most", async () => {
    const windowNs = 100e6;
    const { most, least } = leads(await stridesOf(2000, windowNs));
    expect(most).toBeLessThanOrEqual(windowNs / 8);
    expect(least).toBeGreaterThanOrEqual(LEAD_NS / 4);
  });

  test("stay within the lead where packets are sparse", async () => {
    const given = await stridesOf(20_000, 1e9);
    const { most, least } = leads(given);
    expect(given.some((stride) => stride.far)).toBe(false);
    expect(most).toBeLessThanOrEqual(LEAD_NS);
    expect(least).toBeGreaterThanOrEqual(LEAD_NS / 4);
  });
});

/** One flow with heavy loss: hardly any cell arrives complete, and a mean based on one cell of some packets is not exact. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { Random } from "../../src/base/random.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import { askArchive } from "../../src/query/segment/ask.ts";
import { rounds } from "../support/rounds.ts";
import { frame, pcapHeader, type SmallPacket } from "../support/small-pcap.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-lone-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const START = 1_700_000_000_000_000_000n;

function packets(seed: number): { a: SmallPacket[]; b: SmallPacket[] } {
  const random = new Random(seed);
  const [a, b]: [SmallPacket[], SmallPacket[]] = [[], []];
  for (let n = 0; n < 6000; n++) {
    const timeNs = START + BigInt(100_000 * n);
    const packet = { src: "10.1.0.1", dst: "10.2.0.9", sport: 5000, dport: 443, ipid: n };
    a.push({ ...packet, timeNs });
    if (random.float() < 0.1) continue;
    b.push({ ...packet, timeNs: timeNs + BigInt(Math.round(random.exponential(8e6))) });
  }
  return { a, b: b.sort((x, y) => (x.timeNs < y.timeNs ? -1 : 1)) };
}

it.each(["lds", "colate"])("a mean of some packets is never given without width: %s", async (name) => {
  let answered = 0;
  for (let seed = 0; seed < rounds(4, 8); seed++) {
    const directory = join(root, `${name}${seed}`);
    const { a, b } = packets(seed);
    for (const [point, list] of [["A", a] as const, ["B", b] as const]) {
      const file = join(root, `${point}.pcap`);
      writeFileSync(file, Buffer.concat([pcapHeader(), ...list.map((p) => frame(p))]));
      const cut = { mode: "aligned", lengthNs: 10_000_000_000n } as const;
      await observePoint({ directory, estimators: [name], cut, files: [file], point });
    }
    const archive = RecordArchive.open(directory);
    const { estimates, groups } = askArchive(archive, { between: ["A", "B"], top: 5 });
    archive.close();
    for (const { latency } of [...groups, estimates[name]!]) {
      if (!latency) continue;
      answered++;
      expect(latency.highNs - latency.lowNs).toBeGreaterThan(100_000);
    }
  }
  expect(answered).toBeGreaterThan(0);
});

/**
 * Bytes of questions by flow and IPID ranges compared with questions by packet, on real captures (MAPLE, figure 8b: 17 times fewer for flows of more than 1,000
 * packets). Packets of a flow within a second; questions in binary form, including the head; a packet is identified by its 8-byte digest.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Kernels } from "../../src/base/kernels.ts";
import { FLAG } from "../../src/capture/batch.ts";
import { FlowKeySpec } from "../../src/capture/flow/flow-key.ts";
import { CaptureReader } from "../../src/capture/reader.ts";
import { ipidRanges } from "../../src/estimators/packet-keys.ts";
import { mean } from "../../src/evaluate/reference-trace.ts";
import { digestQuestionBytes, flowQuestionBytes } from "../../src/query/packet/wire.ts";
import { shared } from "../support/shared-maps.ts";

/** IPIDs of this sender are not consecutive (13 % increase by a little), so ranges do not help as much as elsewhere. */
const DISORDERLY = /tcp-bulk/;

shared("replay", (folder) => {
  test("ranges save more the larger a flow is, 17 times and more above 100 packets", async () => {
    const kernels = new Kernels();
    const ratios: Record<"small" | "medium" | "large" | "disorderly", number[]> = {
      small: [],
      medium: [],
      large: [],
      disorderly: [],
    };
    for (const file of readdirSync(folder).filter((f) => /\.pcap(ng)?\.gz$/.test(f))) {
      const flows = await readFlows(kernels, join(folder, file));
      for (const { words, ipids } of flows) {
        const ratio =
          digestQuestionBytes(ipids.length) / flowQuestionBytes([{ words, ranges: ipidRanges(ipids) }]);
        const size = ipids.length <= 10 ? "small" : ipids.length <= 100 ? "medium" : "large";
        ratios[DISORDERLY.test(file) ? "disorderly" : size].push(1 / ratio);
      }
    }
    // As in the paper: the mean of the shares of remaining bytes.
    const [small, medium, large] = [mean(ratios.small), mean(ratios.medium), mean(ratios.large)];
    expect(ratios.large.length).toBeGreaterThan(50);
    expect(medium).toBeLessThan(0.5 * small);
    expect(large).toBeLessThan(0.3 * medium);
    expect(large).toBeLessThan(1 / 17);
    expect(mean(ratios.disorderly)).toBeLessThan(1 / 3);
  });
});

async function readFlows(kernels: Kernels, file: string): Promise<{ words: Uint32Array; ipids: number[] }[]> {
  const reader = await CaptureReader.open(kernels, file, { key: FlowKeySpec.parse() });
  const flows = new Map<string, { words: Uint32Array; ipids: number[] }>();
  while (await reader.next()) {
    const { batch } = reader;
    for (let i = 0; i < batch.count; i++) {
      if ((batch.flags[i]! & FLAG.ipid) === 0) continue;
      const words = Uint32Array.of(
        ...batch.meta.subarray(2 * i, 2 * i + 2),
        ...batch.addrA.subarray(2 * i, 2 * i + 2),
        ...[0, 0, 0, 0, 0, 0],
      );
      const name = `${words.join()}@${Math.floor(batch.timeNs[i]! / 1e9)}`;
      const flow = flows.get(name) ?? { words, ipids: [] };
      flow.ipids.push(batch.ipid[i]!);
      flows.set(name, flow);
    }
  }
  reader.close();
  reader.free();
  return [...flows.values()];
}

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Kernels } from "../../base/kernels.ts";
import { PacketBatch } from "../batch.ts";
import { copyBatch } from "../copy-batch.ts";
import { FlowKeySpec } from "./flow-key.ts";
import { formatFlowKey, parseFlowKey } from "./flow-text.ts";
import { encodeFlowKey, hashFlowKey } from "./flow-words.ts";

const kernels = new Kernels();
const address = fc.oneof(
  fc.ipV4().map((a) => [a, 4] as const),
  fc
    .tuple(fc.nat(0xffff), fc.nat(0xffff))
    .map(([a, b]) => [`2001:db8:${(a | 1).toString(16)}::${(b | 1).toString(16)}`, 6] as const),
);
const keys = fc
  .tuple(address, address, fc.constantFrom(6, 17), fc.nat(65_535), fc.nat(65_535))
  .filter(([a, b]) => a[1] === b[1])
  .map(([[src], [dst], proto, sport, dport]) => ({ src, dst, proto, sport, dport }));

describe("a flow key in words", () => {
  it("is described as it was written", () => {
    const spec = FlowKeySpec.parse();
    fc.assert(
      fc.property(keys, (key) => {
        const words = encodeFlowKey(spec, parseFlowKey(formatFlowKey(key)));
        expect(spec.describe(words)).toEqual(key);
      }),
      { seed: 71 },
    );
  });

  it("keeps only the fields that distinguish flows", () => {
    const spec = FlowKeySpec.parse("src/24");
    const words = encodeFlowKey(spec, parseFlowKey("tcp 10.1.2.3:4 > 10.9.9.9:5"));
    expect(spec.describe(words)).toMatchObject({ src: "10.1.2.0/24", dst: null, proto: null, sport: null });
    expect(() => encodeFlowKey(spec, parseFlowKey("* > 10.9.9.9"))).toThrow(/lacks a source address/);
  });

  it("has the hash that the kernels give the packets of the flow", () => {
    fc.assert(
      fc.property(keys, fc.constantFrom("5tuple", "hosts", "src/16", "dport", "proto"), (key, text) => {
        const spec = FlowKeySpec.parse(text);
        const whole = encodeFlowKey(FlowKeySpec.parse(), key);
        const batch = new PacketBatch(kernels, 1);
        batch.count = 1;
        batch.meta.set(whole.subarray(0, 2));
        for (const [i, column] of [batch.addrA, batch.addrB, batch.addrC, batch.addrD].entries()) {
          column.set(whole.subarray(2 + 2 * i, 4 + 2 * i));
        }
        const mask = spec.store(kernels);
        kernels.call.keyFlows(batch.address, mask, 99n);
        const [low, high] = [batch.flowHash[0]!, batch.flowHash[1]!];
        batch.free();
        kernels.free(mask);
        const words = encodeFlowKey(spec, key);
        // A key without addresses does not state the IP version, and its packets' hash does not depend on it.
        expect(hashFlowKey(kernels, words, 99n)).toEqual([low, high]);
      }),
      { seed: 72 },
    );
  });
});

describe("a copied batch", () => {
  it("has the same rows and does not follow the original", () => {
    const [from, to] = [new PacketBatch(kernels, 4), new PacketBatch(kernels, 8)];
    from.count = 3;
    for (let i = 0; i < 3; i++) {
      from.timeNs[i] = i + 0.5;
      from.wireLength[i] = 100 + i;
      from.digest.set([i, 7], 2 * i);
      from.delayNs[i] = -i;
    }
    copyBatch(from, to);
    from.timeNs[0] = 99;
    expect([...to.timeNs.subarray(0, 3)]).toEqual([0.5, 1.5, 2.5]);
    expect([...to.wireLength.subarray(0, 3)]).toEqual([100, 101, 102]);
    expect([...to.digest.subarray(0, 6)]).toEqual([0, 7, 1, 7, 2, 7]);
    expect([...to.delayNs.subarray(0, 3)]).toEqual([-0, -1, -2]);
    expect(to.count).toBe(3);
    to.count = 8;
    expect(() => copyBatch(to, from)).toThrow(RangeError);
  });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FormatError } from "../../base/errors.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { parseFlowKey } from "../../capture/flow/flow-text.ts";
import { encodeFlowKey } from "../../capture/flow/flow-words.ts";
import { joinRanges } from "../../estimators/packet-keys.ts";
import {
  answerBytes,
  decodeAnswer,
  decodeQuestion,
  digestQuestionBytes,
  encodeAnswer,
  encodeQuestion,
  flowQuestionBytes,
  type WireAnswer,
} from "./wire.ts";

const time = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const range = fc
  .tuple(fc.nat(65_535), fc.nat(3000))
  .map(([first, more]) => ({ first, last: Math.min(65_535, first + more) }));
const words = fc.boolean().chain((v6) =>
  fc
    .tuple(
      fc.array(fc.nat(0xffff_ffff), { minLength: 10, maxLength: 10 }),
      fc.nat((1 << 26) - 1),
      fc.boolean(),
    )
    .map(([w, high, ports]) => {
      const key = Uint32Array.from(w, (x, i) => (i > 3 && !v6 ? 0 : x));
      key[1] = high | (v6 ? 1 << 27 : 0) | (ports ? 1 << 28 : 0);
      return key;
    }),
);

describe("questions about packets on the wire", () => {
  test("digests and flows come back as they were", () => {
    fc.assert(
      fc.property(
        time,
        time,
        fc.boolean(),
        fc.array(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })),
        (fromNs, toNs, values, list) => {
          const question = {
            fromNs,
            toNs,
            values,
            packets: { kind: "digests" as const, digests: BigUint64Array.from(list) },
          };
          const bytes = encodeQuestion(question);
          expect(decodeQuestion(bytes)).toEqual(question);
          expect(bytes.length).toBe(digestQuestionBytes(list.length));
        },
      ),
    );
    const flow = fc.record({ words, ranges: fc.array(range, { maxLength: 8 }) });
    fc.assert(
      fc.property(fc.array(flow, { maxLength: 5 }), (flows) => {
        const packets = { kind: "flows" as const, flows };
        const bytes = encodeQuestion({ fromNs: 1n, toNs: 2n, values: false, packets });
        expect(decodeQuestion(bytes).packets).toEqual({
          kind: "flows",
          flows: flows.map((f) => ({ words: f.words, ranges: joinRanges(f.ranges) })),
        });
        expect(bytes.length).toBe(flowQuestionBytes(flows));
      }),
    );
  });

  test("answers come back in single precision", () => {
    const ns = fc.float({ noNaN: true, noDefaultInfinity: true });
    const group = fc.record({
      matched: fc.nat(1000),
      multi: fc.nat(1000),
      missing: fc.nat(1e6),
      latency: fc.record({ meanNs: ns, lowNs: ns, highNs: ns, stdevNs: ns }),
    });
    const value = fc.tuple(fc.nat(2), ns);
    fc.assert(
      fc.property(fc.array(group), fc.option(fc.array(value)), (groups, values) => {
        const answer: WireAnswer = {
          groups: groups.map((g) => (g.matched + g.multi === 0 ? { ...g, latency: null } : g)),
          values: values && {
            kind: Uint8Array.from(values, ([k]) => k),
            valueNs: Float32Array.from(values, ([k, x]) => (k === 0 ? Number.NaN : x)),
          },
        };
        expect(decodeAnswer(encodeAnswer(answer))).toEqual(answer);
        if (!values) expect(answerBytes(answer.groups)).toBe(encodeAnswer(answer).length);
      }),
    );
  });

  test("a flow of a thousand packets in a row takes less than a hundredth of its digests", () => {
    const key = encodeFlowKey(FlowKeySpec.parse(), parseFlowKey("tcp 10.0.0.1:443 > 10.0.0.9:51000"));
    const bytes = flowQuestionBytes([{ words: key, ranges: [{ first: 500, last: 1499 }] }]);
    expect(bytes).toBe(4 + 2 + 16 + 1 + 14 + 1 + 2 + 2);
    expect(digestQuestionBytes(1000) / bytes).toBeGreaterThan(100);
  });

  test("damaged bytes are refused, never read as something else than a question", () => {
    const good = encodeQuestion({
      fromNs: 5n,
      toNs: 6n,
      values: true,
      packets: {
        kind: "flows",
        flows: [{ words: new Uint32Array(10), ranges: [{ first: 1, last: 65_535 }] }],
      },
    });
    for (let n = 0; n < good.length; n++)
      expect(() => decodeQuestion(good.subarray(0, n))).toThrow(FormatError);
    expect(() => decodeQuestion(Uint8Array.of(...good, 0))).toThrow(FormatError);
    fc.assert(
      fc.property(fc.nat(good.length - 1), fc.nat(7), (at, bit) => {
        const bad = good.slice();
        bad[at]! ^= 1 << bit;
        try {
          decodeQuestion(bad);
        } catch (error) {
          expect(error).toBeInstanceOf(FormatError);
        }
      }),
    );
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { homeOf, parseSubject, partitionOf, subjectOf } from "./subjects.ts";

const NAME = fc.string({ minLength: 1, maxLength: 40, unit: "grapheme" });

describe("subjects of records", () => {
  it("carry any names there and back, in tokens that NATS takes", () => {
    fc.assert(
      fc.property(NAME, fc.oneof(NAME, fc.constantFrom("", "-", "a.b", "*", ">", "A:B")), (point, label) => {
        const subject = subjectOf(7, point, label);
        expect(subject.split(".")).toHaveLength(5);
        expect(subject).toMatch(/^[\x21-\x7e]+$/);
        expect(subject).not.toMatch(/[*>]/);
        expect(parseSubject(subject)).toEqual({ partition: 7, point, label });
      }),
    );
  });

  it("of other programs are none", () => {
    for (const subject of ["hoptime.other.1.a.b", "hoptime.records.x.a.b", "hoptime.records.1.a", "a"])
      expect(parseSubject(subject)).toBeNull();
  });

  it("bring both ends of a labelled segment to the partition of its receiver", () => {
    for (const [from, to] of [
      ["A", "B"],
      ["x", "y"],
    ] as const) {
      const home = partitionOf(to, 16);
      expect(homeOf(from, `${from}:${to}`, 16)).toBe(home);
      expect(homeOf(to, `${from}:${to}`, 16)).toBe(home);
      expect(homeOf(from, "gold", 16)).toBe(partitionOf(from, 16));
    }
  });

  it("spread names evenly: no partition of 16 has more than twice its share of 4,000", () => {
    for (const name of [(i: number) => `p${i}`, (i: number) => `router-${i}.example.net:eth0`]) {
      const counts = new Array<number>(16).fill(0);
      for (let i = 0; i < 4000; i++) counts[partitionOf(name(i), 16)]! += 1;
      expect(Math.max(...counts)).toBeLessThan(500);
      expect(Math.min(...counts)).toBeGreaterThan(125);
    }
  });

  it("put a name into the same partition for ever: other programs publish too", () => {
    expect(["A", "B", "C", "ü"].map((p) => partitionOf(p, 16))).toEqual([12, 8, 10, 15]);
  });
});

import { expect, test } from "vitest";
import { isWhole, withoutSuperseded } from "./direction-label.ts";

const row = (to: string, label: string, lastNs: bigint) => ({ from: "A", to, label, lastNs });
const FROM = "from 10.1.0.0/16,fd00:1::/64";

test("a segment without a label gives way to its direction, once that has newer rows", () => {
  const [first, direction, class_] = [row("B", "", 5n), row("B", FROM, 9n), row("B", "gold", 4n)];
  const elsewhere = row("C", "", 1n);
  expect(withoutSuperseded([first, direction, class_, elsewhere])).toEqual([direction, class_, elsewhere]);
  // Taps that were given a direction again: the latest counts.
  const told = row("B", "", 12n);
  expect(withoutSuperseded([told, direction])).toEqual([told, direction]);
  expect(withoutSuperseded([first, class_])).toEqual([first, class_]);
});

test("a class of traffic does not stand for the segment; no label, A:B and a direction do", () => {
  expect(["", "A:B", FROM, "to 10.1.0.0/16"].map((label) => isWhole(label, "A", "B"))).toEqual(
    Array(4).fill(true),
  );
  expect(["gold", "B:A", "from here"].map((label) => isWhole(label, "A", "B"))).toEqual(Array(3).fill(false));
});

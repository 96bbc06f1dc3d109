import { expect, test } from "vitest";
import { lossDoubt } from "./loss-doubt.ts";
import type { ReportView } from "./report.ts";

function report(segment: object, after: object = {}): ReportView {
  const counts = { sent: 1000, received: 1000, matched: 900, lost: 100, appeared: 0, ...segment };
  return { segment: counts, after: { dropped: null, partial: null, ...after } } as unknown as ReportView;
}

test("plain loss is believed", () => {
  expect(lossDoubt(report({}))).toBeNull();
  expect(lossDoubt(report({ lost: 0, appeared: 500 }))).toBeNull();
  expect(lossDoubt(report({}, { dropped: 3 }))).toBeNull();
  expect(lossDoubt(report({ matched: 0, lost: 1000, received: 0 }))).toBeNull();
});

test("what loss does not explain is named with its likely cause", () => {
  expect(lossDoubt(report({ appeared: 90 }))).toMatch(/NAT/);
  expect(lossDoubt(report({}, { dropped: 80 }))).toMatch(/itself dropped 80 packets/);
  expect(lossDoubt(report({ matched: 0, lost: 1000 }))).toMatch(/no packet of the first capture/);
  expect(lossDoubt({ ...report({}), lossCause: "sampled" })).toBe("sampled");
  expect(lossDoubt(report({}, { partial: "cut" }))).toMatch(/incomplete/);
});

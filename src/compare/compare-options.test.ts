/** Options that no comparison could have: refused with fields, before anything is read. */
import { expect, test } from "vitest";
import { UsageError } from "../base/errors.ts";
import { type CompareOptions, compareCaptures } from "./compare.ts";

test.each<[string, Partial<CompareOptions>]>([
  ["window", { windowNs: Number.NaN }],
  ["window", { windowNs: -1 }],
  ["epoch", { epochNs: 0 }],
  ["epoch", { epochNs: Number.POSITIVE_INFINITY }],
  ["sort", { flows: { top: 3, sort: "weight" as "mean" } }],
  ["top", { flows: { top: Number.NaN, sort: "mean" } }],
  ["top", { flows: { top: -1, sort: "mean" } }],
  ["flows", { flows: "some" as "all" }],
  ["before", { before: undefined as unknown as string }],
  ["clock", { clock: "guess" as NonNullable<CompareOptions["clock"]> }],
])("%s is refused: %j", async (parameter, option) => {
  const run = compareCaptures({ before: "none.pcap", after: "none.pcap", ...option });
  const error = await run.catch((e: unknown) => e);
  expect(error).toBeInstanceOf(UsageError);
  expect(error).toMatchObject({ parameter, expected: expect.any(String) });
});

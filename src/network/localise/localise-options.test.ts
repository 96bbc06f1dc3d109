/** Invalid options of a localisation, and impossible estimates, are reported with what was given and what is expected. */
import { expect, test } from "vitest";
import { UsageError } from "../../base/errors.ts";
import { estimate } from "../../evaluate/path-noise.ts";
import { localiseCaptures } from "./from-captures.ts";
import { localise } from "./localise.ts";
import type { LocaliseEstimate } from "./segment-estimate.ts";

const refused = (parameter: string, value: unknown) =>
  expect.objectContaining({ parameter, value, expected: expect.any(String) });

test.each([0, 1, Number.NaN])("confidence %s is refused", (confidence) => {
  const run = () => localise(["A", "B"], [estimate("A", "B", 0, 1000, 10)], { confidence });
  expect(run).toThrow(UsageError);
  expect(run).toThrow(refused("confidence", confidence));
});

test.each<[string, Partial<LocaliseEstimate>]>([
  ["epochEndNs", { epochEndNs: -1 }],
  ["epochEndNs", { epochEndNs: Number.NaN }],
  ["packets", { packets: -1 }],
  ["packets", { packets: Number.NaN }],
  ["meanNs", { meanNs: Number.NaN }],
  ["meanNs", { meanNs: 5_000_000 }],
])("an estimate is refused for its %s: %o", (parameter, change) => {
  const run = () => localise(["A", "B"], [{ ...estimate("A", "B", 0, 1000, 10), ...change }]);
  expect(run).toThrow(UsageError);
  expect(run).toThrow(refused(parameter, Object.values(change)[0]));
});

test.each([
  ["files", { files: "a.pcap" as unknown as string[] }, "a.pcap"],
  ["names", { files: ["a.pcap", "b.pcap"], names: ["A"] }, ["A"]],
  ["epoch", { files: ["a.pcap", "b.pcap"], epochNs: Number.NaN }, Number.NaN],
])("%s of captures are refused: %o", async (parameter, options, value) => {
  const error = await localiseCaptures(options).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(UsageError);
  expect(error).toEqual(expect.objectContaining({ parameter, value }));
});

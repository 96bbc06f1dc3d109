/** Invalid options from callers without types are refused with parameter, value and expectation, before a record is made. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { DEMO } from "../../tests/support/demo-captures.ts";
import { RecordArchive } from "../archive/archive.ts";
import { retain } from "../archive/retention.ts";
import { UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { openCaptures } from "../capture/source/capture-source.ts";
import { inspectCapture } from "../inspect/inspect.ts";
import { DirectorySink } from "./directory-sink.ts";
import { type ObserveOptions, observe } from "./observe.ts";
import { observeCaptures } from "./observe-captures.ts";
import { type ObservePointOptions, observePoint } from "./observe-point.ts";
import { planLanes, planTaps } from "./plan.ts";
import type { RecordSink } from "./record-sink.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-observe-options-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const refused = (parameter: string) =>
  expect.objectContaining({
    parameter,
    expected: expect.any(String),
    message: expect.stringContaining("invalid"),
  });

test.each<[string, Record<string, unknown>]>([
  ["epoch", { cut: { mode: "aligned", lengthNs: 1e9 } }],
  ["epoch", { cut: { mode: "aligned", lengthNs: Number.NaN } }],
  ["epoch", { cut: { mode: "aligned" } }],
  ["every", { cut: { mode: "delimited", every: Number.NaN } }],
  ["cut", { cut: { mode: "weekly" } }],
  ["cut", { cut: undefined }],
  ["role", { lanes: [{ segment: "", role: "listener", filter: "" }] }],
  ["point", { point: 5 }],
  ["speed", { speed: Number.NaN }],
  ["seed", { seed: 5 }],
  ["window", { sender: { files: [DEMO.before], windowNs: Number.NaN } }],
])("%s is refused: %o", async (parameter, given) => {
  const directory = join(scratch, "refused");
  const options = {
    kernels: new Kernels(),
    files: [DEMO.before],
    point: "A",
    lanes: planLanes({ point: "A" }),
    taps: planTaps({ estimators: ["lda"] }),
    cut: { mode: "aligned", lengthNs: 1_000_000_000n },
    sink: new DirectorySink({ directory, point: "A" }),
    ...given,
  } as Parameters<typeof observeCaptures>[0];
  const error = await observeCaptures(options).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(UsageError);
  expect(error).toEqual(refused(parameter));
  expect(existsSync(directory)).toBe(false);
});

test("a role that is none is refused where lanes and taps are planned", () => {
  const role = "listener" as "sender";
  expect(() => planLanes({ point: "A", role })).toThrow(refused("role"));
  expect(() => planTaps({ estimators: ["lda"], role })).toThrow(refused("role"));
});

test("times of records are bigints", async () => {
  const directory = join(scratch, "kept");
  const archive = await RecordArchive.create(directory);
  const ns = 5 as unknown as bigint;
  expect(() => archive.list({ fromNs: ns })).toThrow(refused("from"));
  expect(() => archive.list({ toNs: Number.NaN as unknown as bigint })).toThrow(refused("to"));
  expect(() => retain(directory, { keepNs: ns })).toThrow(refused("keep"));
  expect(() => retain(directory, { olderThanNs: ns })).toThrow(refused("older-than"));
  expect(() => retain(directory, { maxBytes: Number.NaN })).toThrow(refused("max-size"));
  expect(() => new DirectorySink({ directory, point: "A", keepNs: ns })).toThrow(refused("keep"));
});

/** Invalid options passed to `observe` itself. */
test.each<[string, Record<string, unknown>]>([
  ["source", { source: null }],
  ["source", { source: { next: () => null } }],
  ["source", { source: openCaptures(new Kernels(), [DEMO.before]) }],
  ["sink", { sink: undefined }],
  ["sink", { sink: { put: () => {} } }],
  ["delays", { delays: 5 }],
  ["kernels", { kernels: null }],
  ["lanes", { lanes: null }],
  ["lanes", { lanes: [] }],
  ["lanes", { lanes: [{}] }],
  ["taps", { taps: null }],
  ["taps", { taps: [{}] }],
  ["cut", { cut: null }],
  ["key", { key: "5tuple" }],
  ["cover", { cover: Number.NaN }],
  ["cover", { cover: -1 }],
  ["tickMs", { tickMs: 0 }],
  ["onRecord", { onRecord: 5 }],
])("observe refuses %s: %o", async (parameter, given) => {
  const kernels = new Kernels();
  let put = 0;
  const sink: RecordSink = {
    put: async () => ({ outcome: "stored", bytes: ++put }),
    flush: async () => {},
    close: async () => {},
  };
  const options = {
    ...{ kernels, sink, source: openCaptures(kernels, [DEMO.before]), point: "A", seed: 1n, cover: 64 },
    ...{ lanes: planLanes({ point: "A" }), taps: planTaps({ estimators: ["lda"] }) },
    cut: { mode: "aligned", lengthNs: 1_000_000_000n },
    key: FlowKeySpec.parse("5tuple"),
    ...given,
  } as ObserveOptions;
  const error = await observe(options).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(UsageError);
  expect(error).toMatchObject({ parameter });
  expect(put).toBe(0);
});

test("observePoint and inspectCapture name what is missing", async () => {
  const point = { point: "A", directory: join(scratch, "none"), estimators: ["lda"] };
  const cut = { mode: "aligned", lengthNs: 1_000_000_000n } as const;
  const cases = [
    ["cut", { ...point, files: [DEMO.before] }],
    ["files", { ...point, cut }],
    ["files", { ...point, cut, files: [1] }],
    ["directory", { ...point, cut, files: [DEMO.before], directory: 5 }],
    ["estimators", { ...point, cut, files: [DEMO.before], estimators: "lda" }],
  ] as const;
  for (const [parameter, given] of cases)
    await expect(observePoint(given as unknown as ObservePointOptions)).rejects.toMatchObject({ parameter });
  await expect(inspectCapture("a.pcap" as never)).rejects.toMatchObject({ parameter: "file" });
  expect(() => new DirectorySink({} as never)).toThrow(refused("directory"));
});

/** Runs the comparison outside the page's thread: the same code and kernels as the command line, with files of the browser (platform/). */
import { UsageError } from "../../src/base/errors.ts";
import { Kernels, memoryError } from "../../src/base/kernels.ts";
import { parseDuration } from "../../src/base/time.ts";
import { pointsOf } from "../../src/capture/points.ts";
import {
  type CompareOptions,
  type Comparison,
  openComparison,
  SMALL_CAPTURES_BYTES,
} from "../../src/compare/compare.ts";
import { compareCsvLines } from "../../src/present/csv/compare-csv.ts";
import { PAGE_LIMITS, toPageData } from "../../src/present/html/page-data.ts";
import { jsonPieces } from "../../src/present/json/json-pieces.ts";
import { askCapture } from "../../src/query/packet/remote.ts";
import type { Answer, Order, Wishes } from "./messages.ts";
import { packetServer } from "./packet-server.ts";
import { nameFiles } from "./platform/files.ts";

/** Minimum time between two progress messages. */
const PROGRESS_MS = 100;

declare const self: {
  onmessage: ((event: MessageEvent<Order>) => void) | null;
  postMessage(answer: Answer): void;
};

let comparison: Comparison | null = null;

self.onmessage = ({ data: order }) => {
  take(order).catch((error: unknown) => self.postMessage(failure(error)));
};

function take(order: Order): Promise<void> {
  if (order.kind === "compare") return compare(order.files, order.wishes);
  return order.kind === "export" ? write(order.form) : ask(order);
}

async function ask({ file, collector, token, question }: Order & { kind: "packets" }): Promise<void> {
  const [name = ""] = nameFiles([file]);
  const { filter, ...rest } = question;
  const answer = await askCapture(packetServer(collector, token), {
    ...rest,
    packets: { by: "capture", file: name, filter: filter === "" ? undefined : filter },
  });
  self.postMessage({ kind: "packets", answer });
}

async function compare(files: File[], wishes: Wishes): Promise<void> {
  comparison?.free();
  comparison = null;
  const names = nameFiles(files);
  const [before, after] = names.length === 1 ? await twoPoints(names[0] ?? "") : names;
  if (before === undefined || after === undefined)
    throw new UsageError("bad-option", "two captures are needed");
  const started = performance.now();
  let said = started;
  comparison = await openComparison({
    before,
    after,
    ...optionsOf(wishes),
    everyPacket: files.reduce((sum, file) => sum + file.size, 0) <= SMALL_CAPTURES_BYTES,
    onProgress: (doneBytes, totalBytes, packets) => {
      const now = performance.now();
      if (now - said < PROGRESS_MS) return;
      said = now;
      self.postMessage({ kind: "progress", doneBytes, totalBytes, packets });
    },
  });
  const seconds = (performance.now() - started) / 1000;
  self.postMessage({
    kind: "report",
    data: toPageData(comparison.view("all"), PAGE_LIMITS, comparison.packets?.table ?? null),
    seconds,
    captures: [before, after],
  });
}

function optionsOf({ window, epoch, clock, key, filter, inner, nat }: Wishes): Partial<CompareOptions> {
  return {
    ...(window === "" ? {} : { windowNs: time("window", window) }),
    epochNs: epoch === "" ? "by-length" : time("epoch", epoch),
    clock,
    ...(key === "" ? {} : { key }),
    ...(filter === "" ? {} : { filter }),
    inner,
    nat,
  };
}

function time(field: string, text: string): number {
  try {
    return parseDuration(text);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError("bad-option", error.problem, error.hint, { parameter: field, cause: error });
  }
}

/** Returns the two points of a capture that contains exactly two. */
async function twoPoints(file: string): Promise<[string, string]> {
  const points = await pointsOf(new Kernels(), file);
  const [first, second] = points;
  if (first && second && points.length === 2) return [`${file}#${first.index}`, `${file}#${second.index}`];
  throw new UsageError(
    "bad-option",
    `${file} holds ${points.length === 1 ? "one point" : `${points.length} points`}, not two`,
    "choose the capture of the second point as well",
  );
}

async function write(form: "json" | "csv"): Promise<void> {
  if (!comparison) throw new Error("nothing was compared yet");
  const report = comparison.view("all");
  const pieces = form === "json" ? [...jsonPieces(report), "\n"] : [...compareCsvLines(report)];
  const type = form === "json" ? "application/json" : "text/csv";
  self.postMessage({ kind: "export", form, blob: new Blob(pieces, { type }) });
}

function failure(error: unknown): Answer {
  const known = memoryError(error) ?? error;
  if (known instanceof UsageError) {
    const { problem, hint, parameter } = known;
    return { kind: "error", problem, hint: hint ?? null, field: parameter ?? null };
  }
  return {
    kind: "error",
    problem: error instanceof Error ? error.message : String(error),
    hint: null,
    field: null,
  };
}

/**
 * Drives a collector from a stream of records, until the stream ends or the signal aborts. The watermark follows the records: an epoch waits for its partner
 * until records arrive that end `latenessNs` later. A record with an absurd time must not move it: records that end more than `maxAheadNs` ahead of the clock
 * are dropped.
 */
import { checkBigNs } from "../base/checks.ts";
import { invalidValue } from "../base/errors.ts";
import { untilAborted } from "../base/until-aborted.ts";
import type { RecordIdentity } from "../epoch/identity.ts";
import { type Collected, Collector, type CollectorOptions } from "./collector.ts";
import type { RecordHandle } from "./record-handle.ts";

export interface CollectOptions extends CollectorOptions {
  /** How long an epoch waits for its other end, in the records' time (default 1 min). */
  latenessNs?: bigint;
  /** Records that end further ahead of now than this are dropped (default 1 h). */
  maxAheadNs?: bigint;
  /** The clock, ns since 1970. */
  now?: () => bigint;
  signal?: AbortSignal;
}

/** A record that arrived but was not used: too late, a repetition, not of a watched segment, or from the future. */
export interface Dropped {
  kind: "dropped";
  record: RecordIdentity;
  reason: "late" | "repeated" | "not-watched" | "from-the-future";
}

const MINUTE_NS = 60_000_000_000n;

export async function* collect(
  records: AsyncIterable<RecordHandle> | Iterable<RecordHandle>,
  options: CollectOptions,
): AsyncGenerator<Collected | Dropped> {
  const { latenessNs = MINUTE_NS, maxAheadNs = 60n * MINUTE_NS, signal } = options;
  checkWatermark("lateness", latenessNs);
  checkWatermark("maxAhead", maxAheadNs);
  const now = options.now ?? (() => BigInt(Date.now()) * 1_000_000n);
  const collector = new Collector(options);
  let latestNs: bigint | null = null;
  for await (const record of recordsUntil(records, signal)) {
    const { endNs } = record.epoch;
    if (endNs > now() + maxAheadNs) {
      yield { kind: "dropped", record, reason: "from-the-future" };
      continue;
    }
    const outcome = collector.offer(record);
    if (outcome !== "taken")
      yield { kind: "dropped", record, reason: outcome === "late-list" ? "late" : outcome };
    if (latestNs === null || endNs > latestNs) latestNs = endNs;
    yield* collector.advance(latestNs - latenessNs);
  }
  // Complete epochs are estimated even after an abort; waiting records have no partner and are reported.
  yield* collector.finish();
}

function checkWatermark(parameter: string, ns: bigint): void {
  checkBigNs(parameter, ns);
  if (ns < 0n) throw invalidValue(parameter, `${ns}`, "0 ns or more", { code: "bad-time" });
}

/** Yields records until the signal aborts, even while waiting for the next one: the source need not know the signal. */
async function* recordsUntil<T>(
  records: AsyncIterable<T> | Iterable<T>,
  signal: AbortSignal | undefined,
): AsyncGenerator<T> {
  if (!signal) return yield* records;
  const iterator =
    Symbol.asyncIterator in records ? records[Symbol.asyncIterator]() : records[Symbol.iterator]();
  let ended = false;
  try {
    while (!signal.aborted) {
      const got = await untilAborted(Promise.resolve(iterator.next()), signal);
      ended = got?.done ?? false;
      if (!got || got.done || signal.aborted) return;
      yield got.value;
    }
  } finally {
    // Not awaited: a source that waits for a record would answer only when it comes.
    if (!ended) Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

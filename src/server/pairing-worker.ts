/**
 * The thread that pairs records and estimates (pairing.ts). Estimating large records takes up to a tenth of a second of CPU time; meanwhile the
 * collector goes on taking records and answering.
 */
import { parentPort, workerData } from "node:worker_threads";
import { RecordArchive } from "../archive/archive.ts";
import { mayBeEnded } from "../base/ending.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import { decodeHead, payloadIn, type RecordHead } from "../epoch/record.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import type { FlowRow, SegmentRow } from "../results/rows.ts";
import type { Accepted } from "./ingest.ts";
import { type OfferedRecord, Pairing, type PairingState, type Span } from "./pairing.ts";

export interface PairingWorkerData {
  directory: string;
  latenessNs: bigint;
  topFlows: number;
  namesWaiting: boolean;
  /** The flags of base/ending.ts. */
  ending: Int32Array;
}

export interface CrossingRecord extends Pick<Accepted, "bytes" | "outcome" | "settled"> {
  /** Null if the record is among `encoded`. */
  head: RecordHead | null;
}

export type PairingOrder =
  | { kind: "watch"; segment: CollectedSegment }
  | { kind: "unwatch"; segment: CollectedSegment }
  /** `encoded`: the checked records without a head here, concatenated as received. The other records are read from the archive. */
  | { kind: "offer"; records: CrossingRecord[]; encoded: Uint8Array }
  | { kind: "resume"; segment: CollectedSegment; latestNs: bigint; doneNs: bigint | undefined }
  | { kind: "again"; point: string; label: string; span: Span }
  | { kind: "work"; id: number };

export type PairingReport =
  | { kind: "rows"; rows: { row: SegmentRow; flows: FlowRow[] }[] }
  | { kind: "refused"; file: string; reason: string }
  | { kind: "late"; head: RecordHead }
  /** Sent while it works. All rows of what the state counts as done were reported before. */
  | { kind: "state"; state: PairingState }
  | { kind: "worked"; id: number; state: PairingState; error: string | null };

/** Most rows per message, and how long the first row waits for more, ms. */
const MAX_ROWS = 200;
const GATHER_MS = 100;
/** Interval of state reports during long work, ms; only if records are named. */
const STATE_MS = 500;

const port = parentPort;
if (port) {
  const { directory, ending, ...options } = workerData as PairingWorkerData;
  mayBeEnded(ending);
  const report = (message: PairingReport) => port.postMessage(message);
  let rows: { row: SegmentRow; flows: FlowRow[] }[] = [];
  let [reportedMs, statedMs, orders] = [0, 0, 0];
  const reportRows = () => {
    if (rows.length > 0) report({ kind: "rows", rows });
    rows = [];
    reportedMs = performance.now();
  };
  const stateNow = (): PairingState => {
    statedMs = performance.now();
    return { ...pairing.state(), orders };
  };
  const pairing = new Pairing({
    ...{ ...options, archive: RecordArchive.open(directory), table: ESTIMATORS },
    onRows: (row, flows) => {
      rows.push({ row, flows });
      const states = options.namesWaiting && performance.now() - statedMs >= STATE_MS;
      if (states || rows.length >= MAX_ROWS || performance.now() - reportedMs >= GATHER_MS) reportRows();
      if (states) report({ kind: "state", state: stateNow() });
    },
    onRefused: (file, reason) => report({ kind: "refused", file, reason }),
    onLate: (head) => report({ kind: "late", head }),
  });
  port.on("message", async (order: PairingOrder) => {
    orders++;
    if (order.kind === "watch") pairing.watch(order.segment);
    else if (order.kind === "unwatch") pairing.unwatch(order.segment);
    else if (order.kind === "offer") pairing.offer(offered(order.records, order.encoded));
    else if (order.kind === "resume") pairing.resume(order.segment, order.latestNs, order.doneNs);
    else if (order.kind === "again") pairing.again(order.point, order.label, order.span);
    else {
      statedMs = performance.now();
      let error: string | null = null;
      try {
        await pairing.work();
      } catch (cause) {
        error = (cause as Error).stack ?? String(cause);
      }
      reportRows();
      report({ kind: "worked", id: order.id, state: stateNow(), error });
    }
  });
}

function offered(records: readonly CrossingRecord[], encoded: Uint8Array): OfferedRecord[] {
  let at = 0;
  return records.map(({ head, bytes, outcome, settled }) => {
    if (head) return { head, record: null, bytes, outcome, settled };
    // A copy of its own, so that the rest of the message can be freed.
    const own = encoded.slice(at, at + bytes);
    at += bytes;
    const decoded = decodeHead(own);
    const record = {
      ...decoded.head,
      get payload() {
        return payloadIn(own, decoded.layout, { file: "record", offset: 0 });
      },
    };
    return { head: decoded.head, record, bytes, outcome, settled };
  });
}

/** The thread that pairs and estimates (pairing.ts): estimates of large records take the processor for a tenth of a second, and the collector goes on taking records and answering meanwhile. */
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
  /** base/ending.ts */
  ending: Int32Array;
}

export interface CrossingRecord extends Pick<Accepted, "bytes" | "outcome" | "settled"> {
  /** Null where it is among `encoded`. */
  head: RecordHead | null;
}

export type PairingOrder =
  | { kind: "watch"; segment: CollectedSegment }
  | { kind: "unwatch"; segment: CollectedSegment }
  /** `encoded`: records without a head, as they came and were checked, one behind the other; the others are read from the archive. */
  | { kind: "offer"; records: CrossingRecord[]; encoded: Uint8Array }
  | { kind: "resume"; segment: CollectedSegment; latestNs: bigint; doneNs: bigint | undefined }
  | { kind: "again"; point: string; label: string; span: Span }
  | { kind: "work"; id: number };

export type PairingReport =
  | { kind: "rows"; rows: { row: SegmentRow; flows: FlowRow[] }[] }
  | { kind: "refused"; file: string; reason: string }
  | { kind: "late"; head: RecordHead }
  /** While it works; rows of what is done by then were reported before. */
  | { kind: "state"; state: PairingState }
  | { kind: "worked"; id: number; state: PairingState; error: string | null };

/** Rows that cross at a time, and how long the first of them waits for more, ms. */
const MAX_ROWS = 200;
const GATHER_MS = 100;
/** Where records are named: how often it says how far it is while it works, ms. */
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
    // Its own memory: the others of the message go when they are done.
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

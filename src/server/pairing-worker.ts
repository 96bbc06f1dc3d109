/** The thread that pairs and estimates (pairing.ts): estimates of large records take the processor for a tenth of a second, and the collector goes on taking records and answering meanwhile. */
import { parentPort, workerData } from "node:worker_threads";
import { RecordArchive } from "../archive/archive.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import { decodeRecord, type RecordHead } from "../epoch/record.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import type { FlowRow, SegmentRow } from "../results/rows.ts";
import type { Accepted } from "./ingest.ts";
import { Pairing, type PairingState, type Span } from "./pairing.ts";

export interface PairingWorkerData {
  directory: string;
  latenessNs: bigint;
  topFlows: number;
  namesWaiting: boolean;
}

export interface OfferedRecord extends Pick<Accepted, "head" | "bytes" | "outcome" | "settled"> {
  /** As it came; null where it is to be read from the archive. */
  encoded: Uint8Array | null;
}

export type PairingOrder =
  | { kind: "watch"; segment: CollectedSegment }
  | { kind: "unwatch"; segment: CollectedSegment }
  | { kind: "offer"; records: OfferedRecord[] }
  | { kind: "resume"; segment: CollectedSegment; latestNs: bigint }
  | { kind: "again"; point: string; label: string; span: Span }
  | { kind: "work"; id: number };

export type PairingReport =
  | { kind: "rows"; row: SegmentRow; flows: FlowRow[] }
  | { kind: "refused"; file: string; reason: string }
  | { kind: "late"; head: RecordHead }
  | { kind: "worked"; id: number; state: PairingState; error: string | null };

const port = parentPort;
if (port) {
  const { directory, ...options } = workerData as PairingWorkerData;
  const report = (message: PairingReport) => port.postMessage(message);
  const pairing = new Pairing({
    ...{ ...options, archive: RecordArchive.open(directory), table: ESTIMATORS },
    onRows: (row, flows) => report({ kind: "rows", row, flows }),
    onRefused: (file, reason) => report({ kind: "refused", file, reason }),
    onLate: (head) => report({ kind: "late", head }),
  });
  port.on("message", async (order: PairingOrder) => {
    if (order.kind === "watch") pairing.watch(order.segment);
    else if (order.kind === "unwatch") pairing.unwatch(order.segment);
    else if (order.kind === "offer") pairing.offer(order.records.map(accepted));
    else if (order.kind === "resume") pairing.resume(order.segment, order.latestNs);
    else if (order.kind === "again") pairing.again(order.point, order.label, order.span);
    else {
      let error: string | null = null;
      try {
        await pairing.work();
      } catch (cause) {
        error = (cause as Error).stack ?? String(cause);
      }
      report({ kind: "worked", id: order.id, state: pairing.state(), error });
    }
  });
}

function accepted({ head, bytes, outcome, settled, encoded }: OfferedRecord) {
  const record = encoded && {
    ...head,
    get payload() {
      return decodeRecord(encoded).payload;
    },
  };
  return { head, record, bytes, outcome, settled };
}

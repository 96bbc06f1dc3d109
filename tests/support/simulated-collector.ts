/**
 * A real collector with a small simulated network: current records of several segments, one of which becomes slow. For tests of the page and its screenshots.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { earlier } from "../../src/base/time.ts";
import { type EpochRecord, encodeRecord } from "../../src/epoch/record.ts";
import { INCIDENT_SETTINGS } from "../../src/network/incidents/incident.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { frameRecord } from "../../src/transport/batch.ts";
import { type ObservedRecords, observedRecords, POINTS } from "./collector-records.ts";

export interface SimulatedSegment {
  from: string;
  to: string;
}

export interface SimulatedCollector {
  server: RunningServer;
  /** Sends the next seconds of a segment. */
  send(segment: SimulatedSegment, seconds: number, slow?: boolean): Promise<void>;
  close(): Promise<void>;
}

const SECOND_NS = 1_000_000_000n;
const LENGTH_S = 60;
export const SLOW_NS = 5_000_000;

/** Returns the records of one simulated minute, moved to other points and times. */
function moved(records: readonly EpochRecord[], { from, to }: SimulatedSegment, byNs: bigint): EpochRecord[] {
  return records.map((record) => {
    const { startNs, endNs } = record.epoch;
    const point = record.point === POINTS.from ? from : to;
    return {
      ...record,
      point,
      segment: `${from}:${to}`,
      epoch: { ...record.epoch, startNs: startNs + byNs, endNs: endNs + byNs },
    };
  });
}

/** Packet records are read in parts, so they are not compressed. */
function framed(records: readonly EpochRecord[]): Buffer {
  return Buffer.concat(
    records.flatMap((r) => frameRecord(encodeRecord(r, { raw: r.estimator === "maple" }))),
  );
}

export async function simulatedCollector(options: {
  segments: readonly SimulatedSegment[];
  estimators: readonly string[];
  /** Start of the records, in seconds before now. */
  beforeS: number;
  ratePps?: number;
  /** The points of a path, monitored for incidents. */
  path?: readonly string[];
}): Promise<SimulatedCollector> {
  const { segments, estimators, beforeS, ratePps = 200 } = options;
  const data = mkdtempSync(join(tmpdir(), "hoptime-page-collector-"));
  const make = (spike: number): Promise<ObservedRecords> =>
    observedRecords(estimators, { seconds: LENGTH_S, ratePps, spike });
  const [normal, slow] = [await make(0), await make(SLOW_NS)];
  const originNs = normal.records.map((r) => r.epoch.startNs).reduce(earlier);
  const paths = options.path ? [{ name: "west to east", points: options.path, estimator: "lda" }] : [];
  const server = await startServer({
    ...{ data, listen: "127.0.0.1:0", tickMs: 50, latenessNs: 2n * SECOND_NS },
    // Evaluates early, because the history is short.
    network: { paths, incidents: { ...INCIDENT_SETTINGS, settleEpochs: 15 } },
  });
  const beginNs = (BigInt(Math.floor(Date.now() / 1000)) - BigInt(beforeS)) * SECOND_NS;
  const sent = new Map<string, number>();
  const send = async (segment: SimulatedSegment, seconds: number, isSlow = false) => {
    const key = `${segment.from}:${segment.to}`;
    for (let left = seconds; left > 0; ) {
      const at = sent.get(key) ?? 0;
      const within = at % LENGTH_S;
      const count = Math.min(left, LENGTH_S - within);
      const fromNs = originNs + BigInt(within) * SECOND_NS;
      const part = (isSlow ? slow : normal).records.filter(
        ({ epoch }) => epoch.startNs >= fromNs && epoch.startNs < fromNs + BigInt(count) * SECOND_NS,
      );
      const byNs = beginNs + BigInt(at - within) * SECOND_NS - originNs;
      const { results } = await server.service.ingest(framed(moved(part, segment, byNs)), null, null);
      const refused = results.find((r) => r.outcome === "refused");
      if (refused) throw new Error(`refused: ${JSON.stringify(refused)}`);
      sent.set(key, at + count);
      left -= count;
    }
  };
  for (const segment of segments)
    server.service.watch({ ...segment, label: `${segment.from}:${segment.to}` });
  return {
    server,
    send,
    close: async () => {
      await server.close();
      rmSync(data, { recursive: true, force: true });
    },
  };
}

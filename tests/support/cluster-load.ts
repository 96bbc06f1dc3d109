/** Records of several segments, epoch by epoch, as taps would publish them: for tests of a cluster or of a single collector. */
import { earlier } from "../../src/base/time.ts";
import { type EpochRecord, encodeRecord } from "../../src/epoch/record.ts";
import { frameRecord } from "../../src/transport/batch.ts";
import { observedRecords, POINTS } from "./collector-records.ts";

export interface LoadSegment {
  from: string;
  to: string;
  label: string;
}

export interface Load {
  segments: readonly LoadSegment[];
  /** Returns the records of all segments for this epoch. */
  epoch(number: number): EpochRecord[];
}

const SECOND_NS = 1_000_000_000n;
const DIFFERENT = 10;

export async function clusterLoad(
  segments: readonly LoadSegment[],
  estimators: readonly string[],
  startNs: bigint,
): Promise<Load> {
  const { records } = await observedRecords(estimators, { seconds: DIFFERENT + 1, ratePps: 200 });
  const first = records.map((r) => r.epoch.startNs).reduce(earlier);
  const numberOf = (r: EpochRecord) => Number((r.epoch.startNs - first) / SECOND_NS);
  return {
    segments,
    epoch: (number) => {
      const own = records.filter((r) => numberOf(r) === number % DIFFERENT);
      const byNs = startNs - first + BigInt(number - (number % DIFFERENT)) * SECOND_NS;
      return segments.flatMap(({ from, to, label }) =>
        own.map((r) => ({
          ...r,
          point: r.point === POINTS.from ? from : to,
          segment: label,
          epoch: {
            ...r.epoch,
            startNs: r.epoch.startNs + byNs,
            endNs: r.epoch.endNs + byNs,
            referenceNs: r.epoch.referenceNs + byNs,
          },
        })),
      );
    },
  };
}

export function framed(records: readonly EpochRecord[]): Buffer {
  return Buffer.concat(records.flatMap((r) => frameRecord(encodeRecord(r))));
}

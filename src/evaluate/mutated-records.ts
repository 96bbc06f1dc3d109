/**
 * Tests records with wrong contents but correct checksums. Whatever they contain, a question must answer the other epochs and name the bad ones. Each round
 * asks a question over epochs of which the first are unchanged and the others mutated, each record in a different way.
 */

import { crc32c } from "../base/bytes.ts";
import type { Kernels } from "../base/kernels.ts";
import { Random } from "../base/random.ts";
import { MemoryRecords } from "../collect/memory-records.ts";
import { type EpochRecord, encodeRecord, headLength } from "../epoch/record.ts";
import { askArchive } from "../query/segment/ask.ts";
import { RECEIVER, type Scenario, SENDER } from "../simulate/scenario.ts";
import { observeScenario } from "./observed-run.ts";

export interface MutationReport {
  mutations: number;
  questions: number;
  /** Number of epochs that were refused by name, over all questions. */
  refused: number;
  /** Questions that did not answer the intact epochs, or that ended with an error. */
  failed: string[];
}

const ESTIMATORS = [
  "lda",
  "flows",
  "lds:rows=2,columns=64",
  "colate:n=256",
  "sds:rows=2,columns=64",
  "maple:index=true,identity=both",
  "rli:quantiles=true",
  "trajectory",
  "multiflow",
  "global-mean",
  "probes",
];
const SCENARIO: Scenario = {
  seed: 5,
  traffic: { kind: "population", ratePps: 400, durationS: 1, flows: 12 },
  path: [{ kind: "delay", model: { kind: "uniform", lowNs: 100_000, highNs: 300_000 } }],
};
const SECOND = 1_000_000_000n;
const INTACT_EPOCHS = 2;
const EPOCHS = 24;

export async function askMutated(kernels: Kernels, mutations: number, seed: number): Promise<MutationReport> {
  const cut = { mode: "aligned", lengthNs: SECOND } as const;
  const { records } = await observeScenario(kernels, SCENARIO, { cut, estimators: ESTIMATORS });
  const originals = records.list().entries.map((entry) => records.readRecord(entry));
  // One full epoch of each tap; the next epoch may contain only the few packets in flight.
  const starts = originals.map((r) => r.epoch.startNs).sort((a, b) => (a < b ? -1 : 1));
  const [firstNs] = starts;
  const taps = originals.filter((r) => r.epoch.startNs === firstNs);
  const random = new Random(seed);
  const report: MutationReport = { mutations: 0, questions: 0, refused: 0, failed: [] };
  while (report.mutations < mutations) {
    const store = new MemoryRecords();
    for (const tap of taps) {
      for (let e = 0; e < EPOCHS; e++) {
        const record = moved(tap, BigInt(e) * SECOND);
        if (e < INTACT_EPOCHS) store.add(record);
        else {
          store.addBytes(record, mutate(record, random));
          report.mutations++;
        }
      }
    }
    report.questions++;
    try {
      const answer = askArchive(store, { between: [SENDER, RECEIVER], top: 5 }, { kernels });
      report.refused += answer.epochs.refused.length;
      const wrong = check(answer.estimates);
      if (wrong !== null) report.failed.push(wrong);
      // The answer must also be valid JSON: NaN and Infinity would become null.
      JSON.stringify(answer);
    } catch (error) {
      report.failed.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
    }
  }
  return report;
}

/** Checks that the intact epochs have an answer and that no number is NaN or infinite. */
function check(estimates: ReturnType<typeof askArchive>["estimates"]): string | null {
  for (const name of ["lda", "lds", "maple", "sds"]) {
    const estimate = estimates[name];
    if (!estimate || estimate.answered.epochs < INTACT_EPOCHS)
      return `${name}: ${estimate?.answered.epochs} epochs have an answer`;
    const { latency } = estimate.answered;
    if (!latency || !Number.isFinite(latency.meanNs + latency.lowNs + latency.highNs))
      return `${name}: ${JSON.stringify(latency)}`;
  }
  return null;
}

function moved(record: EpochRecord, byNs: bigint): EpochRecord {
  const { epoch } = record;
  const bounds = {
    ...epoch,
    startNs: epoch.startNs + byNs,
    endNs: epoch.startNs + byNs + SECOND,
    referenceNs: epoch.referenceNs + byNs,
  };
  return { ...record, epoch: bounds };
}

function mutate(record: EpochRecord, random: Random): Uint8Array {
  const kind = random.below(4);
  if (kind === 0) return mutateBytes(encodeRecord(record, { raw: random.below(2) === 0 }), random);
  if (kind === 1) return encodeRecord(mutateFields(record, random));
  return encodeRecord({ ...record, payload: mutatePayload(record.payload, random) });
}

/** Changes random bytes, then corrects the checksums. */
function mutateBytes(bytes: Uint8Array, random: Random): Uint8Array {
  const head = headLength(bytes);
  for (let n = 1 + random.below(4); n > 0; n--) {
    // Does not change magic, version and head length: without them nothing can be read.
    const at = 12 + random.below(bytes.length - 16);
    bytes[at] = random.below(3) === 0 ? 255 : random.below(256);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  view.setUint32(head - 4, crc32c(bytes.subarray(0, head - 4)), true);
  view.setUint32(bytes.length - 4, crc32c(bytes.subarray(0, bytes.length - 4)), true);
  return bytes;
}

const TEXTS = [
  "",
  "rows=0",
  "colour=blue",
  "rows=4000000000",
  "k=1e309",
  "5tuple,5tuple",
  "\u001b[31m",
  "x".repeat(5000),
];
const COUNTS = [0, 1, 2 ** 31, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER];

function mutateFields(record: EpochRecord, random: Random): EpochRecord {
  const text = TEXTS[random.below(TEXTS.length)] ?? "";
  const count = COUNTS[random.below(COUNTS.length)] ?? 0;
  const { epoch, counters } = record;
  const changes: Partial<EpochRecord>[] = [
    { parameters: text },
    { key: text },
    { payloadVersion: random.below(65_536) },
    { seed: BigInt(random.below(1000)) },
    { fingerprint: BigInt(random.below(1000)) },
    { void: text === "" ? "because" : text },
    { cover: random.below(2 ** 31) },
    { filter: text },
    { counters: { ...counters, packets: count } },
    { counters: { ...counters, dropped: count, frames: count } },
    { epoch: { ...epoch, endNs: epoch.startNs - BigInt(random.below(10)) } },
    { epoch: { ...epoch, referenceNs: epoch.referenceNs + BigInt(random.below(2 ** 31)) * 2n ** 31n } },
    { delayError: { packetNs: 1e300, meanNs: count } },
    { inner: !record.inner },
  ];
  return { ...record, ...changes[random.below(changes.length)] };
}

function mutatePayload(original: Uint8Array, random: Random): Uint8Array {
  const payload = Uint8Array.from(original);
  const at = random.below(Math.max(1, payload.length));
  const view = new DataView(payload.buffer);
  switch (random.below(6)) {
    case 0:
      return payload.subarray(0, at);
    case 1:
      return Uint8Array.from([...payload, ...payload.subarray(at)]);
    case 2:
      for (let i = at; i < Math.min(payload.length, at + 12); i++) payload[i] = 255;
      return payload;
    case 3:
      // Writes NaN, an infinity or a huge number where a double may be.
      if (payload.length >= 8)
        view.setFloat64(
          Math.min(at & ~7, payload.length - 8),
          [Number.NaN, -Infinity, 1e308][random.below(3)] ?? 0,
          true,
        );
      return payload;
    case 4:
      if (payload.length >= 4) view.setUint32(Math.min(at & ~3, payload.length - 4), 0x7fff_fff0, true);
      return payload;
    default:
      for (let n = 1 + random.below(8); n > 0 && payload.length > 0; n--)
        payload[random.below(payload.length)] = random.below(256);
      return payload;
  }
}

/**
 * `hoptime observe`: captures of a point in, its records in an archive out. A run that is killed is repeated, and what is there already stays. One that is
 * ended by its signal has sealed and stored everything up to there.
 */
import { Kernels } from "../base/kernels.ts";
import { VERSION } from "../base/version.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";
import type { EpochRecord } from "../epoch/record.ts";
import type { Role } from "../estimators/estimator.ts";
import { PacketCosts } from "../estimators/packet-costs.ts";
import { formatParameters } from "../estimators/parameters.ts";
import { DirectorySink } from "./directory-sink.ts";
import type { CutChoice } from "./lane.ts";
import { notesOf } from "./notes.ts";
import type { RecordCounts } from "./observe.ts";
import { OBSERVE_COVER, type ObserveCapturesOptions, observeCaptures } from "./observe-captures.ts";
import { checkName, type TapPlan } from "./observer.ts";
import { type LanePlan, planLanes, planTaps, type TapChoice } from "./plan.ts";

export interface ObservePointOptions
  extends LanePlan,
    TapChoice,
    Omit<ObserveCapturesOptions, "kernels" | "lanes" | "taps" | "sink" | "onRecord" | "point"> {
  directory: string;
  /** That the source was made with, where one is given. */
  kernels?: Kernels;
  /** Records of the point that ended longer than this before its newest are removed. */
  keepNs?: bigint;
  /** Of the point's records: the oldest beyond are removed. */
  maxBytes?: number;
}

/** Format hoptime.observation/1. */
export interface ObservationReport {
  format: "hoptime.observation/1";
  hoptime: string;
  point: string;
  directory: string;
  /** As text: aligned 1000000000 ns, delimited 1 in 65536, control. */
  cut: string;
  key: string;
  digestCoverBytes: number;
  seed: string;
  captures: {
    file: string;
    packets: number;
    ipPackets: number;
    skipped: Record<string, number>;
    dropped: number | null;
    partial: string | null;
  }[];
  lanes: { segment: string; role: Role | "both"; filter: string; packets: number; filtered: number }[];
  estimators: { name: string; parameters: string }[];
  /** Of the lane that has most of them. */
  epochs: number;
  /** Epochs that cannot be used, with the reason: the first thousand. */
  voids: { startNs: string; reason: string }[];
  /** Of the records sealed: `merged` with another part of their epoch that was there; `refused` where another record of it was. `removed`: old ones. */
  records: RecordCounts & { removed: number };
  /** Why records were refused: the first few. */
  refused: string[];
  /** Bytes that the taps hold in memory. */
  memoryBytes: number;
  notes: string[];
}

const MAX_VOIDS = 1000;

export async function observePoint(options: ObservePointOptions): Promise<ObservationReport> {
  checkName("point", options.point);
  const { directory, point, keepNs, maxBytes, table } = options;
  const lanes = planLanes(options);
  const taps = planTaps(options);
  const key = FlowKeySpec.parse(options.key).text;
  const kernels = options.kernels ?? new Kernels();
  const costs = new Map<string, PacketCosts>();
  const added = new AddedTable(taps, options.estimators);
  const voids = new Map<bigint, string>();
  const sink = new DirectorySink({ directory, point, keepNs, maxBytes, ...(table ? { table } : {}) });
  const result = await observeCaptures({
    ...options,
    ...{ kernels, lanes, taps, sink },
    onRecord: (record) => {
      noteCosts(kernels, taps, record, costs);
      added.count(record);
      if (record.void !== null && voids.size < MAX_VOIDS) voids.set(record.epoch.startNs, record.void);
    },
  });
  await sink.close();
  // Where nothing at all could be kept, that is the answer.
  const [first] = result.refusals;
  const { records } = result;
  if (first && records.stored + records.unchanged + records.replaced + records.merged === 0) throw first;
  return {
    format: "hoptime.observation/1",
    hoptime: VERSION,
    point,
    directory,
    cut: describeCut(options.cut),
    key,
    digestCoverBytes: options.cover ?? OBSERVE_COVER,
    seed: (options.seed ?? DEFAULT_SEED).toString(),
    captures: result.captures.map(({ file, packets, ipPackets, skipped, dropped, partial }) => ({
      ...{ file, packets, ipPackets, skipped, dropped, partial },
    })),
    lanes: lanes.map((lane, i) => {
      const { packets = 0, filtered = 0 } = result.lanes[i] ?? {};
      return { ...lane, packets, filtered };
    }),
    estimators: taps.map(({ estimator, parameters }) => ({
      name: estimator.name,
      parameters: formatParameters(estimator, parameters, true),
    })),
    epochs: result.epochs,
    voids: [...voids].map(([startNs, reason]) => ({ startNs: startNs.toString(), reason })),
    records: { ...records, removed: sink.removed },
    refused: result.refusals.map((error) => error.message),
    memoryBytes: result.memoryBytes,
    notes: [
      ...notesOf(result, options),
      ...added.notes(),
      ...[...costs].flatMap(([name, cost]) => (cost.packets > 0 ? [`${name}: ${cost.text()}`] : [])),
    ],
  };
}

/** What the payloads of estimators that answer for packets take, by purpose. */
function noteCosts(
  kernels: Kernels,
  taps: readonly TapPlan[],
  { estimator: name, payload, counters }: EpochRecord,
  costs: Map<string, PacketCosts>,
): void {
  const open = taps.find((t) => t.estimator.name === name)?.estimator.packets;
  if (!open) return;
  const lookup = open.open(
    kernels,
    (offset, length) => payload.subarray(offset, offset + length),
    payload.length,
  );
  const known = costs.get(name) ?? new PacketCosts();
  known.add(lookup.costs(), counters.packets);
  costs.set(name, known);
  lookup.free();
}

/** What a flow table costs that nobody asked for. */
class AddedTable {
  readonly #name: string | null;
  readonly #for: string;
  #bytes = 0;
  #packets = 0;

  constructor(taps: readonly TapPlan[], asked: readonly string[]) {
    const extra = taps.find(({ estimator }) => estimator.flowList && !asked.includes(estimator.name));
    this.#name = extra?.estimator.name ?? null;
    const needing = taps.filter(
      ({ estimator }) => estimator.needs.sender && estimator.needs.flows !== "none",
    );
    this.#for = needing.map(({ estimator }) => estimator.name).join(", ");
  }

  count({ estimator, payload, counters }: EpochRecord): void {
    if (estimator !== this.#name) return;
    this.#bytes += payload.length;
    this.#packets += counters.packets;
  }

  notes(): string[] {
    if (this.#name === null || this.#packets === 0) return [];
    const bits = ((8 * this.#bytes) / this.#packets).toPrecision(2);
    return [
      `a flow table (${this.#name}) was added for ${this.#for}: about ${bits} bit per packet before packing; ‘flow-table never’ leaves it out, and flow records or flows named in the question take its place`,
    ];
  }
}

function describeCut(cut: CutChoice): string {
  if (cut.mode === "aligned") return `aligned ${cut.lengthNs} ns`;
  return cut.mode === "delimited" ? `delimited 1 in ${cut.every}` : "control";
}

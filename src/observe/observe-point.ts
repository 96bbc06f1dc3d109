/**
 * `hoptime observe`: captures of a point in, its records in an archive out. Records go to disk in groups while the captures are read; a run that is
 * killed is repeated, and what is there already stays.
 */
import { RecordArchive, type StoreItem, type StoreResult } from "../archive/archive.ts";
import { retain } from "../archive/retention.ts";
import { invalidValue, UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { VERSION } from "../base/version.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";
import type { ReferenceDelaysOptions } from "../delays/reference-delays.ts";
import type { EpochRecord } from "../epoch/record.ts";
import type { Estimator, Role } from "../estimators/estimator.ts";
import { PacketCosts } from "../estimators/packet-costs.ts";
import { formatParameters, parseParameters } from "../estimators/parameters.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import {
  type CutChoice,
  type Lane,
  OBSERVE_COVER,
  type ObserveCapturesResult,
  observeCaptures,
  type SenderCaptures,
} from "./observe-captures.ts";
import { checkName, type TapPlan } from "./observer.ts";

export interface ObservePointOptions {
  files: readonly string[];
  point: string;
  directory: string;
  /** Names of estimators. */
  estimators: readonly string[];
  /** Parameters by estimator, as written. */
  parameters?: Readonly<Record<string, string>>;
  cut: CutChoice;
  role?: Role | "both";
  filter?: string;
  /** `A:B=expression`: packets that cross from A to B; the point is one of the two. */
  segments?: readonly string[];
  /** `name=expression`: traffic classes, each with taps of its own. */
  classes?: readonly string[];
  key?: string;
  cover?: number;
  inner?: boolean;
  seed?: bigint;
  /** The sender's captures, for estimators that need each packet's delay. */
  sender?: SenderCaptures;
  /** Or the reference packets in the captures tell the delays. */
  references?: ReferenceDelaysOptions;
  keepNs?: bigint;
  maxBytes?: number;
  /** The list to choose from. */
  table?: readonly Estimator[];
  onProgress?: (doneBytes: number, totalBytes: number | null, packets: number) => void;
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
  epochs: number;
  /** Epochs that cannot be used, with the reason. */
  voids: { startNs: string; reason: string }[];
  records: { stored: number; unchanged: number; replaced: number; bytes: number; removed: number };
  /** Bytes that the taps hold in memory. */
  memoryBytes: number;
  notes: string[];
}

/** Written together, at most: enough for syncing in parallel, little enough to lose no time when killed. */
const GROUP_RECORDS = 64;
const GROUP_BYTES = 8 << 20;
const MIN_COVER = 48;

export async function observePoint(options: ObservePointOptions): Promise<ObservationReport> {
  checkName("point", options.point);
  const lanes = planLanes(options);
  const taps = planTaps(options);
  const key = FlowKeySpec.parse(options.key).text;
  let archive: RecordArchive | null = null;
  const waiting: StoreItem[] = [];
  let waitingBytes = 0;
  const records: StoreResult = { stored: 0, unchanged: 0, replaced: 0, bytes: 0 };
  const seen = new Watch();
  const kernels = new Kernels();
  const costs = new Map<string, PacketCosts>();
  const store = async () => {
    const group = waiting.splice(0);
    waitingBytes = 0;
    const result = await archive!.store(group);
    for (const what of ["stored", "unchanged", "replaced", "bytes"] as const) records[what] += result[what];
  };
  const result = await observeCaptures({
    ...options,
    kernels,
    lanes,
    taps,
    onBegin: async () => {
      archive = await RecordArchive.create(options.directory);
    },
    onRecord: (record, encode) => {
      seen.record(record);
      noteCosts(kernels, taps, record, costs);
      waiting.push({ record, options: encode });
      waitingBytes += record.payload.length;
    },
    afterBatch: async () => {
      if (waiting.length >= GROUP_RECORDS || waitingBytes >= GROUP_BYTES) await store();
    },
    ...(options.onProgress ? { onProgress: options.onProgress } : {}),
  });
  await store();
  const { keepNs, maxBytes } = options;
  let removed = 0;
  if (keepNs !== undefined || maxBytes !== undefined) {
    const olderThanNs = keepNs === undefined ? undefined : seen.lastNs - keepNs;
    removed = retain(options.directory, { olderThanNs, maxBytes }).removed;
  }
  return {
    format: "hoptime.observation/1",
    hoptime: VERSION,
    point: options.point,
    directory: options.directory,
    cut: describeCut(options.cut),
    key,
    digestCoverBytes: options.cover ?? OBSERVE_COVER,
    seed: (options.seed ?? DEFAULT_SEED).toString(),
    captures: result.captures.map(({ file, packets, ipPackets, skipped, dropped, partial }) => ({
      ...{ file, packets, ipPackets, skipped, dropped, partial },
    })),
    lanes: lanes.map((lane, i) => ({ ...lane, ...result.lanes[i]! })),
    estimators: taps.map(({ estimator, parameters }) => ({
      name: estimator.name,
      parameters: formatParameters(estimator, parameters, true),
    })),
    epochs: seen.epochs.size,
    voids: [...seen.voids].map(([startNs, reason]) => ({ startNs: startNs.toString(), reason })),
    records: { ...records, removed },
    memoryBytes: result.memoryBytes,
    notes: [
      ...notesOf(result, seen, options),
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

/** What the records tell while they pass. */
class Watch {
  readonly epochs = new Set<bigint>();
  readonly voids = new Map<bigint, string>();
  lastNs = 0n;
  short = 0;
  backward = 0;
  #counted = new Set<string>();

  record({ epoch, counters, segment, void: reason }: EpochRecord): void {
    this.epochs.add(epoch.startNs);
    if (epoch.endNs > this.lastNs) this.lastNs = epoch.endNs;
    if (reason !== null) this.voids.set(epoch.startNs, reason);
    // Every tap of a lane has the same counters: once is enough.
    const name = `${segment}\n${epoch.startNs}\n${epoch.startId}`;
    if (this.#counted.has(name)) return;
    this.#counted.add(name);
    this.short += counters.short;
    this.backward += counters.backward;
  }
}

function planLanes({ point, role, filter, segments, classes }: ObservePointOptions): Lane[] {
  const both = (expression: string) => {
    if (filter === undefined || filter === "") return expression;
    return expression === "" ? filter : `(${filter}) and (${expression})`;
  };
  const lanes: Lane[] = [];
  for (const text of segments ?? []) {
    const { name, expression } = named("segment", text, "A:B=dst net 10.2.0.0/16");
    const ends = name.split(":");
    if (ends.length !== 2 || ends.some((e) => e === "")) {
      throw invalidValue("segment", text, "SENDER:RECEIVER=EXPRESSION");
    }
    // One list of segments serves all points: those of others are not ours to watch.
    if (ends[0] === point) lanes.push({ segment: name, role: "sender", filter: both(expression) });
    if (ends[1] === point) lanes.push({ segment: name, role: "receiver", filter: both(expression) });
  }
  if ((segments?.length ?? 0) > 0 && lanes.length === 0) {
    throw new UsageError(
      "bad-option",
      `no segment begins or ends at ${point}`,
      "name the point as in ‘segment A:B=…’",
      { parameter: "segment", value: segments },
    );
  }
  for (const text of classes ?? []) {
    const { name, expression } = named("class", text, "gold=dscp 46");
    lanes.push({ segment: name, role: role ?? "both", filter: both(expression) });
  }
  const names = lanes.map((l) => l.segment);
  const twice = names.find((n, i) => names.indexOf(n) !== i);
  if (twice !== undefined) throw new UsageError("bad-option", `'${twice}' is given twice`);
  if (lanes.length === 0) lanes.push({ segment: "", role: role ?? "both", filter: both("") });
  return lanes;
}

function named(parameter: string, text: string, example: string): { name: string; expression: string } {
  const equals = text.indexOf("=");
  const name = text.slice(0, Math.max(0, equals)).trim();
  const expression = text.slice(equals + 1).trim();
  if (equals < 0 || name === "" || expression === "") {
    throw invalidValue(parameter, text, `NAME=EXPRESSION, e.g. '${example}'`);
  }
  checkName(parameter, name);
  return { name, expression };
}

/** The estimators asked for, and a flow table where one of them can only answer for flows that are listed. */
function planTaps(options: ObservePointOptions): TapPlan[] {
  const table = options.table ?? ESTIMATORS;
  const chosen: Estimator[] = [];
  for (const name of options.estimators) {
    const found = table.find((e) => e.name === name);
    if (!found) {
      const known = table.map((e) => e.name).join(", ");
      throw new UsageError("bad-option", `there is no estimator '${name}'`, `there are: ${known}`);
    }
    if (!chosen.includes(found)) chosen.push(found);
  }
  if (chosen.length === 0)
    throw new UsageError("bad-option", "no estimator is named", undefined, { parameter: "estimators" });
  // One that keeps records at the receiver only is no list for the sender's sketches.
  const lists = chosen.some((e) => e.flowList?.atSender);
  const lister = table.find((e) => e.flowList?.atSender);
  // A sketch of both ends tells of flows only by name: the list of names comes with it.
  const asked = chosen.some((e) => e.needs.sender && e.needs.flows !== "none");
  if (lister && !lists && options.role !== "receiver" && asked) chosen.push(lister);
  return chosen.map((estimator) => ({
    estimator,
    parameters: parseParameters(estimator, options.parameters?.[estimator.name]),
  }));
}

function describeCut(cut: CutChoice): string {
  if (cut.mode === "aligned") return `aligned ${cut.lengthNs} ns`;
  return cut.mode === "delimited" ? `delimited 1 in ${cut.every}` : "control";
}

function notesOf(result: ObserveCapturesResult, seen: Watch, options: ObservePointOptions): string[] {
  const notes: string[] = [];
  const cover = options.cover ?? OBSERVE_COVER;
  if (seen.short > 0) {
    const minimum = Math.min(...result.captures.flatMap((c) => c.shorts.map(([bytes]) => bytes)));
    // Less is no identity: such packets stay told apart by what there is.
    const smaller = Math.max(MIN_COVER, minimum);
    const advice = smaller < cover ? `: observe both points with ‘cover ${smaller}’` : "";
    notes.push(
      `${seen.short} packets are cut within the first ${cover} bytes that tell packets apart, and may look different at the other point${advice}`,
    );
  }
  if (result.delays) {
    const { matched, unmatched, reversed } = result.delays;
    notes.push(`${matched} packets were found at the sender, ${unmatched} were not`);
    if (reversed > 0) {
      notes.push(`${reversed} packets go the other way and have no delay`);
    }
  }
  if (result.references) {
    const { references, filled, oneSided, unanswered, lost, duplicate, reordered, forged } =
      result.references;
    notes.push(
      `${references} references told the delays of ${filled} packets (${oneSided} from one side only), of ${unanswered} nothing; ${lost} references were lost, ${duplicate} came twice, ${reordered} were overtaken, ${forged} not believed`,
      "delays were interpolated between references: how far that is off, per epoch, is in the records and in the intervals of those who ask",
    );
  }
  if (seen.backward > 0)
    notes.push(`${seen.backward} packets are stamped before the epoch they were counted in`);
  for (const capture of result.captures) if (capture.partial) notes.push(capture.partial);
  if (result.captures.every((c) => c.ipPackets === 0))
    notes.push("there are no IP packets: no record was written");
  for (const lane of result.lanes) {
    if (lane.packets === 0 && lane.filtered > 0) {
      notes.push(`no packet passes the filter${lane.segment === "" ? "" : ` of ${lane.segment}`}`);
    }
  }
  if (options.cut.mode === "control" && seen.epochs.size === 0)
    notes.push("there are no Start and End messages in the capture");
  return notes;
}

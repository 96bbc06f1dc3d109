/**
 * `hoptime observe`: reads the captures of a point and stores its records in an archive. A run that was killed can be repeated; existing records
 * stay. A run ended by its signal has sealed and stored everything up to then.
 */
import { checkList, checkText, isText } from "../base/checks.ts";
import { Kernels } from "../base/kernels.ts";
import { VERSION } from "../base/version.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";
import { checkCut } from "../epoch/cutter.ts";
import type { Role } from "../estimators/estimator.ts";
import { formatParameters } from "../estimators/parameters.ts";
import { HttpSink, type HttpSinkOptions } from "../transport/http/http-sink.ts";
import { NatsSink } from "../transport/nats/nats-sink.ts";
import { isNatsUrl } from "../transport/nats/nats-url.ts";
import type { NatsSinkOptions } from "../transport/nats/sink-options.ts";
import type { SpooledSinkCounts } from "../transport/spooled-sink.ts";
import { DirectorySink } from "./directory-sink.ts";
import type { CutChoice } from "./lane.ts";
import { notesOf } from "./notes.ts";
import { OBSERVE_COVER, type ObserveCapturesOptions } from "./observe-captures.ts";
import type { KernelOptions } from "./observe-kernel.ts";
import { observeWays, separatedNote, type WaysPlan } from "./observe-ways.ts";
import { checkName, type TapPlan } from "./observer.ts";
import type { RecordCounts } from "./outbox.ts";
import { type LanePlan, planTaps, type TapChoice } from "./plan.ts";
import type { RecordSink } from "./record-sink.ts";

export interface ObservePointOptions
  extends LanePlan,
    TapChoice,
    WaysPlan,
    Omit<ObserveCapturesOptions, "kernels" | "lanes" | "taps" | "sink" | "onRecord" | "point"> {
  /** The archive directory, or the address of a collector or cluster. */
  directory: string;
  /** Set if records are sent to a collector. */
  collector?: SendOptions | undefined;
  /** Observes the interface with programs in the kernel. */
  ebpf?: KernelOptions;
  /** The kernels that `source` was made with, if given. */
  kernels?: Kernels;
  /** Removes records of the point that ended longer than this before its newest. */
  keepNs?: bigint;
  /** Upper bound on the point's records; the oldest beyond it are removed. */
  maxBytes?: number;
}

/** Options of HttpSink or NatsSink. The address, which decides between them, is `directory`. */
export type SendOptions = Omit<HttpSinkOptions, "url"> & Omit<NatsSinkOptions, "url">;

/** Report of an observation, format hoptime.observation/1. */
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
  /** What each estimator wrote, in total and per packet observed; bits are null if nothing was observed or written. */
  estimators: {
    name: string;
    parameters: string;
    records: number;
    bytes: number;
    bitsPerPacket: number | null;
  }[];
  /** Number of epochs of the lane with the most. */
  epochs: number;
  /** Void epochs with the reason; at most the first thousand. */
  voids: { startNs: string; reason: string }[];
  /**
   * Outcomes of the sealed records. `merged`: with a stored part of the same epoch; `refused`: another record of the epoch was stored. `removed`:
   * old records.
   */
  records: RecordCounts & { removed: number };
  /**
   * If records went to a collector: what it accepted and refused, what waits in the spool, what was dropped for lack of space. `stored` counts
   * those in the spool.
   */
  collector?: SpooledSinkCounts;
  /** Why records were refused; the first few reasons. */
  refused: string[];
  /** Memory held by the taps. */
  memoryBytes: number;
  notes: string[];
}

export async function observePoint(options: ObservePointOptions): Promise<ObservationReport> {
  checkName("point", options?.point);
  checkText("directory", options.directory, "a directory, or a collector's address");
  if (options.source === undefined) checkList("files", options.files, "a list of captures", isText);
  checkCut(options.cut);
  const { directory, point, keepNs, maxBytes, table } = options;
  const taps = planTaps(options);
  const key = FlowKeySpec.parse(options.key).text;
  const kernels = options.kernels ?? new Kernels();
  const { collector } = options;
  const far = { ...collector, url: directory, spoolDirectory: collector?.spoolDirectory ?? "" };
  const remote = collector ? await (isNatsUrl(directory) ? NatsSink.open(far) : HttpSink.open(far)) : null;
  const local = new DirectorySink({ directory, point, keepNs, maxBytes, ...(table ? { table } : {}) });
  const sink: RecordSink = remote ?? local;
  const observing = { ...options, ...{ kernels, taps, sink } };
  const { result, lanes, costs, voids, networks } = await observeWays(observing, options, options.ebpf).catch(
    async (error: unknown) => {
      // Records sealed before are in the spool; closing sends them as far as time permits.
      await remote?.close();
      throw error;
    },
  );
  await sink.close();
  // If no record could be stored at all, the first refusal is thrown.
  const [first] = result.refusals;
  const { records } = result;
  const packets = result.lanes.reduce((n, lane) => n + lane.packets, 0);
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
    estimators: taps.map(({ estimator, parameters }) => {
      const own = result.written.get(estimator.name) ?? { records: 0, bytes: 0 };
      return {
        name: estimator.name,
        parameters: formatParameters(estimator, parameters, true),
        ...own,
        bitsPerPacket: packets > 0 && own.bytes > 0 ? (8 * own.bytes) / packets : null,
      };
    }),
    epochs: result.epochs,
    voids: [...voids].map(([startNs, reason]) => ({ startNs: startNs.toString(), reason })),
    records: { ...records, removed: local.removed },
    ...(remote ? { collector: remote.counts } : {}),
    refused: [...result.refusals.map((error) => error.message), ...(remote?.refusals ?? [])],
    memoryBytes: result.memoryBytes,
    notes: [
      ...notesOf(result, options),
      ...unnamedFlows(taps),
      ...(networks ? [separatedNote(networks, result.lanes)] : []),
      ...[...costs].flatMap(([name, cost]) => (cost.packets > 0 ? [`${name}: ${cost.text()}`] : [])),
    ],
  };
}

/** Note on sketches that can be queried only by flow name when nothing lists the flows. */
function unnamedFlows(taps: readonly TapPlan[]): string[] {
  const listed = taps.some(({ estimator }) => estimator.flowList);
  const needing = taps.filter(
    ({ estimator: { needs, flowList } }) => needs.sender && needs.flows !== "none" && !flowList,
  );
  if (listed || needing.length === 0) return [];
  const names = needing.map(({ estimator }) => estimator.name).join(", ");
  return [
    `${names} keeps no flow keys: name flows in the question, give flow records, or observe with ‘with-flows’`,
  ];
}

function describeCut(cut: CutChoice): string {
  if (cut.mode === "aligned") return `aligned ${cut.lengthNs} ns`;
  return cut.mode === "delimited" ? `delimited 1 in ${cut.every}` : "control";
}

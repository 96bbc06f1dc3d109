/**
 * Writes a simulation to files for other tools: one capture per point, truth.json (totals, hops, flows) and, with `packets`, the fate of every packet
 * as CSV. The captures come from one run and the other files from a second run of the same scenario, so they agree packet by packet.
 */
import { closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import { writeFailure } from "../base/directory.ts";
import { type Kernels, memoryError } from "../base/kernels.ts";
import { turnOf } from "../base/turn.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { formatFlowKey } from "../capture/flow/flow-text.ts";
import { type OwnPayload, OwnPayloads, type PcapOptions, PcapWriter } from "./pcap-writer.ts";
import { PendingFiles } from "./pending-files.ts";
import { type Scenario, SIMULATED_FLAG } from "./scenario.ts";
import { type Offered, type Simulation, simulate } from "./simulate.ts";
import type { HopStatistics } from "./stage.ts";
import { FlowTruthTable } from "./truth.ts";

const TRUTH_FORMAT = "hoptime.truth/1";
const HELD = "packets on their way, and the truth of each flow";

export interface TruthFile {
  format: typeof TRUTH_FORMAT;
  scenario: Omit<Scenario, "inject">;
  seed: number;
  offered: Offered;
  totals: TruthTotals;
  hops: readonly HopStatistics[];
  files: { point: string; file: string; packets: number }[];
  flows: TruthFlow[];
}

/** Totals over all packets of the traffic; probes and reference packets are counted separately. */
export interface TruthTotals {
  sent: number;
  lost: number;
  flows: number;
  bytes: number;
  meanNs: number | null;
  deviationNs: number | null;
  minNs: number | null;
  maxNs: number | null;
  own: { sent: number; lost: number };
}

export interface TruthFlow {
  flow: string;
  sent: number;
  lost: number;
  bytes: number;
  meanNs: number | null;
  deviationNs: number | null;
  minNs: number | null;
  maxNs: number | null;
}

export interface ExportOptions extends PcapOptions {
  /** Also write packets.csv: one line per packet. */
  packets?: boolean;
  /** Payload of probes and of the injector's reference packets; default: none. */
  ownPayload?: OwnPayload;
  /** Aborts the export; no file is left behind. */
  signal?: AbortSignal;
}

export async function exportSimulation(
  kernels: Kernels,
  scenario: Scenario,
  directory: string,
  options: ExportOptions = {},
): Promise<TruthFile> {
  const simulation = simulate(kernels, scenario, { signal: options.signal });
  const files = new PendingFiles(directory);
  try {
    const truth = await write(kernels, simulation, files, options);
    files.commit();
    return truth;
  } catch (error) {
    files.discard();
    if (options.signal?.aborted) throw error;
    throw (
      memoryError(error, HELD, "a lower ‘rate’ or a shorter ‘duration’") ?? writeFailure(directory, error)
    );
  }
}

async function write(
  kernels: Kernels,
  simulation: Simulation,
  files: PendingFiles,
  options: ExportOptions,
): Promise<TruthFile> {
  const writers = new Map<string, PcapWriter>();
  const turn = turnOf(options.signal);
  const payloads = options.ownPayload ? new OwnPayloads(options.ownPayload) : null;
  try {
    for (const point of simulation.points)
      writers.set(
        point,
        new PcapWriter(kernels, files.path(`${point}.pcap`), simulation.seed, options, payloads),
      );
    for await (const { point, batch } of simulation.observe()) {
      writers.get(point)?.write(batch);
      await turn();
      options.signal?.throwIfAborted();
    }
  } finally {
    for (const writer of writers.values()) writer.close();
  }
  const table = new FlowTruthTable(kernels);
  const own = { sent: 0, lost: 0 };
  const lines = options.packets ? new PacketLines(files.path("packets.csv")) : null;
  try {
    for await (const batch of simulation.combined()) {
      await turn();
      options.signal?.throwIfAborted();
      countOwn(batch, own);
      lines?.write(batch);
      table.update(batch);
    }
    const { inject: _, ...plain } = simulation.scenario;
    const truth: TruthFile = {
      format: TRUTH_FORMAT,
      scenario: plain,
      seed: simulation.seed,
      offered: await simulation.offered(),
      totals: totals(table, own),
      hops: simulation.statistics,
      files: [...writers].map(([point, w]) => ({ point, file: `${point}.pcap`, packets: w.packets })),
      flows: Array.from(table, (f) => ({
        flow: formatFlowKey(f.key),
        sent: f.sent,
        lost: f.lost,
        bytes: f.bytes,
        meanNs: f.meanNs,
        deviationNs: f.deviationNs,
        minNs: f.minNs,
        maxNs: f.maxNs,
      })),
    };
    writeTruth(files.path("truth.json"), truth);
    return truth;
  } finally {
    lines?.close();
    table.free();
  }
}

const OWN = SIMULATED_FLAG.probe | SIMULATED_FLAG.reference;

function countOwn(batch: PacketBatch, own: { sent: number; lost: number }): void {
  const { flags, delayNs, count } = batch;
  for (let i = 0; i < count; i++) {
    if ((flags[i]! & OWN) === 0) continue;
    own.sent += 1;
    if (Number.isNaN(delayNs[i]!)) own.lost += 1;
  }
}

function totals(table: FlowTruthTable, own: TruthTotals["own"]): TruthTotals {
  const sum = (name: Parameters<FlowTruthTable["column"]>[0]) =>
    table.column(name).reduce((total, x) => total + x, 0);
  const sent = sum("sent");
  const lost = sum("lost");
  const arrived = sent - lost;
  const mean = arrived > 0 ? sum("sum") / arrived : null;
  return {
    sent,
    lost,
    flows: table.size,
    bytes: sum("bytes"),
    meanNs: mean,
    deviationNs: mean === null ? null : Math.sqrt(Math.max(0, sum("squares") / arrived - mean * mean)),
    minNs: arrived > 0 ? table.column("minimum").reduce((a, b) => Math.min(a, b)) : null,
    maxNs: arrived > 0 ? table.column("maximum").reduce((a, b) => Math.max(a, b)) : null,
    own,
  };
}

/** Writes one flow per line: a million flows would not fit into one string. */
function writeTruth(path: string, truth: TruthFile): void {
  const { flows, ...head } = truth;
  const fd = openSync(path, "w");
  try {
    writeSync(fd, `${JSON.stringify(head, null, 1).slice(0, -2)},\n "flows": [`);
    for (let i = 0; i < flows.length; i += 4096) {
      const part = flows.slice(i, i + 4096).map((f) => `\n  ${JSON.stringify(f)}`);
      writeSync(fd, `${i > 0 ? "," : ""}${part.join(",")}`);
    }
    writeSync(fd, "\n ]\n}\n");
  } finally {
    closeSync(fd);
  }
}

/** Writes packets.csv: send time (ns after the origin), delay in ns (empty: lost), length in bytes, and which kind of own packet it is. */
class PacketLines {
  readonly #fd: number;
  constructor(path: string) {
    writeFileSync(path, "sent_ns,delay_ns,bytes,own\n");
    this.#fd = openSync(path, "a");
  }
  write(batch: PacketBatch): void {
    const { timeNs, delayNs, wireLength, flags, count } = batch;
    let text = "";
    for (let i = 0; i < count; i++) {
      const delay = delayNs[i]!;
      const f = flags[i]!;
      const own = (f & SIMULATED_FLAG.probe) !== 0 ? "probe" : (f & OWN) !== 0 ? "reference" : "";
      text += `${timeNs[i]!},${Number.isNaN(delay) ? "" : delay},${wireLength[i]!},${own}\n`;
    }
    writeSync(this.#fd, text);
  }
  close(): void {
    closeSync(this.#fd);
  }
}

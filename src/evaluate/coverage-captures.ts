/**
 * Measures coverage on capture files, in the way an operator would work. A simulated segment is written to two files, each with the packets of both directions,
 * as on a router's interfaces. The files are observed with the filter of one direction (with `observe --sender` at the receiver if an estimator needs the delay
 * of each packet), and questions are answered from the archive.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RecordArchive } from "../archive/archive.ts";
import type { Kernels } from "../base/kernels.ts";
import { required } from "../base/lists.ts";
import type { CutPlan } from "../epoch/cutter.ts";
import { findAmong } from "../estimators/parameters.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { observePoint } from "../observe/observe-point.ts";
import { exportSimulation, type TruthFile } from "../simulate/export.ts";
import { type Clock, type Prefix, RECEIVER, type Scenario, SENDER } from "../simulate/scenario.ts";
import type { CoverageRun, CoverageTruth } from "./coverage.ts";

export interface CaptureCase {
  scenario: Scenario;
  cut: CutPlan;
  estimators: readonly string[];
  /** Clock of the receiving point, in both directions. */
  clock?: Clock;
}

const CLIENTS: Prefix[] = [{ prefix: "10.0.0.0/8", share: 1 }];
const SERVERS: Prefix[] = [{ prefix: "172.16.0.0/12", share: 1 }];
/** Direction under measurement: from the clients to the servers. */
const FILTER = "src net 10.0.0.0/8";
const WINDOW_NS = 2_000_000_000;

export async function observeCapturesOf(
  kernels: Kernels,
  { scenario, cut, estimators, clock }: CaptureCase,
): Promise<CoverageRun> {
  const { mode } = cut;
  if (mode === "control") throw new Error("captures of a router have no control packets");
  const directory = mkdtempSync(join(tmpdir(), "hoptime-coverage-"));
  try {
    const there = await exportWay(kernels, { ...scenario, ...clocks(RECEIVER, clock) }, directory, "there");
    const back = { ...scenario, seed: (scenario.seed ?? 0) + 500_000, ...clocks(SENDER, clock) };
    await exportWay(kernels, back, directory, "back");
    const file = (way: string, point: string) => join(directory, way, `${point}.pcap`);
    const [before, after] = [join(directory, "a.pcap"), join(directory, "b.pcap")];
    mergeCaptures(read(file("there", SENDER)), routed(read(file("back", RECEIVER))), before);
    mergeCaptures(routed(read(file("there", RECEIVER))), read(file("back", SENDER)), after);
    const records = join(directory, "records");
    const atSender = estimators.filter((e) => findAmong(ESTIMATORS, e).needs.sender);
    const common = { directory: records, filter: FILTER, cut };
    await observePoint({ ...common, files: [before], point: SENDER, estimators: atSender });
    await observePoint({
      ...{ ...common, files: [after], point: RECEIVER, estimators },
      sender: { files: [before], windowNs: WINDOW_NS },
    });
    const done = () => rmSync(directory, { recursive: true, force: true });
    return { records: RecordArchive.open(records), truth: truthOf(there, clock), done };
  } catch (error) {
    rmSync(directory, { recursive: true, force: true });
    throw error;
  }
}

/** A clock error belongs to one machine: the receiver of one direction, which is the sender of the other. */
function clocks(point: string, clock: Clock | undefined): Pick<Scenario, "clocks"> {
  return clock ? { clocks: { [point]: clock } } : {};
}

function exportWay(kernels: Kernels, scenario: Scenario, directory: string, way: "there" | "back") {
  const { traffic } = scenario;
  if (traffic.kind !== "synthetic") throw new Error("traffic of both directions is synthetic");
  const [sources, targets] = way === "there" ? [CLIENTS, SERVERS] : [SERVERS, CLIENTS];
  const keys = { ...traffic.keys, sources, targets };
  return exportSimulation(kernels, { ...scenario, traffic: { ...traffic, keys } }, join(directory, way));
}

/** Returns the true delays by the points' clocks. These cases contain clock offsets, but no skew. */
function truthOf({ totals, flows }: TruthFile, clock: Clock | undefined): CoverageTruth {
  const offsetNs = clock?.offsetNs ?? 0;
  return {
    packets: totals.sent - totals.lost,
    lost: totals.lost,
    meanNs: required(totals.meanNs, "the mean of all packets") + offsetNs,
    stdevNs: required(totals.deviationNs, "the deviation of all packets"),
    flows: new Map(
      flows.flatMap(({ flow, sent, lost, meanNs, deviationNs }) =>
        meanNs === null
          ? []
          : [[flow, { packets: sent - lost, meanNs: meanNs + offsetNs, stdevNs: deviationNs ?? 0 }] as const],
      ),
    ),
  };
}

const FILE_HEAD = 24;
const PACKET_HEAD = 16;

/** Offset of the TTL in an IPv4 packet without link header. */
const TTL_AT = 8;

const read = (file: string) => readFileSync(file);

/** Decrements the TTL of every packet, as a router does. */
function routed(file: Buffer): Buffer {
  for (let at = FILE_HEAD; at < file.length; at += PACKET_HEAD + file.readUInt32LE(at + 8)) {
    const ttl = at + PACKET_HEAD + TTL_AT;
    file.writeUInt8(file.readUInt8(ttl) - 1, ttl);
  }
  return file;
}

/** Merges two captures with the same kind of header, in time order. */
function mergeCaptures(a: Buffer, b: Buffer, to: string): void {
  const parts: Buffer[] = [a.subarray(0, FILE_HEAD)];
  let [i, j] = [FILE_HEAD, FILE_HEAD];
  while (i < a.length || j < b.length) {
    const first = j >= b.length || (i < a.length && timeOf(a, i) <= timeOf(b, j));
    const [from, at] = first ? [a, i] : [b, j];
    const end = at + PACKET_HEAD + from.readUInt32LE(at + 8);
    parts.push(from.subarray(at, end));
    if (first) i = end;
    else j = end;
  }
  writeFileSync(to, Buffer.concat(parts));
}

/** Returns ns since 1970. A double cannot represent them exactly, but they still sort. */
function timeOf(file: Buffer, at: number): number {
  return file.readUInt32LE(at) * 1e9 + file.readUInt32LE(at + 4);
}

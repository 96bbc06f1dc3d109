/**
 * The triangle of the paper's section 6.2: points A, B and C, each sending to the other two. Compares what A and B can say about the segment from A to B if
 * each keeps one vector for all its packets, or one vector per peer, chosen by the peer's network (as with `observe --segment`).
 */

import type { Kernels } from "../base/kernels.ts";
import { entryAt, required } from "../base/lists.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { type CompiledFilter, compileFilter } from "../capture/filter/filter.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";
import { colate } from "../estimators/colate/colate.ts";
import { type EstimatorAnswer, isNoAnswer, type KnownFlows, type Tap } from "../estimators/estimator.ts";
import { parseParameters } from "../estimators/parameters.ts";
import { referenceTraffic } from "../simulate/presets.ts";
import type { Scenario } from "../simulate/scenario.ts";
import { simulate } from "../simulate/simulate.ts";
import { FlowTruthTable } from "../simulate/truth.ts";
import { arrive } from "./both-ends.ts";
import { type FlowRun, scoreFlows } from "./flow-runs.ts";

export const TRIANGLE_CASES = [
  "not separated",
  "a vector per peer",
  "a vector per peer in the same memory",
] as const;
export type TriangleCase = (typeof TRIANGLE_CASES)[number];

export interface TriangleAnswer {
  coverage: number;
  /** Share of the flows of at least 500 packets that are answered, and their median error. */
  answered: number;
  median: number;
  /** Relative errors of the answered flows. */
  errors: readonly number[];
  /** The answer says that foreign packets were counted. */
  foreign: boolean;
  /** Memory and payload of one point for its two peers together. */
  memoryBytes: number;
  payloadBytes: number;
}

const NETWORKS = { A: "10.1.0.0/16", B: "10.2.0.0/16", C: "10.3.0.0/16" } as const;
type Name = keyof typeof NETWORKS;
/** Streams that pass A's egress or B's ingress. */
const STREAMS = ["AB", "AC", "CB"] as const;
const COUNTERS = 16_384;
/** Minimum packets of a flow that is evaluated. */
const LARGE = 500;

export async function runTriangle(
  kernels: Kernels,
  seed: bigint,
  trafficSeed = 11,
): Promise<Record<TriangleCase, TriangleAnswer>> {
  const textOf = (name: TriangleCase) =>
    `n=${name === "a vector per peer in the same memory" ? COUNTERS / 2 : COUNTERS},m=2,vectors=1`;
  const taps = TRIANGLE_CASES.map((name) => {
    const open = (): Tap => {
      const tap = colate.createTap({ kernels, role: "sender", seed }, parseParameters(colate, textOf(name)));
      tap.begin(0);
      return tap;
    };
    return { name, sender: open(), receiver: open() };
  });
  const filters = {
    sender: compileFilter(`dst net ${NETWORKS.B}`, kernels),
    receiver: compileFilter(`src net ${NETWORKS.A}`, kernels),
  };
  const truth = new FlowTruthTable(kernels);
  const mask = FlowKeySpec.parse().store(kernels);
  for (const [i, stream] of STREAMS.entries()) {
    const [from, to] = [...stream] as [Name, Name];
    for await (const batch of simulate(kernels, streamOf(from, to, trafficSeed + i)).combined()) {
      kernels.call.keyFlows(batch.address, mask, DEFAULT_SEED);
      if (stream === "AB") truth.updateKeyed(batch);
      const pass = (end: "sender" | "receiver") => {
        const peer = isPicked(batch, filters[end]);
        for (const tap of taps) {
          if (peer || tap.name === "not separated") tap[end].update(batch, 0, batch.count);
        }
      };
      if (from === "A") pass("sender");
      arrive(batch);
      if (to === "B") pass("receiver");
    }
  }
  const run = truthOf(truth);
  truth.free();
  kernels.free(mask);
  const out = taps.map(({ name, sender, receiver }): [TriangleCase, TriangleAnswer] => {
    const vectors = name === "not separated" ? 1 : 2;
    const memoryBytes = vectors * sender.memoryBytes;
    const sealed = { sender: sender.seal(), receiver: receiver.seal() };
    for (const tap of [sender, receiver]) tap.free();
    const parameters = parseParameters(colate, textOf(name));
    const flows = { ...run.flows, complete: name !== "not separated" };
    const answer = colate.estimate({ parameters, seed, ...sealed, flows, confidence: 0.95, epochNs: 2e9 });
    const score = entryAt(scoreFlows(run, answer, [[LARGE, Number.POSITIVE_INFINITY]]), 0);
    return [
      name,
      {
        coverage: required(answer.segment, "the segment's estimate").coverage,
        answered: score.answered / score.flows,
        median: score.median,
        errors: errorsOf(run, answer),
        foreign: answer.notes.join().includes("counted at the receiver only"),
        memoryBytes,
        payloadBytes: vectors * sealed.sender.payload.length,
      },
    ];
  });
  return Object.fromEntries(out) as Record<TriangleCase, TriangleAnswer>;
}

function errorsOf({ flows, meanNs }: FlowRun, { flows: answers }: EstimatorAnswer): number[] {
  return answers.flatMap(({ flow, mean }) =>
    isNoAnswer(mean) || flows.packets[flow]! < LARGE ? [] : [Math.abs(mean.valueNs / meanNs[flow]! - 1)],
  );
}

function streamOf(from: Name, to: Name, seed: number): Scenario {
  const keys = { sources: [{ prefix: NETWORKS[from] }], targets: [{ prefix: NETWORKS[to] }] };
  return {
    seed,
    traffic: referenceTraffic({ durationS: 2, ratePps: 200_000, keys }),
    path: [{ kind: "delay", model: { kind: "per-flow" } }],
  };
}

/** Returns whether the filter accepts a batch. A stream belongs to one direction, so it accepts either all packets of a batch or none. */
function isPicked(batch: PacketBatch, filter: CompiledFilter): boolean {
  filter.select(batch);
  const plane = batch.column("select");
  const select = batch.kernels.u8.subarray(plane, plane + batch.count);
  const kept = select.reduce((s, x) => s + (x !== 0 ? 1 : 0), 0);
  if (kept !== 0 && kept !== batch.count) throw new Error("a stream that goes two ways");
  return kept > 0;
}

function truthOf(truth: FlowTruthTable): FlowRun {
  const sent = truth.column("sent");
  const meanNs = truth.column("sum").map((s, f) => s / sent[f]!);
  const flows: KnownFlows = {
    ...{ count: sent.length, hash: truth.hashes(), packets: sent, bytes: sent, complete: true },
    keyWords: new Uint32Array(10 * sent.length),
  };
  return { flows, received: sent, meanNs, stdevNs: meanNs, sealed: [] };
}

/**
 * Runs one simulated segment past the taps of any estimators, with true delays per flow, as one epoch. Packets reach each end in order of their arrival there.
 */

import type { Kernels } from "../base/kernels.ts";
import { entryAt } from "../base/lists.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";
import type {
  Estimator,
  EstimatorAnswer,
  KnownFlows,
  ParameterValues,
  Role,
  SealedEpoch,
  Tap,
} from "../estimators/estimator.ts";
import { RECEIVER, type Scenario, SENDER } from "../simulate/scenario.ts";
import { simulate } from "../simulate/simulate.ts";
import type { HopStatistics } from "../simulate/stage.ts";
import { FlowTruthTable } from "../simulate/truth.ts";

export interface Contestant {
  /** Name in reports; default: the estimator's own. */
  name?: string;
  estimator: Estimator;
  parameters: ParameterValues;
}

/** True values of the packets that arrived, without references and probes. */
export interface SegmentTruth {
  packets: number;
  meanNs: number;
  stdevNs: number;
  flows: KnownFlows;
  /** By flow, in the order of `flows`. */
  flowMeanNs: Float64Array;
  flowStdevNs: Float64Array;
}

export interface Entry {
  name: string;
  answer: EstimatorAnswer;
  senderBytes: number;
  receiverBytes: number;
}

export interface SegmentRun {
  truth: SegmentTruth;
  entries: Entry[];
  hops: readonly HopStatistics[];
}

export interface RunOptions {
  confidence?: number;
  seed?: bigint;
  key?: FlowKeySpec;
}

export async function runSegment(
  kernels: Kernels,
  scenario: Scenario,
  contestants: readonly Contestant[],
  options: RunOptions = {},
): Promise<SegmentRun> {
  const seed = options.seed ?? DEFAULT_SEED;
  const key = options.key ?? FlowKeySpec.parse();
  const truth = new FlowTruthTable(kernels, { key });
  const mask = key.store(kernels);
  const ends = contestants.map(({ estimator, parameters }) => {
    const open = (role: Role): Tap => {
      const tap = estimator.createTap({ kernels, role, seed }, parameters);
      tap.begin(0, 0n);
      return tap;
    };
    return { sender: estimator.needs.sender ? open("sender") : null, receiver: open("receiver") };
  });
  const needed = ends.some((e) => e.sender) ? [SENDER, RECEIVER] : [RECEIVER];
  const simulation = simulate(kernels, scenario);
  let lastNs = 0;
  try {
    for await (const { point, batch } of simulation.observe(needed)) {
      kernels.call.keyFlows(batch.address, mask, DEFAULT_SEED);
      for (const { sender, receiver } of ends) {
        (point === SENDER ? sender : receiver)?.update(batch, 0, batch.count);
      }
      if (point !== RECEIVER) continue;
      truth.updateKeyed(batch);
      lastNs = batch.timeNs[batch.count - 1]!;
    }
    const known = readTruth(truth);
    const entries = contestants.map(({ name, estimator, parameters }, i): Entry => {
      const taps = entryAt(ends, i);
      const sender: SealedEpoch | null = taps.sender?.seal() ?? null;
      const receiver = taps.receiver.seal();
      const answer = estimator.estimate({
        parameters,
        seed,
        sender,
        receiver,
        flows: known.flows,
        confidence: options.confidence ?? 0.95,
        epochNs: lastNs,
      });
      const bytes = { senderBytes: sender?.payload.length ?? 0, receiverBytes: receiver.payload.length };
      return { name: name ?? estimator.name, answer, ...bytes };
    });
    return { truth: known, entries, hops: simulation.statistics };
  } finally {
    for (const { sender, receiver } of ends) {
      sender?.free();
      receiver.free();
    }
    truth.free();
    kernels.free(mask);
  }
}

export function readTruth(table: FlowTruthTable): SegmentTruth {
  const count = table.size;
  const packets = table.column("sent");
  const sum = table.column("sum");
  const squares = table.column("squares");
  const flowMeanNs = new Float64Array(count);
  const flowStdevNs = new Float64Array(count);
  const keyWords = new Uint32Array(10 * count);
  const total = { packets: 0, sum: 0, squares: 0 };
  for (let i = 0; i < count; i++) {
    const n = packets[i]!;
    flowMeanNs[i] = sum[i]! / n;
    flowStdevNs[i] = Math.sqrt(Math.max(0, squares[i]! / n - flowMeanNs[i]! ** 2));
    total.packets += n;
    total.sum += sum[i]!;
    total.squares += squares[i]!;
  }
  for (let i = 0; i < count; i++) keyWords.set(table.keyWords(i), 10 * i);
  const meanNs = total.sum / total.packets;
  return {
    packets: total.packets,
    meanNs,
    stdevNs: Math.sqrt(Math.max(0, total.squares / total.packets - meanNs * meanNs)),
    flows: { count, hash: table.hashes(), packets, bytes: table.column("bytes"), keyWords, complete: true },
    flowMeanNs,
    flowStdevNs,
  };
}

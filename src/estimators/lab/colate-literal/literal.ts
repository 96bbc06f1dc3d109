/**
 * COLATE as in sections 3 to 5 of the paper: the counter of a packet is drawn anew at each point, counters hold only times, and each end is denoised by itself.
 * It is here for comparison, not for use: the noise is other flows' *times*, which are thousands of times the delays, so estimates are off by factors of 10^3
 * to 10^6. docs/estimators/colate.md measures it.
 *
 *   denoise.ts      equations (2), (4) and (7)      deviation.ts    (9), (10), and their closed form
 *   parameters.ts   (11) to (15) and (22)
 *
 * The draw is a hash of the packet's digest and its time at this point, so that sealing and merging stay reproducible. The two ends draw differently.
 */

import { UsageError } from "../../../base/errors.ts";
import { normalQuantile } from "../../../base/math/special.ts";
import { Random } from "../../../base/random.ts";
import type { PacketBatch } from "../../../capture/batch.ts";
import { createCounters, fingerprintOf, placesOf } from "../../colate/layout.ts";
import { memoryBytes } from "../../colate/tap.ts";
import type {
  EstimateInput,
  Estimator,
  EstimatorAnswer,
  FlowEstimate,
  Interval,
  NoAnswer,
  SealedEpoch,
  Tap,
  TapContext,
} from "../../estimator.ts";
import { denoise, type FlowAtPoint, timeSum, timeSumVariance } from "./denoise.ts";
import { virtualRepetitions } from "./deviation.ts";
import {
  completeLiteral,
  dumpAt,
  LITERAL_PARAMETERS,
  type LiteralParameters,
  vectorOf,
} from "./parameters.ts";
import { decodeLiteral, encodeLiteral, type LiteralCounters, mergeLiteral } from "./payload.ts";

class LiteralTap implements Tap {
  readonly memoryBytes: number;
  readonly #context: TapContext;
  readonly #parameters: LiteralParameters;
  readonly #address: number;
  #startNs = 0;
  #packets = 0;

  constructor(context: TapContext, parameters: LiteralParameters) {
    this.#context = context;
    this.#parameters = parameters;
    const draw = BigInt.asUintN(
      64,
      (context.role === "sender" ? 0x5e4dn : 0x4eceb1n) * 0x9e37_79b9_7f4a_7c15n + context.seed,
    );
    this.#address = createCounters(context.kernels, vectorOf(parameters), context.seed, draw);
    this.memoryBytes = memoryBytes(vectorOf(parameters));
  }

  begin(epochStartNs: number): void {
    this.#startNs = epochStartNs;
  }

  update(batch: PacketBatch, from: number, to: number): void {
    this.#context.kernels.call.colateUpdate(this.#address, batch.address, from, to, this.#startNs);
    this.#packets += to - from;
  }

  /** Returns true if the sum of all counters has reached T. */
  isFull(): boolean {
    const total = BigInt.asUintN(64, this.#context.kernels.call.colateTotal(this.#address) as bigint);
    return Number(total) >= dumpAt(this.#parameters);
  }

  seal(): SealedEpoch {
    const { kernels, seed } = this.#context;
    const { n, m, b, unit } = this.#parameters;
    const start = (kernels.call.colateCells(this.#address) >>> 0) >>> 3;
    const cells = kernels.u64.subarray(start, start + 2 * n);
    const counters: LiteralCounters = {
      ...{ n, m, b, shift: Math.log2(unit), fingerprint: fingerprintOf(vectorOf(this.#parameters), seed) },
      sum: Float64Array.from({ length: n }, (_, c) => Number(BigInt.asUintN(b, cells[2 * c]!))),
    };
    const sealed = { payload: encodeLiteral(counters), packets: this.#packets };
    kernels.call.colateClear(this.#address);
    this.#packets = 0;
    return sealed;
  }

  free(): void {
    this.#context.kernels.call.colateFree(this.#address);
  }
}

function estimateLiteral(input: EstimateInput<LiteralParameters>): EstimatorAnswer {
  const { parameters, seed, sender, receiver, flows, confidence } = input;
  const notes = [
    "COLATE as published: intervals follow its equation (2), which counts the noise E[t^2] / E[t] times too low; use the estimator colate",
  ];
  const none = (text: string): EstimatorAnswer => {
    const why: NoAnswer = { reason: "no-packets", text };
    const segment = {
      mean: why,
      stdev: why,
      sent: sender?.packets ?? null,
      received: receiver?.packets ?? null,
    };
    return {
      segment: { ...segment, lost: null, packetsUsed: 0, coverage: 0, notes },
      flows: Array.from({ length: flows?.count ?? 0 }, (_, flow) => ({
        ...{ flow, mean: why, stdev: why, packets: null, lost: null },
      })),
      notes,
    };
  };
  if (!sender || !receiver) return none(`the ${sender ? "receiver" : "sender"}'s epoch is missing`);
  if (sender.packets === 0 || receiver.packets === 0) return none("one end saw no packet in this epoch");
  const before = decodeLiteral(sender, parameters, seed);
  const after = decodeLiteral(receiver, parameters, seed);
  const total = (c: LiteralCounters) => c.sum.reduce((s, x) => s + x, 0);
  const totals = [total(before), total(after)] as const;
  const whole = sender.packets === receiver.packets;
  const meanNs = ((totals[1] - totals[0]) / receiver.packets) * parameters.unit;
  const different: NoAnswer = {
    reason: "no-usable-cells",
    text: "the ends counted different numbers of packets: no vector of the whole is usable (section 1.4)",
  };
  const answers: FlowEstimate[] = [];
  if (flows && flows.count > 0) {
    const places = placesOf(vectorOf(parameters), seed, flows.hash.subarray(0, 2 * flows.count));
    const random = new Random(1);
    const z = normalQuantile(0.5 + confidence / 2);
    for (let f = 0; f < flows.count; f++) {
      const cells = places.subarray(f * parameters.m, (f + 1) * parameters.m);
      const at = (c: LiteralCounters, sum: number): FlowAtPoint => ({
        counters: Float64Array.from(cells, (i) => c.sum[i]!),
        total: sum,
        n: parameters.n,
      });
      const ends = { sender: at(before, totals[0]), receiver: at(after, totals[1]) };
      answers.push(flowEstimate(f, flows.packets[f]!, ends, parameters, z, random));
    }
  }
  return {
    segment: {
      mean: whole ? { valueNs: meanNs, lowNs: meanNs, highNs: meanNs } : different,
      stdev: { reason: "not-supported", text: "the paper's method is for flows" },
      sent: sender.packets,
      received: receiver.packets,
      lost: Math.max(0, sender.packets - receiver.packets),
      packetsUsed: whole ? receiver.packets : 0,
      coverage: whole ? 1 : 0,
      notes,
    },
    flows: answers,
    notes,
  };
}

/** Sections 4.1 and 4.2.3 for one flow. */
function flowEstimate(
  flow: number,
  packets: number,
  ends: { sender: FlowAtPoint; receiver: FlowAtPoint },
  { unit, repetitions }: LiteralParameters,
  z: number,
  random: Random,
): FlowEstimate {
  if (!(packets > 0)) {
    const why: NoAnswer = {
      reason: "too-much-noise",
      text: "its number of packets is not known (section 4.1 takes it from NetFlow)",
    };
    return { flow, mean: why, stdev: why, packets: null, lost: null };
  }
  const sent = timeSum(ends.sender);
  const received = timeSum(ends.receiver);
  const mean = (received - sent) / packets; // (3)
  const variance = timeSumVariance(ends.sender, sent) + timeSumVariance(ends.receiver, received);
  const half = (z * Math.sqrt(variance)) / packets;
  const interval: Interval = {
    valueNs: mean * unit,
    lowNs: (mean - half) * unit,
    highNs: (mean + half) * unit,
  };
  const before = denoise(ends.sender, sent);
  const after = denoise(ends.receiver, received);
  const squares = virtualRepetitions(
    after.map((w, j) => w - before[j]!),
    repetitions,
    random,
  ); // (9), (10)
  const delayVariance = squares / packets - mean * mean; // (5)
  const deviation = Math.sqrt(Math.max(0, delayVariance)) * unit;
  const spread = Math.sqrt(2 / (after.length - 1)) / 2;
  const stdev: Interval | NoAnswer =
    delayVariance > 0
      ? {
          valueNs: deviation,
          lowNs: deviation * Math.max(0, 1 - z * spread),
          highNs: deviation * (1 + z * spread),
        }
      : { reason: "too-much-noise", text: "the second moment is below the squared mean" };
  return { flow, mean: interval, stdev, packets, lost: null };
}

export const colateLiteral: Estimator<LiteralParameters> = {
  name: "colate-literal",
  version: 1,
  title: "COLATE as published, for comparison: its estimates are off by orders of magnitude",
  text: {
    answers: "Mean and standard deviation per flow as the paper computes them, to show that they fail.",
    needs: "A tap at both points, synchronised clocks, and the packets of each flow.",
    cost: "A counter of b bits for every few packets; one counter update per packet.",
    example: "hoptime compare a.pcap b.pcap ‘estimators colate,colate-literal’",
  },
  answers: ["segment", "flow"],
  needs: { sender: true, delays: false, flows: "required" },
  parameters: LITERAL_PARAMETERS,
  roleMatters: true,
  complete: completeLiteral,
  createTap: (context, parameters) => new LiteralTap(context, parameters),
  merge(a, b, parameters) {
    const merged = mergeLiteral(decodeLiteral(a, parameters), decodeLiteral(b, parameters));
    return { payload: encodeLiteral(merged), packets: a.packets + b.packets };
  },
  rebase() {
    throw new UsageError(
      "mismatch",
      "colate-literal cannot count its times from another instant: its counters hold no packet counts",
      "use epochs that are cut at the same instants at both points",
    );
  },
  estimate: estimateLiteral,
};

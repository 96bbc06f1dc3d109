/**
 * Active probes: the mean delay of hoptime's own packets, sent at random times (`hoptime simulate` with probes; STAMP packets on the wire), as an estimate for
 * all packets. Baseline: what ping-like tools measure. Poisson probes see time averages (PASTA), which differ from what packets see if traffic is bursty. Flows
 * are not distinguished.
 */
import type { Kernels } from "../../../base/kernels.ts";
import type { PacketBatch } from "../../../capture/batch.ts";
import { STAMP_PORT } from "../../../delays/stamp.ts";
import type {
  Estimator,
  NoAnswer,
  ParameterSpec,
  ParameterValues,
  SealedEpoch,
  Tap,
  TapContext,
} from "../../estimator.ts";
import { defaultParameters } from "../../parameters.ts";
import { DelaySums } from "../delay-sums.ts";
import { samplingFingerprint } from "../sampling.ts";
import { sizeProbes } from "./size.ts";

export interface ProbeParameters extends ParameterValues {
  port: number;
  session: number;
}

/** Size of the result of kernels/rli/reference-finder.ts for a reference; the delay comes first. */
const FOUND_BYTES = 16;
const PROBE_FLAG = 1 << 23;
const NAME = "probes payload";
const LONGEST_NS = 10e9;

class ProbesTap implements Tap {
  readonly memoryBytes = 256;
  readonly #kernels: Kernels;
  readonly #finder: number;
  readonly #found: number;
  readonly #fingerprint: number;
  #sums = new DelaySums();
  #packets = 0;

  constructor({ kernels, seed }: TapContext, parameters: ProbeParameters) {
    this.#kernels = kernels;
    kernels.ensure(FOUND_BYTES);
    this.#finder = kernels.call.referenceFinderNew(parameters.port, parameters.session, LONGEST_NS, 0) >>> 0;
    this.#found = kernels.alloc(FOUND_BYTES);
    this.#fingerprint = samplingFingerprint(seed, `${parameters.port},${parameters.session}`);
  }

  begin(_epochStartNs: number, originNs: bigint = 0n): void {
    this.#kernels.call.referenceFinderOrigin(this.#finder, originNs);
  }

  update(batch: PacketBatch, from: number, to: number): void {
    const { flags, delayNs } = batch;
    this.#sums.addAll(delayNs, (i) => (flags[i]! & PROBE_FLAG) !== 0, from, to);
    if (batch.header[from] !== 0) this.#findStamps(batch, from, to);
    this.#packets += to - from;
  }

  #findStamps(batch: PacketBatch, from: number, to: number): void {
    const { call } = this.#kernels;
    for (let row = from; row < to; row++) {
      row = call.referenceFind(this.#finder, batch.address, row, to, this.#found, 0) >>> 0;
      if (row >= to) return;
      this.#sums.addAll([this.#kernels.f64[this.#found >>> 3]!], () => true, 0, 1);
    }
  }

  seal(): SealedEpoch {
    const sealed = { payload: this.#sums.encode(this.#fingerprint), packets: this.#packets };
    this.#sums = new DelaySums();
    this.#packets = 0;
    return sealed;
  }

  free(): void {
    this.#kernels.free(this.#found);
    this.#kernels.call.referenceFinderFree(this.#finder);
  }
}

const PARAMETERS: readonly ParameterSpec[] = [
  {
    name: "port",
    kind: "integer",
    default: STAMP_PORT,
    min: 1,
    max: 65_535,
    help: "UDP port that probes are sent to",
  },
  {
    name: "session",
    kind: "integer",
    default: -1,
    min: -1,
    max: 65_535,
    help: "STAMP session of the probes; -1 takes any",
  },
];

export const probes: Estimator<ProbeParameters> = {
  name: "probes",
  version: 1,
  title: "active probes",
  text: {
    answers: "Mean and standard deviation of the delay of probe packets, taken as that of all packets.",
    needs:
      "Probes that cross the segment (hoptime reference, or any STAMP sender) and synchronised clocks; a tap at the receiver.",
    cost: "86 bytes on the wire per probe; 52 bytes per epoch.",
    example: "hoptime observe b.pcap ‘point B’ ‘estimators probes’",
  },
  answers: ["segment"],
  needs: { sender: false, delays: false, flows: "none", injected: "probe" },
  parameters: PARAMETERS,
  complete: (values) => values as ProbeParameters,
  createTap: (context, parameters) => new ProbesTap(context, parameters),
  merge: (a, b) => DelaySums.merge(NAME, a, b),
  rebase: (sealed) => sealed,
  estimate({ receiver, parameters, seed, confidence }) {
    const print = samplingFingerprint(seed, `${parameters.port},${parameters.session}`);
    const sums = receiver ? DelaySums.decode(NAME, receiver, print).sums : new DelaySums();
    const none: NoAnswer = { reason: "no-usable-cells", text: "fewer than two probes arrived" };
    const packets = receiver ? receiver.packets - sums.count : null;
    return {
      segment: {
        ...sums.describe(confidence, none),
        sent: null,
        received: packets,
        lost: null,
        packetsUsed: sums.count,
        coverage: 0,
        notes: sums.count > 0 ? ["the delay of probes is taken as that of all packets"] : [],
      },
      flows: [],
      notes: [],
    };
  },
  sizing: { size: (request) => sizeProbes(request, defaultParameters(PARAMETERS) as ProbeParameters) },
};

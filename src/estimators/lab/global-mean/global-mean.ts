/**
 * The global mean: every flow gets the mean delay of all packets (figure 1 of rli-ton). Baseline: the best that an aggregate can say about a flow, since the
 * mean itself is exact. A flow's interval is as wide as the spread of single packets. Needs the delay of each packet.
 */
import { normalQuantile } from "../../../base/math/special.ts";
import type { PacketBatch } from "../../../capture/batch.ts";
import type {
  Estimator,
  Interval,
  NoAnswer,
  ParameterValues,
  SealedEpoch,
  Tap,
  TapContext,
} from "../../estimator.ts";
import { DelaySums } from "../delay-sums.ts";
import { samplingFingerprint } from "../sampling.ts";

const NAME = "global-mean payload";
const OWN = (1 << 22) | (1 << 23);

class GlobalMeanTap implements Tap {
  readonly memoryBytes = 128;
  readonly #fingerprint: number;
  #sums = new DelaySums();
  #packets = 0;

  constructor({ seed }: TapContext) {
    this.#fingerprint = samplingFingerprint(seed, "");
  }

  begin(_epochStartNs: number): void {
    // Delays do not depend on the epoch's start.
  }

  update(batch: PacketBatch, from: number, to: number): void {
    const { flags, delayNs } = batch;
    this.#sums.addAll(delayNs, (i) => (flags[i]! & OWN) === 0, from, to);
    this.#packets += to - from;
  }

  seal(): SealedEpoch {
    const sealed = { payload: this.#sums.encode(this.#fingerprint), packets: this.#packets };
    this.#sums = new DelaySums();
    this.#packets = 0;
    return sealed;
  }

  free(): void {
    // Holds no memory.
  }
}

export const globalMean: Estimator<ParameterValues> = {
  name: "global-mean",
  version: 1,
  title: "the mean of all packets, for every flow",
  text: {
    answers: "Exact mean and standard deviation of the segment; every flow gets the mean of all.",
    needs: "The delay of every packet at the receiver (the sender's capture, or reference packets).",
    cost: "52 bytes per epoch.",
    example: "hoptime compare a.pcap b.pcap ‘estimators global-mean’",
  },
  answers: ["segment", "flow"],
  needs: { sender: false, delays: true, flows: "names" },
  parameters: [],
  complete: (values) => values,
  createTap: (context) => new GlobalMeanTap(context),
  merge: (a, b) => DelaySums.merge(NAME, a, b),
  rebase: (sealed) => sealed,
  estimate({ receiver, seed, flows, confidence }) {
    const sums = receiver
      ? DelaySums.decode(NAME, receiver, samplingFingerprint(seed, "")).sums
      : new DelaySums();
    const none: NoAnswer = { reason: "no-packets", text: "no packet with a known delay was seen" };
    const moments = sums.moments();
    const exact = (valueNs: number) => ({ valueNs, lowNs: valueNs, highNs: valueNs });
    // All packets were counted, so the segment's values are exact.
    const mean = moments ? exact(moments.mean) : none;
    const stdev = moments ? exact(Math.sqrt(moments.variance)) : none;
    // The distance of a flow's mean is unknown, but on average not larger than that of single packets.
    const half = moments ? normalQuantile(0.5 + confidence / 2) * Math.sqrt(moments.variance) : 0;
    const ofFlow: Interval | NoAnswer = moments
      ? { valueNs: moments.mean, lowNs: moments.mean - half, highNs: moments.mean + half }
      : none;
    const spread: NoAnswer = moments
      ? {
          reason: "not-supported",
          text: "the mean of all packets says nothing about the spread within a flow",
        }
      : none;
    return {
      segment: {
        mean,
        stdev,
        sent: null,
        received: receiver?.packets ?? null,
        lost: null,
        packetsUsed: sums.count,
        coverage: receiver && receiver.packets > 0 ? sums.count / receiver.packets : 0,
        notes: [],
      },
      flows: Array.from(flows?.packets.subarray(0, flows.count) ?? [], (known, flow) => ({
        ...{ flow, mean: ofFlow, stdev: spread, lost: null },
        packets: Number.isNaN(known) ? null : known,
      })),
      notes: [],
    };
  },
};

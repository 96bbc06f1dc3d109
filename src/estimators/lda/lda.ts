/**
 * The Lossy Difference Aggregator (Kompella, Levchenko, Snoeren, Varghese: Router Support for Fine-Grained Latency Measurements, IEEE/ACM ToN 2012, section
 * III). Both ends add up the times of packets in rows chosen by hash. If a row counted the same packets at both ends, the difference of its sums is the sum of
 * their delays.
 *
 * Guarantee: mean, standard deviation and loss of a segment from 16 kB per epoch, whatever the number of packets; each with an interval. Assumes: synchronised
 * clocks (an offset is fully part of the mean), the same packets at both ends (selected by a filter), packets that differ from each other. Loss spoils the rows
 * it hits; banks with lower sampling rates are kept for higher loss. Fails: with more losses than rows in every bank there is no answer, and the reason is
 * reported. Foreign packets are detected (stream-check.ts). Packets of both directions counted at both ends are not: their delays cancel.
 *
 *   sampling.ts      who is sampled by which bank        payload.ts   the bytes of a sealed epoch
 *   tap.ts           the updating half                   delays.ts    mean, deviation and their intervals
 *   stream-check.ts  do both ends count one stream       size.ts      a geometry for expected traffic
 */
import type { Estimator } from "../estimator.ts";
import { estimateLda } from "./estimate.ts";
import { completeLda, LDA_PARAMETERS, type LdaParameters } from "./parameters.ts";
import { decodeRows, encodeRows, mergeRows, rebaseRows } from "./payload.ts";
import { sizeLda } from "./size.ts";
import { kernelPart, LdaTap } from "./tap.ts";

export const lda: Estimator<LdaParameters> = {
  name: "lda",
  version: 1,
  title: "Lossy Difference Aggregator: mean, standard deviation and loss of a segment",
  text: {
    answers:
      "Mean and standard deviation of the delay and the number of lost packets, for all packets of a segment together.",
    needs: "A tap at both points, synchronised clocks, and the same packets at both (use the same filter).",
    cost: "16 kB per epoch and point, whatever the number of packets; one hash and one counter update per packet.",
    example: "hoptime observe a.pcap ‘point A’ ‘estimators lda’ ‘lda packets=400000’",
  },
  answers: ["segment"],
  needs: { sender: true, delays: false, flows: "none" },
  parameters: LDA_PARAMETERS,
  complete: completeLda,
  createTap: (context, parameters) => new LdaTap(context, parameters),
  merge(a, b, parameters) {
    const merged = mergeRows(decodeRows(a, parameters), decodeRows(b, parameters));
    return { payload: encodeRows(merged), packets: a.packets + b.packets };
  },
  estimate: estimateLda,
  rebase(sealed, earlierNs, parameters) {
    const rows = rebaseRows(decodeRows(sealed, parameters), BigInt(Math.trunc(earlierNs)));
    return { payload: encodeRows(rows), packets: sealed.packets };
  },
  kernel: { part: kernelPart },
  sizing: { size: sizeLda },
};

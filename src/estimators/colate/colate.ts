/**
 * COLATE (Shahzad, Liu: Noise can help: accurate and efficient per-flow latency measurement without packet probing and time stamping, SIGMETRICS 2014), in a
 * form that works. Every packet's time is added to one of a few shared counters of its flow. The difference of the two ends' counters is denoised at query
 * time. Costs one hash and one memory update per packet, and a tenth of a bit to two bits per packet stored.
 *
 * Built as written, the method fails (../lab/colate-literal/, docs/estimators/colate.md). The differences here: a packet's digest chooses its counter, so that
 * a counter holds the same packets at both ends and times cancel; counters are modular and checked one by one by their counts; flows are decoded together.
 *
 * Guarantee: the mean delay of each known flow, with an interval that holds as often as stated; the larger the flow, the better. Assumes: synchronised clocks,
 * the same packets at both ends, known packets per flow (from a flow table at one end, flow records or the question). Fails: loss spoils the counters it hits;
 * vectors with few packets are kept for that case. Small flows get "too much noise". Packets that only one end sees (other senders, other paths) spoil
 * counters: use a vector per peer (a filter at both ends). The coverage shows whether that is needed.
 *
 *   layout.ts      which counter is whose             payload.ts    the bytes of a sealed epoch
 *   tap.ts         the updating half                  difference.ts sums of delays, where both ends agree
 *   flow-graph.ts  flows laid over the counters       jitter.ts     how packets vary within flows
 *   blup.ts        all flows at once                  quick.ts      one flow at a time
 *   deviation.ts   of flows that own their counters   segment.ts    the mean over all packets
 *   size.ts        a geometry for expected traffic    predict.ts    its expected accuracy
 */
import type { Estimator } from "../estimator.ts";
import { estimateColate } from "./estimate.ts";
import { COLATE_PARAMETERS, type ColateParameters, completeColate, forFewFlows } from "./parameters.ts";
import { decodeCounters, encodeCounters, mergeCounters, rebaseCounters } from "./payload.ts";
import { sizeColate } from "./size.ts";
import { ColateTap, kernelPart, kernelPlaces } from "./tap.ts";

export const colate: Estimator<ColateParameters> = {
  name: "colate",
  version: 2,
  reads: [1],
  title: "COLATE: mean delay of flows from shared counters",
  text: {
    answers: "Mean delay of every flow that is listed, and of the segment; the larger the flow, the better.",
    needs:
      "A tap at both points, synchronised clocks, and the packets of each flow: a flow table (observed beside it) or flow records.",
    cost: "A tenth of a bit to two bits per packet and point, and one counter update per packet; the flow table costs about 26 bytes per flow.",
    example: "hoptime observe a.pcap ‘point A’ ‘estimators colate’ ‘colate n=65536,m=8’",
  },
  answers: ["segment", "flow"],
  needs: { sender: true, delays: false, flows: "required" },
  parameters: COLATE_PARAMETERS,
  complete: completeColate,
  createTap: (context, parameters) => new ColateTap(context, parameters),
  merge(a, b, parameters) {
    const merged = mergeCounters(decodeCounters(a, parameters), decodeCounters(b, parameters));
    return { payload: encodeCounters(merged), packets: a.packets + b.packets };
  },
  estimate: estimateColate,
  rebase(sealed, earlierNs, parameters) {
    const moved = rebaseCounters(decodeCounters(sealed, parameters), earlierNs);
    return { payload: encodeCounters(moved), packets: sealed.packets };
  },
  kernel: { part: kernelPart, places: kernelPlaces },
  sizing: { size: sizeColate },
  tuning: { forFewFlows },
};

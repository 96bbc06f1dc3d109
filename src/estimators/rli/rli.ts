/**
 * RLI (Lee, Duffield, Kompella; section III): per-flow delay at the receiving point alone, between reference packets that carry their sending time. The delay of
 * a regular packet is read off the line through the references before and behind it, with its own time of transmission
 * (equation 1), and summed per flow.
 *
 * Assumes: packets near in time are delayed alike (one queue in order); references pass where the packets pass; the clocks of the references' sender and of the
 * receiving point are one. Fails by: priorities, several paths and fabrics, where delays of neighbours have nothing to do with each other, and nothing
 * in the stream shows it; an interval then is too narrow. Intervals come from references predicted from their neighbours, and from how
 * much of the time that the link had been busy references waited for (kernels/rli/backlog.ts).
 *
 * Memory: 128 bytes per flow and its index, 24 bytes per buffered packet. In a full table new flows are only counted, unless `idle` lets old ones go.
 */
import type { Estimator } from "../estimator.ts";
import { keepFlows } from "../keep-flows.ts";
import { estimateRli } from "./estimate.ts";
import { completeRli, RLI_PARAMETERS, type RliParameters } from "./parameters.ts";
import { decodeRli, encodeRli, knownFlows, mergeRli } from "./payload.ts";
import { sizeRli } from "./size.ts";
import { RliTap } from "./tap.ts";

export const rli: Estimator<RliParameters> = {
  name: "rli",
  version: 2,
  title: "RLI: delays between reference packets, per flow",
  text: {
    answers:
      "Mean and standard deviation of the delay of every flow and of the segment, from the reference packets around each packet.",
    needs:
      "Reference packets that share the queue (hoptime reference, or any STAMP sender), synchronised clocks, and a tap at the receiver only.",
    cost: "One reference packet per some hundred packets on the wire; about 60 bytes per flow and epoch.",
    example: "hoptime observe b.pcap ‘point B’ ‘estimators rli’",
  },
  answers: ["segment", "flow"],
  needs: { sender: false, delays: false, flows: "none", injected: "reference" },
  /** Every n-th packet is a reference where its delay is known by other means. */
  mayNeedDelays: ({ every }) => every > 0,
  parameters: RLI_PARAMETERS,
  complete: completeRli,
  createTap: (context, parameters) => new RliTap(context, parameters),
  merge(a, b, parameters) {
    const merged = mergeRli(decodeRli(a, parameters), decodeRli(b, parameters));
    return { payload: encodeRli(merged), packets: a.packets + b.packets };
  },
  /** Delays do not count from the epoch's start. */
  rebase: (sealed) => sealed,
  flowList: {
    atSender: false,
    read: (sealed, parameters) => knownFlows(decodeRli(sealed, parameters)),
  },
  estimate: estimateRli,
  sizing: { size: sizeRli },
  tuning: { keepFlows: keepFlows(RLI_PARAMETERS, "max") },
};

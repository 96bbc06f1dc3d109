/**
 * RLI (Lee, Duffield, Kompella; section III): per-flow delay at the receiving point alone, between reference packets that carry their sending time. The delay
 * of a regular packet is interpolated on the line through the references before and after it, plus its own transmission time (equation 1), and summed per flow.
 *
 * Assumes: packets close in time have similar delays (one FIFO queue); references take the packets' path; the references' sender and the receiving point share
 * one clock. Fails with priorities, several paths and fabrics: delays of neighbours are then unrelated, nothing in the stream shows it, and intervals are too
 * narrow. Intervals come from references predicted from their neighbours, and from how much of the link's busy time references waited for
 * (kernels/rli/backlog.ts).
 *
 * Memory: 128 bytes per flow and its index, 24 bytes per buffered packet. If the table is full, new flows are only counted, unless `idle` evicts old ones.
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
  /** Every n-th packet serves as a reference; its delay must be known by other means. */
  mayNeedDelays: ({ every }) => every > 0,
  parameters: RLI_PARAMETERS,
  complete: completeRli,
  createTap: (context, parameters) => new RliTap(context, parameters),
  merge(a, b, parameters) {
    const merged = mergeRli(decodeRli(a, parameters), decodeRli(b, parameters));
    return { payload: encodeRli(merged), packets: a.packets + b.packets };
  },
  /** Delays do not depend on the epoch's start. */
  rebase: (sealed) => sealed,
  flowList: {
    atSender: false,
    read: (sealed, parameters) => knownFlows(decodeRli(sealed, parameters)),
  },
  estimate: estimateRli,
  sizing: { size: sizeRli },
  tuning: { keepFlows: keepFlows(RLI_PARAMETERS, "max") },
};

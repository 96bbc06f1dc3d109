/**
 * The Simple Delay Sketch (LDS paper, section 2.2): the cells of LDS at the receiver alone, if every packet's delay is known there (a timestamp in the packet,
 * interpolation, simulation). It sums delays, not times, so loss spoils no cell. Everything else is LDS: ../../lds/lds.ts.
 */
import type { Estimator } from "../../estimator.ts";
import { estimateSds } from "../../lds/estimate.ts";
import {
  completeSds,
  expectedCells,
  geometryOf,
  SDS_PARAMETERS,
  type SketchParameters,
} from "../../lds/parameters.ts";
import { mergePayloads, readHeavyFlows } from "../../lds/payload.ts";
import { sizeSds } from "../../lds/size.ts";
import { SketchTap } from "../../lds/tap.ts";

export const sds: Estimator<SketchParameters> = {
  name: "sds",
  version: 3,
  reads: [1, 2],
  title: "Simple Delay Sketch: mean delay per flow where delays are known at the receiver",
  text: {
    answers: "Mean delay of every flow that is named, and of the segment.",
    needs:
      "The delay of every packet at the receiver (the sender's capture, or reference packets), and names of flows.",
    cost: "1.3 MB of memory at the receiver, nothing at the sender; one cell update per row and packet.",
    example: "hoptime observe b.pcap ‘point B’ ‘sender a.pcap’ ‘estimators sds’",
  },
  answers: ["segment", "flow"],
  needs: { sender: false, delays: true, flows: "names" },
  parameters: SDS_PARAMETERS,
  complete: completeSds,
  createTap: ({ kernels, seed }, parameters) =>
    new SketchTap(kernels, {
      geometry: geometryOf(parameters),
      seed,
      digestBits: 0,
      bytes: parameters.bytes,
      keys: parameters.keys,
      delays: true,
    }),
  merge: (a, b, parameters) => mergePayloads(a, b, expectedCells(parameters, true)),
  estimate: estimateSds,
  // Delays do not depend on where the epoch's clock starts.
  rebase: (sealed) => sealed,
  flowList: {
    atSender: false,
    heavyOnly: true,
    read: (sealed, parameters) => readHeavyFlows(sealed.payload, expectedCells(parameters, true)),
  },
  sizing: { size: sizeSds },
};

/**
 * The Lossy Difference Sketch (Sanjuàs-Cuxart, Barlet-Ros, Duffield, Kompella: Sketching the Delay, IMC 2011, sections 2 to 4): mean delay and loss per flow
 * from rows of shared cells, whatever the number of flows. Each row hashes a flow to k contiguous cells, its virtual LDA; a packet adds its time to one of
 * them. If count and digest of a cell agree at both ends, the difference of its sums is the sum of its packets' delays.
 *
 * Guarantee: no state per flow, R cells touched per packet, and for every flow an interval that includes the effect of colliding flows. Assumes: synchronised
 * clocks, the same packets at both ends (selected by a filter), flow keys from a list, a flow table or a question. Fails: flows smaller than what collides with
 * them get wide intervals. A flow with a lost packet in each of its cells gets no answer (use more k or lower rates). The sampling rate for a loss of L packets
 * per flow is k / L (the paper's text has the inverse).
 *
 *   geometry.ts     who falls where           payload.ts     the bytes of a sealed epoch     tap.ts        the updating half
 *   difference.ts   two ends to delays        flow-set.ts    flows over cells                full-rows.ts  packets of flows in cells
 *   cell-rules.ts   decoders of one flow      belief.ts      the decoder of all flows        row-sums.ts   means from whole rows
 *   segment.ts      the mean of all packets   flow-mean.ts   the same from known flows       mined.ts      packets, bytes, loss, deviation
 *   heavy-keys.ts   keys of heavy flows       weights.ts     flows that matter more          jitter.ts     how packets vary within flows
 *   estimate.ts     the answer                size.ts        a geometry for expected traffic prediction.ts its expected accuracy
 */
import type { Estimator } from "../estimator.ts";
import { shiftCells } from "./cells.ts";
import { estimateLds } from "./estimate.ts";
import { completeLds, expectedCells, geometryOf, LDS_PARAMETERS, type LdsParameters } from "./parameters.ts";
import { decodeCells, encodeCells, mergePayloads, readHeavyFlows } from "./payload.ts";
import { sizeLds } from "./size.ts";
import { kernelPart, kernelPlaces, SketchTap } from "./tap.ts";

export const lds: Estimator<LdsParameters> = {
  name: "lds",
  version: 3,
  reads: [1, 2],
  title: "Lossy Difference Sketch: mean delay and loss per flow",
  text: {
    answers: "Mean delay, packets and lost packets of every flow that is named, and of the segment.",
    needs:
      "A tap at both points, synchronised clocks; it finds heavy flows itself, others are named by a flow table, flow records or the question.",
    cost: "1.3 MB of memory per point (4 x 17,500 cells of 16 bytes, 1,024 flow keys), whatever the number of flows; one cell update per row and packet.",
    example: "hoptime observe a.pcap ‘point A’ ‘estimators lds’ ‘lds columns=50000’",
  },
  answers: ["segment", "flow"],
  needs: { sender: true, delays: false, flows: "names" },
  parameters: LDS_PARAMETERS,
  complete: completeLds,
  createTap: ({ kernels, seed }, parameters) =>
    new SketchTap(kernels, {
      geometry: geometryOf(parameters),
      seed,
      digestBits: Number(parameters.digest),
      bytes: parameters.bytes,
      keys: parameters.keys,
      delays: false,
    }),
  merge: (a, b, parameters) => mergePayloads(a, b, expectedCells(parameters, false)),
  estimate: estimateLds,
  rebase(sealed, earlierNs, parameters) {
    const cells = decodeCells(sealed.payload, expectedCells(parameters, false));
    shiftCells(cells, Math.trunc(earlierNs));
    return { payload: encodeCells(cells), packets: sealed.packets };
  },
  kernel: {
    part: (parameters) => kernelPart(geometryOf(parameters), parameters.bytes, parameters.keys),
    places: (parameters, seed, salt) => kernelPlaces(geometryOf(parameters), seed, salt),
  },
  flowList: {
    atSender: true,
    heavyOnly: true,
    read: (sealed, parameters) => readHeavyFlows(sealed.payload, expectedCells(parameters, false)),
  },
  sizing: { size: sizeLds },
};

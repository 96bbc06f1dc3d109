/** Counts packets, flows and flow sizes in an epoch of a capture, to choose the size of a sketch. */
import { Kernels } from "../base/kernels.ts";
import { compileFilter } from "../capture/filter/filter.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { CaptureReader } from "../capture/reader.ts";
import { flowTable } from "../estimators/flows/flows.ts";
import { readKnownFlows } from "../estimators/flows/payload.ts";
import { parseParameters } from "../estimators/parameters.ts";

export interface EpochTraffic {
  epochs: number;
  packets: number;
  flowPackets: Float64Array;
  /** The capture is shorter than one epoch. */
  short: boolean;
}

/** Returns the epoch with the most packets; the first epoch starts at the first packet. Null without packets. */
export async function busiestEpoch(
  path: string,
  options: { epochNs: number; key?: string | undefined; filter?: string | undefined },
): Promise<EpochTraffic | null> {
  const kernels = new Kernels();
  const { epochNs } = options;
  const reader = await CaptureReader.open(kernels, path, {
    key: FlowKeySpec.parse(options.key),
    filter: options.filter === undefined ? undefined : compileFilter(options.filter, kernels),
  });
  const tap = flowTable.createTap(
    { kernels, role: "sender", seed: 0n },
    parseParameters(flowTable, "max=16777216"),
  );
  let busiest: EpochTraffic | null = null;
  let epochs = 0;
  let last = 0;
  const close = () => {
    const sealed = tap.seal();
    if (sealed.packets === 0) return;
    epochs++;
    if (sealed.packets <= (busiest?.packets ?? 0)) return;
    busiest = { epochs, packets: sealed.packets, flowPackets: readKnownFlows(sealed).packets, short: false };
  };
  let end = epochNs;
  while (await reader.next()) {
    const { batch } = reader;
    const { timeNs, count } = batch;
    let from = 0;
    for (let row = 0; row < count; row++) {
      if (timeNs[row]! < end) continue;
      tap.update(batch, from, row);
      close();
      from = row;
      end = (Math.floor(timeNs[row]! / epochNs) + 1) * epochNs;
    }
    tap.update(batch, from, count);
    if (count > 0) last = timeNs[count - 1]!;
  }
  close();
  tap.free();
  reader.close();
  reader.free();
  const found = busiest as EpochTraffic | null;
  return found && { ...found, epochs, short: last < epochNs };
}

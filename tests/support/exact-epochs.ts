/**
 * Exact values of two captures, epoch by epoch: every packet by its digest. Equal packets (a TCP segment sent again after a loss) keep their order. If fewer
 * arrived than were sent, those count as lost for which the others have the smallest delays: a copy sent 200 ms before the one that arrived was not in transit
 * for 200 ms.
 */
import { Kernels } from "../../src/base/kernels.ts";
import { compileFilter } from "../../src/capture/filter/filter.ts";
import { CaptureReader } from "../../src/capture/reader.ts";

export interface ExactEpoch {
  sent: number;
  lost: number;
  /** Packets that arrived in the epoch (what a receiver alone sees), and below those that both ends saw in it. */
  arrived: number;
  arrivedMeanNs: number;
  within: number;
  withinMeanNs: number;
  /** Packets at the receiver of any origin: a router also sends its own (neighbour solicitations). */
  received: number;
  /** Packets in transit when the epoch began or ended; aligned cuts count them on different sides. */
  crossing: number;
  /** Packets close to a cut (EDGE_NS): another clock, or another place on the same interface, may see them beyond it. */
  atEdge: number;
}

const EDGE_NS = 100_000n;

interface Seen {
  digest: string;
  timeNs: bigint;
}

/** By the start of the epoch in ns since 1970. */
export async function exactEpochs(options: {
  before: string;
  after: string;
  filter: string;
  epochNs: bigint;
}): Promise<Map<string, ExactEpoch>> {
  const { before, after, filter, epochNs } = options;
  const [sent, received] = [await read(before, filter), await read(after, filter)];
  const arrivedAt = pairs(sent, received);
  const epochs = new Map<string, ExactEpoch>();
  const at = (ns: bigint) => {
    const key = `${ns - (ns % epochNs)}`;
    let epoch = epochs.get(key);
    if (!epoch) {
      epoch = {
        sent: 0,
        lost: 0,
        arrived: 0,
        arrivedMeanNs: 0,
        within: 0,
        withinMeanNs: 0,
        received: 0,
        crossing: 0,
        atEdge: 0,
      };
      epochs.set(key, epoch);
    }
    return epoch;
  };
  for (const { timeNs } of [...sent, ...received])
    for (const near of [timeNs - EDGE_NS, timeNs + EDGE_NS])
      if (at(near) !== at(timeNs)) for (const epoch of [at(near), at(timeNs)]) epoch.atEdge++;
  for (const { timeNs } of received) at(timeNs).received++;
  for (const [i, { timeNs }] of sent.entries()) {
    const epoch = at(timeNs);
    epoch.sent++;
    const arrivedNs = arrivedAt[i];
    if (arrivedNs === undefined) {
      epoch.lost++;
      continue;
    }
    const delayNs = Number(arrivedNs - timeNs);
    const later = at(arrivedNs);
    later.arrived++;
    later.arrivedMeanNs += (delayNs - later.arrivedMeanNs) / later.arrived;
    if (later === epoch) {
      epoch.within++;
      epoch.withinMeanNs += (delayNs - epoch.withinMeanNs) / epoch.within;
      continue;
    }
    epoch.crossing++;
    later.crossing++;
  }
  return epochs;
}

/** Returns the arrival time of each sent packet. From the last arrival backwards, each is assigned to the latest equal packet that was sent before it. */
function pairs(sent: readonly Seen[], received: readonly Seen[]): (bigint | undefined)[] {
  const waiting = new Map<string, number[]>();
  for (const [i, { digest }] of sent.entries()) {
    const known = waiting.get(digest);
    if (known) known.push(i);
    else waiting.set(digest, [i]);
  }
  const arrivedAt: (bigint | undefined)[] = new Array(sent.length);
  for (const { digest, timeNs } of received.toReversed()) {
    const candidates = waiting.get(digest) ?? [];
    for (let i = candidates.pop(); i !== undefined; i = candidates.pop()) {
      if ((sent[i]?.timeNs ?? 0n) > timeNs) continue;
      arrivedAt[i] = timeNs;
      break;
    }
  }
  return arrivedAt;
}

async function read(file: string, filter: string): Promise<Seen[]> {
  const kernels = new Kernels();
  const compiled = compileFilter(filter, kernels);
  const reader = await CaptureReader.open(kernels, file);
  const seen: Seen[] = [];
  try {
    while (await reader.next()) {
      const { batch, originNs } = reader;
      compiled.select(batch);
      batch.compact();
      const { digest, timeNs } = batch;
      for (let i = 0; i < batch.count; i++)
        seen.push({
          digest: `${digest[2 * i + 1]}:${digest[2 * i]}`,
          timeNs: (originNs ?? 0n) + BigInt(Math.round(timeNs[i] ?? 0)),
        });
    }
  } finally {
    reader.close();
    compiled.free();
  }
  return seen;
}

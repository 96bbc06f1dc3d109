/**
 * How far the clock of a capture is from that of the point whose records are asked. A record shows only whether it holds a packet; each epoch that holds one bounds the
 * offset to an interval of the epoch's length, and the packets of a capture agree on one offset where chance does not: it is the place that most of their intervals share.
 */
import type { Kernels } from "../../base/kernels.ts";
import { required } from "../../base/lists.ts";
import type { CaptureReader } from "../../capture/reader.ts";
import { flowPacketKey } from "../../estimators/packet-keys.ts";
import type { OpenEpoch, PacketEpochs } from "./epochs.ts";

/** A packet of the capture: when it was captured, and what it is asked by. */
interface AskedPacket {
  timeNs: bigint;
  /** Its key in this epoch's store. */
  keyIn(epoch: OpenEpoch): bigint;
  wireBytes: number;
}

export interface ClockOffset {
  /** Point's clock minus capture's, the delay from there to here included: somewhere in here. */
  lowNs: bigint;
  highNs: bigint;
  /** Packets that it explains, of those tried; and those that the capture's own times explain. */
  agree: number;
  tried: number;
  asCaptured: number;
}

/** Looked for are so many of the capture's first packets. */
const ROWS = 20_000;
const PACKETS = 96;
/** Epochs that are searched, the nearest first. */
const MAX_EPOCHS = 400;
/** So many standard deviations above chance, and packets more than without an offset. */
const CLEAR = 5;
const MORE = 1.1;

interface Span {
  lowNs: bigint;
  highNs: bigint;
}

/** Null where the capture's own times explain as much, or nothing does. */
export async function findClockOffset(
  kernels: Kernels,
  reader: CaptureReader,
  epochs: PacketEpochs,
  slackNs: bigint,
): Promise<ClockOffset | null> {
  const packets = spread(await firstPackets(kernels, reader), PACKETS);
  const middle = packets[packets.length >> 1]?.timeNs;
  if (middle === undefined) return null;
  const spans: Span[] = [];
  const asCaptured = new Set<number>();
  let chance = 0;
  for (const index of nearest(epochs, middle)) {
    const epoch = epochs.peek(index);
    if (!epoch) continue;
    const { startNs, endNs } = epoch.head.epoch;
    const { lookup } = epoch;
    const identity = lookup.has("digest") ? "digest" : "flow-ipid";
    const keys = BigUint64Array.from(packets, (packet) => packet.keyIn(epoch));
    const sizes = Uint32Array.from(packets, (packet) => packet.wireBytes);
    const { kind } = lookup.lookup(identity, keys, sizes);
    chance = Math.max(chance, lookup.absentAccepted);
    for (const [i, { timeNs }] of packets.entries()) {
      if (kind[i] === 0) continue;
      spans.push({ lowNs: startNs - timeNs, highNs: endNs - timeNs });
      if (timeNs + slackNs >= startNs && timeNs - slackNs < endNs) asCaptured.add(i);
    }
  }
  const found = mostShared(spans);
  const tried = packets.length;
  // Where intervals meet, two epochs may hold a packet by chance.
  const expected = 2 * chance * tried;
  if (!found || found.agree < expected + CLEAR * Math.sqrt(expected + 1)) return null;
  if (found.agree <= MORE * asCaptured.size + 1) return null;
  return { lowNs: found.lowNs, highNs: found.highNs, agree: found.agree, tried, asCaptured: asCaptured.size };
}

/** Closes the reader. */
async function firstPackets(kernels: Kernels, reader: CaptureReader): Promise<AskedPacket[]> {
  const packets: AskedPacket[] = [];
  try {
    for (let rows = 0; rows < ROWS && (await reader.next()); rows += reader.batch.count) {
      const { batch } = reader;
      const originNs = required(reader.originNs, "the capture's first timestamp");
      const every = Math.max(1, Math.floor(batch.count / PACKETS));
      for (let i = 0; i < batch.count; i += every) {
        const digest = kernels.u64[(batch.column("digest") >>> 3) + i] ?? 0n;
        const hash = kernels.u64[(batch.column("flowHash") >>> 3) + i] ?? 0n;
        const ipid = batch.ipid[i] ?? 0;
        packets.push({
          timeNs: originNs + BigInt(Math.round(batch.timeNs[i] ?? 0)),
          keyIn: ({ lookup }) => (lookup.has("digest") ? digest : flowPacketKey(kernels, hash, ipid)),
          wireBytes: batch.wireLength[i] ?? 0,
        });
      }
    }
  } finally {
    reader.close();
    reader.free();
  }
  return packets;
}

/** Some of them, evenly. */
function spread<T>(list: readonly T[], count: number): T[] {
  const every = Math.max(1, Math.ceil(list.length / count));
  return list.filter((_, i) => i % every === 0);
}

function nearest(epochs: PacketEpochs, timeNs: bigint): number[] {
  const distance = (i: number) => {
    const { startNs = 0n, endNs = 0n } = epochs.entries[i]?.epoch ?? {};
    return timeNs < startNs ? startNs - timeNs : timeNs > endNs ? timeNs - endNs : 0n;
  };
  const all = epochs.entries.map((_, i) => ({ i, apart: distance(i) }));
  all.sort((a, b) => (a.apart < b.apart ? -1 : a.apart > b.apart ? 1 : 0));
  return all.slice(0, MAX_EPOCHS).map(({ i }) => i);
}

/** The place that the most spans share; of several the one nearest to 0. */
function mostShared(spans: readonly Span[]): (Span & { agree: number }) | null {
  const edges = spans.flatMap(({ lowNs, highNs }) => [
    { at: lowNs, step: 1 },
    { at: highNs, step: -1 },
  ]);
  edges.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : a.step - b.step));
  const size = ({ lowNs, highNs }: Span) => (lowNs > 0n ? lowNs : highNs < 0n ? -highNs : 0n);
  let best: (Span & { agree: number }) | null = null;
  let agree = 0;
  for (const [i, { at, step }] of edges.entries()) {
    agree += step;
    const next = edges[i + 1];
    if (!next || step < 0) continue;
    const here = { lowNs: at, highNs: next.at, agree };
    if (!best || agree > best.agree || (agree === best.agree && size(here) < size(best))) best = here;
  }
  return best;
}

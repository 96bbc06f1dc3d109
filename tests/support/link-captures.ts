/** Two captures of one link written packet by packet, for tests that need to know send time, delay and observers of each. */
import { writeFileSync } from "node:fs";
import { be32, bytes, ethernet, ipv4, stack, udp } from "./packets.ts";
import { type PlainPacket, pcapFile } from "./pcap-writer.ts";

export interface LinkPacket {
  flow: number;
  atNs: number;
  /** Null: lost. */
  delayNs: number | null;
  reverse?: boolean;
  /** The first point on its path did not see it. */
  unseen?: boolean;
  /** Arrives twice. */
  copied?: boolean;
  /** Payload bytes in addition to a number. */
  size?: number;
  /** Distinguishes it from others of its flow; default: its index in the list. */
  number?: number;
  /** The second point sees a different source address. */
  rewritten?: boolean;
}

const START_NS = 1_700_000_000_000_000_000n;

/** As in the text table. */
export const clientOf = (flow: number): string => `10.0.0.${flow}:${2000 + flow}`;

export function linkCaptures(packets: readonly LinkPacket[]): {
  before: PlainPacket[];
  after: PlainPacket[];
} {
  const seen = { before: [] as PlainPacket[], after: [] as PlainPacket[] };
  for (const [n, packet] of packets.entries()) {
    const { atNs, delayNs, reverse = false, unseen = false, copied = false } = packet;
    const [near, far] = reverse ? [seen.after, seen.before] : [seen.before, seen.after];
    const frame = (point: "near" | "far") => frameOf(packet, n, point);
    if (!unseen) near.push({ timeNs: START_NS + BigInt(atNs), frame: frame("near") });
    if (delayNs === null) continue;
    const timeNs = START_NS + BigInt(atNs + delayNs);
    far.push({ timeNs, frame: frame("far") });
    if (copied) far.push({ timeNs: timeNs + 1000n, frame: frame("far") });
  }
  const byTime = (a: PlainPacket, b: PlainPacket) => Number(a.timeNs - b.timeNs);
  return { before: seen.before.sort(byTime), after: seen.after.sort(byTime) };
}

function frameOf(
  { flow, reverse = false, number, size = 20, rewritten = false }: LinkPacket,
  n: number,
  point: "near" | "far",
): Uint8Array {
  const client = Uint8Array.of(10, 0, 0, flow);
  const server = Uint8Array.of(192, 168, 1, 1);
  const [src, dst] = reverse ? [server, client] : [client, server];
  const [sport, dport] = reverse ? [443, 2000 + flow] : [2000 + flow, 443];
  const own = number ?? n;
  return stack(
    [
      ethernet(0x0800),
      ipv4({
        proto: 17,
        ttl: point === "near" ? 64 : 63,
        id: own & 0xffff,
        src: rewritten && point === "far" ? Uint8Array.of(203, 0, 113, 5) : src,
        dst,
      }),
      udp({ sport, dport }),
    ],
    bytes(be32(own), new Uint8Array(size)),
  );
}

export function writeLink(
  packets: readonly LinkPacket[],
  files: { before: string; after: string },
): { before: string; after: string } {
  const { before, after } = linkCaptures(packets);
  writeFileSync(files.before, pcapFile(before, { nano: true }));
  writeFileSync(files.after, pcapFile(after, { nano: true }));
  return files;
}

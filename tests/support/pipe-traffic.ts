/** As many packets for a pipe as requested: fifty flows in turn. */
import { once } from "node:events";
import type { Writable } from "node:stream";
import { frame, pcapHeader } from "./small-pcap.ts";

export function pipePacket(n: number, timeNs: bigint): Buffer {
  return frame({
    timeNs,
    src: `10.0.${n % 7}.${n % 50}`,
    dst: "10.2.0.9",
    sport: 1000 + (n % 50),
    dport: 53,
    ipid: n & 0xffff,
    payload: Uint8Array.from([n >>> 24, (n >>> 16) & 255, (n >>> 8) & 255, n & 255]),
  });
}

/** Writes `perEpoch` packets in each of `epochs`, starting at `startNs`, no faster than they are read. */
export async function writeEpochs(
  to: Writable,
  {
    epochs,
    perEpoch,
    lengthNs,
    startNs,
  }: { epochs: number; perEpoch: number; lengthNs: bigint; startNs: bigint },
): Promise<void> {
  to.write(pcapHeader());
  const stepNs = lengthNs / BigInt(perEpoch);
  for (let e = 0, n = 0; e < epochs; e++) {
    const packets = Array.from({ length: perEpoch }, (_, i) =>
      pipePacket(n++, startNs + BigInt(e) * lengthNs + BigInt(i) * stepNs),
    );
    if (!to.write(Buffer.concat(packets))) await once(to, "drain");
  }
}

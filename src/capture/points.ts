/** The observation points of one capture, as their packets tell them: interfaces of pcapng, or of `tcpdump -i any` (Linux cooked v2). */
import type { Kernels } from "../base/kernels.ts";
import { CaptureReader } from "./reader.ts";

/** Link type of Linux cooked v2, which tells the interface of each packet. */
const COOKED_V2 = 276;
const COOKED_BYTES = 20;
const INDEX_OFFSET = 4;
const MAX_LOOKED_AT = 100_000;

/** Numbers of the interfaces that packets came by, in order of number; one where the capture does not tell. */
export async function pointsOf(kernels: Kernels, file: string): Promise<number[]> {
  const reader = await CaptureReader.open(kernels, file);
  const found = new Set<number>();
  try {
    for (let rows = 0; rows < MAX_LOOKED_AT && (await reader.next()); rows += reader.batch.count) {
      const { batch } = reader;
      const { iface, header, count } = batch;
      const cooked = reader.statistics().interfaces[0]?.link === COOKED_V2 && reader.format === "pcap";
      const { u8 } = kernels;
      for (let i = 0; i < count; i++) {
        const start = (header[i] ?? 0) - COOKED_BYTES + INDEX_OFFSET;
        const index = [0, 1, 2, 3].reduce((n, k) => n * 256 + (u8[start + k] ?? 0), 0);
        found.add(cooked ? index : (iface[i] ?? 0));
      }
    }
  } finally {
    reader.close();
    reader.free();
  }
  return [...found].sort((a, b) => a - b);
}

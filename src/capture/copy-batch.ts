/** A batch's rows once more, for a second filter or key: both narrow a batch in place. */
import type { PacketBatch } from "./batch.ts";

const WIDE = ["time", "digest", "flowHash", "meta", "addrA", "addrB", "addrC", "addrD", "delay"] as const;
const NARROW = ["wireLength", "ipid", "flags", "header", "captured", "iface"] as const;

/** `to` must have room for all rows of `from`, and lie in the same kernels. */
export function copyBatch(from: PacketBatch, to: PacketBatch): void {
  const { count } = from;
  if (count > to.capacity) throw new RangeError(`${count} rows into a batch of ${to.capacity}`);
  const { u8 } = from.kernels;
  for (const [columns, bytes] of [
    [WIDE, 8],
    [NARROW, 4],
  ] as const) {
    for (const name of columns) {
      const start = from.column(name);
      u8.copyWithin(to.column(name), start, start + count * bytes);
    }
  }
  to.count = count;
}

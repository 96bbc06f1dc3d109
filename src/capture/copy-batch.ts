/** Copies a batch's rows, for a second filter or key: both change a batch in place. */
import type { PacketBatch } from "./batch.ts";

const WIDE = ["time", "digest", "flowHash", "meta", "addrA", "addrB", "addrC", "addrD", "delay"] as const;
const NARROW = ["wireLength", "ipid", "flags", "header", "captured", "iface"] as const;

/** Copies all rows of `from`. `to` must have room for them and use the same kernels. */
export function copyBatch(from: PacketBatch, to: PacketBatch): void {
  to.count = 0;
  appendRows(from, 0, from.count, to);
}

/** Appends rows [first, end) of a batch to another batch, or to the same one after its count was reduced. */
export function appendRows(from: PacketBatch, first: number, end: number, to: PacketBatch): void {
  const { count } = to;
  if (count + end - first > to.capacity)
    throw new RangeError(`${count + end - first} rows into a batch of ${to.capacity}`);
  const { u8 } = from.kernels;
  for (const [columns, bytes] of [
    [WIDE, 8],
    [NARROW, 4],
  ] as const) {
    for (const name of columns) {
      const start = from.column(name);
      u8.copyWithin(to.column(name) + count * bytes, start + first * bytes, start + end * bytes);
    }
  }
  to.count = count + end - first;
}

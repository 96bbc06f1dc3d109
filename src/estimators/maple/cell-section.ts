/** The cells of a part in bytes, in full or compact form (payload.ts has the layout), and the base of their delays. */
import { ByteReader, ByteWriter } from "../../base/bytes.ts";
import { FormatError } from "../../base/errors.ts";
import type { CellSums } from "./cell-table.ts";

export const CELL_BYTES = 48;
export const BASE_BYTES = 8;

/** `baseNs`: the base of the delays; written before the cells if it is not 0. */
export function encodeCells(cells: readonly CellSums[], compact = false, baseNs = 0): Uint8Array {
  const out = new ByteWriter(cells.length * CELL_BYTES);
  if (baseNs !== 0) out.f64(baseNs);
  let before = 0n;
  for (const cell of cells) {
    if (compact) {
      putBig(out, BigInt(cell.count));
      if (cell.count === 0) continue;
      const base = BigInt(cell.baseNs);
      putBig(out, zigzag(base - before));
      putBig(out, zigzag(base - BigInt(cell.minNs)));
      putBig(out, zigzag(BigInt(cell.maxNs) - base));
      putBig(out, zigzag(cell.sum));
      putBig(out, cell.squares);
      before = base;
      continue;
    }
    out.f64(cell.baseNs);
    out.f64(cell.minNs);
    out.f64(cell.maxNs);
    out.i64(BigInt.asIntN(64, cell.sum));
    out.u64(cell.squares & 0xffff_ffff_ffff_ffffn);
    out.u32(Number((cell.squares >> 64n) & 0xffff_ffffn));
    out.u32(cell.count);
  }
  return out.finish();
}

const noNumbers = ({ file, offset }: ByteReader) =>
  new FormatError("bad-record", file, offset, "the delays of a group are no numbers");

export function decodeCells(bytes: Uint8Array, compact = false, baseNs = 0): CellSums[] {
  const reader = new ByteReader(bytes.subarray(baseNs === 0 ? 0 : BASE_BYTES), { file: "maple cells" });
  const cells: CellSums[] = [];
  let before = 0n;
  while (reader.remaining > 0) {
    if (compact) {
      const count = Number(takeBig(reader));
      if (count === 0) {
        const none = { minNs: Infinity, maxNs: -Infinity, sum: 0n, squares: 0n };
        cells.push({ baseNs: Number(before), count, ...none });
        continue;
      }
      before += unzigzag(takeBig(reader));
      const minNs = Number(before - unzigzag(takeBig(reader)));
      const maxNs = Number(before + unzigzag(takeBig(reader)));
      if (!Number.isFinite(minNs + maxNs)) throw noNumbers(reader);
      const sum = unzigzag(takeBig(reader));
      cells.push({ baseNs: Number(before), minNs, maxNs, sum, squares: takeBig(reader), count });
      continue;
    }
    // Whole cells only; decodePartHead has checked that.
    const [baseNs, minNs, maxNs] = [reader.f64(), reader.f64(), reader.f64()];
    const sum = reader.i64();
    const low = reader.u64();
    const high = BigInt(reader.u32());
    const count = reader.u32();
    if (!Number.isFinite(baseNs)) throw noNumbers(reader);
    // The bounds of an empty cell are infinite.
    if (count > 0 && !Number.isFinite(minNs + maxNs)) throw noNumbers(reader);
    cells.push({ baseNs, minNs, maxNs, sum, squares: (high << 64n) | low, count });
  }
  return cells;
}

const zigzag = (value: bigint): bigint => (value < 0n ? -2n * value - 1n : 2n * value);
const unzigzag = (value: bigint): bigint => (value & 1n ? -(value + 1n) / 2n : value / 2n);

function putBig(out: ByteWriter, value: bigint): void {
  let rest = value;
  for (; rest >= 0x80n; rest >>= 7n) out.u8(Number(rest & 0x7fn) | 0x80);
  out.u8(Number(rest));
}

/** No sum needs more than 14 bytes with 7 bits each. */
function takeBig(reader: ByteReader): bigint {
  let value = 0n;
  for (let shift = 0n; shift < 98n; shift += 7n) {
    const byte = reader.u8();
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  throw new FormatError("bad-record", reader.file, reader.offset, "a number of more than 98 bits");
}

/** Reads the base of a part's delays, which is stored before its cells if the part has one. */
export function readBase(cells: Uint8Array): number {
  const baseNs = new ByteReader(cells.subarray(0, BASE_BYTES), { file: "maple cells" }).f64();
  if (Number.isSafeInteger(baseNs / 2 ** 20) && baseNs !== 0) return baseNs;
  throw new FormatError("bad-record", "maple cells", 0, `invalid base of the delays: ${baseNs} ns`);
}

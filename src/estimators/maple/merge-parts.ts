/** The union of payloads: mergeable parts are merged, the others are stored side by side. */
import { FormatError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import { decodeCells, encodeCells } from "./cell-section.ts";
import { addSums, type CellSums } from "./cell-table.ts";
import type { EpochTotals } from "./epoch-buffer.ts";
import { encodePart, encodePayload, type PartContents, SECTIONS } from "./payload.ts";

/** Returns the union of two lists of parts (see above). Both orders of the same inputs give equal bytes. */
export function mergeParts(a: readonly PartContents[], b: readonly PartContents[]): Uint8Array {
  const parts: PartContents[] = [];
  for (const part of [...a, ...b]) {
    const at = parts.findIndex((other) => joins(other, part));
    if (at < 0) parts.push(part);
    else parts[at] = joinParts(entryAt(parts, at), part);
  }
  try {
    return encodePayload(parts.map(encodePart).sort(compareBytes));
  } catch (cause) {
    // The writer throws for sums that do not fit, which valid epochs never have.
    if (!(cause instanceof RangeError)) throw cause;
    throw new FormatError("bad-record", "maple payload", 0, "sums of the two do not fit together", { cause });
  }
}

/** Returns true if two parts can be merged: an empty part with any part of the same store, others with the same size, hashes and centres. */
function joins(a: PartContents, b: PartContents): boolean {
  if (
    a.geometry.kind !== b.geometry.kind ||
    a.geometry.seed !== b.geometry.seed ||
    a.nsPerByte !== b.nsPerByte ||
    a.compact !== b.compact
  )
    return false;
  const [emptyA, emptyB] = [a.totals.stored === 0, b.totals.stored === 0];
  if (emptyA && emptyB) return true;
  const { kind, groups, hashes, f, theta } = a.geometry;
  if (kind !== "svbf" && kind !== "comb") return false;
  if (emptyA || emptyB) return true;
  if (
    groups !== b.geometry.groups ||
    hashes !== b.geometry.hashes ||
    f !== b.geometry.f ||
    theta !== b.geometry.theta
  )
    return false;
  if (SECTIONS.some((s) => (a.sections[s]?.length ?? 0) !== (b.sections[s]?.length ?? 0))) return false;
  if (a.totals.baseNs !== b.totals.baseNs) return false;
  const [cellsA, cellsB] = [cellsOf(a), cellsOf(b)];
  return cellsA.every((cell, i) => cell.baseNs === cellsB[i]?.baseNs);
}

function cellsOf({ sections, compact, totals }: PartContents): CellSums[] {
  return sections.cells ? decodeCells(sections.cells, compact, totals.baseNs) : [];
}

function joinParts(a: PartContents, b: PartContents): PartContents {
  const totals: EpochTotals = {
    seen: a.totals.seen + b.totals.seen,
    stored: a.totals.stored + b.totals.stored,
    unknown: a.totals.unknown + b.totals.unknown,
    shed: a.totals.shed + b.totals.shed,
    summed: a.totals.summed + b.totals.summed,
    baseNs: a.totals.stored > 0 ? a.totals.baseNs : b.totals.baseNs,
    bytes: a.totals.bytes + b.totals.bytes,
    sum: a.totals.sum + b.totals.sum,
    squares: a.totals.squares + b.totals.squares,
    minNs: Math.min(a.totals.minNs, b.totals.minNs),
    maxNs: Math.max(a.totals.maxNs, b.totals.maxNs),
  };
  if (a.totals.stored === 0) return { ...b, totals };
  if (b.totals.stored === 0) return { ...a, totals };
  const [cellsA, cellsB] = [cellsOf(a), cellsOf(b)];
  const sections: PartContents["sections"] = {
    cells: encodeCells(
      cellsA.map((cell, i) => addSums(cell, entryAt(cellsB, i))),
      a.compact,
      totals.baseNs,
    ),
  };
  for (const name of ["digest", "flow-ipid"] as const) {
    const [x, y] = [a.sections[name], b.sections[name]];
    if (x && y) sections[name] = orFilters(x, y);
  }
  return { ...a, totals, sections };
}

/** ORs the bodies of SVBF and COMB: packets u32, then fields that are equal in both, then bits. */
function orFilters(x: Uint8Array, y: Uint8Array): Uint8Array {
  const out = x.map((byte, i) => byte | y[i]!);
  const view = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  view(out).setUint32(0, view(x).getUint32(0, true) + view(y).getUint32(0, true), true);
  return out;
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  return Buffer.compare(a, b);
}

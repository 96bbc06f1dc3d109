/**
 * Writes flows as rows of text, in the kernels (kernels/text/flow-rows.ts): in an answer with a hundred thousand flows, writing takes longer than computing.
 * Rows equal those made from a FlowReport of src/compare, to the last digit.
 */
import { FlowRowsLayout, flowRowsConstants, numberConstants } from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";
import type { RowField, RowForm } from "./row-form.ts";

const FIELDS: Record<RowField, number> = {
  src: flowRowsConstants.FIELD_SRC,
  dst: flowRowsConstants.FIELD_DST,
  proto: flowRowsConstants.FIELD_PROTO,
  sport: flowRowsConstants.FIELD_SPORT,
  dport: flowRowsConstants.FIELD_DPORT,
  communityId: flowRowsConstants.FIELD_COMMUNITY_ID,
  sent: flowRowsConstants.FIELD_SENT,
  received: flowRowsConstants.FIELD_RECEIVED,
  matched: flowRowsConstants.FIELD_MATCHED,
  lost: flowRowsConstants.FIELD_LOST,
  appeared: flowRowsConstants.FIELD_APPEARED,
  duplicates: flowRowsConstants.FIELD_DUPLICATES,
  reordered: flowRowsConstants.FIELD_REORDERED,
  bytes: flowRowsConstants.FIELD_BYTES,
  count: flowRowsConstants.FIELD_COUNT,
  meanNs: flowRowsConstants.FIELD_MEAN,
  stdevNs: flowRowsConstants.FIELD_STDEV,
  minNs: flowRowsConstants.FIELD_MIN,
  maxNs: flowRowsConstants.FIELD_MAX,
  p50Ns: flowRowsConstants.FIELD_P50,
  p90Ns: flowRowsConstants.FIELD_P90,
  p99Ns: flowRowsConstants.FIELD_P99,
  p999Ns: flowRowsConstants.FIELD_P999,
  jitterNs: flowRowsConstants.FIELD_JITTER,
};

/** Bytes of text per kernel call, and flows per kernel call. */
const PIECE_BYTES = 1 << 17;
const PIECE_FLOWS = 1024;
/** Maximum bytes of a literal text in a template. */
const MAX_LITERAL = 127;

/**
 * Yields the text of rows in the order of `ids`; a flow whose row needs special treatment is yielded as its number, for the caller to write. `stats`: the
 * kernels' record of all flows. `edges`: EDGE_* of kernels/flows/flow-sums.ts, selects which unmatched packets at the captures' ends count as lost or appeared.
 */
export function* flowTexts(
  kernels: Kernels,
  stats: number,
  ids: Uint32Array,
  form: RowForm,
  { reverse, edges }: { reverse: boolean; edges: number },
): Generator<string | number> {
  const template = templateOf(form);
  const address = kernels.call.flowRowsNew() >>> 0;
  const powers = storePowers(kernels);
  const texts = kernels.alloc(template.length + 8 + 8);
  const none = texts + template.length;
  const numbers = kernels.alloc(4 * PIECE_FLOWS);
  const out = kernels.alloc(PIECE_BYTES);
  try {
    kernels.u8.set(template, texts);
    for (let i = 0; i < form.none.length; i++) kernels.u8[none + i] = form.none.charCodeAt(i);
    const settings = {
      stats,
      powers,
      template: texts,
      templateBytes: template.length,
      none,
      noneBytes: form.none.length,
      reverse: reverse ? 1 : 0,
      edges,
    };
    for (const [name, value] of Object.entries(settings))
      kernels.writeU32(address + FlowRowsLayout[name as keyof typeof settings], value);
    for (let from = 0; from < ids.length; ) {
      const piece = ids.subarray(from, from + PIECE_FLOWS);
      kernels.u32.set(piece, numbers >>> 2);
      const n = kernels.call.flowRowsWrite(address, numbers, piece.length, out, PIECE_BYTES) >>> 0;
      const end = kernels.readU32(address + FlowRowsLayout.end);
      if (n > 0) yield textAt(kernels, out, end);
      from += n;
      // Either the text buffer is full, or this flow needs special treatment.
      const next = ids[from];
      if (n < piece.length && next !== undefined && end - out <= PIECE_BYTES / 2) {
        yield next;
        from++;
      }
    }
  } finally {
    for (const room of [powers, texts, numbers, out]) kernels.free(room);
    kernels.call.flowRowsFree(address);
  }
}

const textAt = ({ memory }: Kernels, from: number, to: number) =>
  Buffer.from(memory.buffer, from, to - from).toString("latin1");

/** Encodes texts with a length prefix, and fields. */
function templateOf({ parts }: RowForm): Uint8Array {
  const out: number[] = [];
  let text = "";
  const putText = () => {
    for (let from = 0; from < text.length; from += MAX_LITERAL) {
      const piece = [...text.slice(from, from + MAX_LITERAL)].map((c) => c.charCodeAt(0));
      out.push(piece.length, ...piece);
    }
    text = "";
  };
  for (const part of parts) {
    if (typeof part === "string") text += part;
    else {
      putText();
      out.push(FIELDS[part.field]);
    }
  }
  putText();
  return Uint8Array.from(out);
}

/** Powers of ten in the form that kernels/text/number.ts needs. */
export function storePowers(kernels: Kernels): number {
  const { POWER_FIRST, POWER_COUNT } = numberConstants;
  const powers = kernels.alloc(16 * POWER_COUNT);
  for (let i = 0; i < POWER_COUNT; i++) {
    const k = POWER_FIRST + i;
    const shift = BigInt(125 - Math.floor(-k * Math.log2(10)));
    const [above, below] = k < 0 ? [10n ** BigInt(-k), 1n] : [1n, 10n ** BigInt(k)];
    const bits = (shift >= 0n ? (above << shift) / below : above >> -shift) + 1n;
    kernels.writeU64(powers + 16 * i, bits >> 63n);
    kernels.writeU64(powers + 16 * i + 8, bits & ((1n << 63n) - 1n));
  }
  return powers;
}

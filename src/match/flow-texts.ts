/**
 * Flows as rows of text, made in the kernels (kernels/text/flow-rows.ts): what takes longest of an answer with a hundred thousand flows is not to find it but to
 * write it. Rows say the same as a FlowReport of src/compare would, to the last digit.
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

/** Text that is made at once, and flows that are asked for at once. */
const PIECE_BYTES = 1 << 17;
const PIECE_FLOWS = 1024;
/** Bytes of a text in a template. */
const MAX_LITERAL = 127;

/**
 * Text of rows in the order of `ids`; a flow whose row is out of the ordinary comes as its number, to be written otherwise. `stats`: the kernels' record of all flows. `edges`: EDGE_* of
 * kernels/flows/flow-sums.ts, which unmatched packets at the captures' ends count as lost or appeared.
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
      // A piece of text is full, or this flow is out of the ordinary.
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

/** Texts with their length before them, and fields. */
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

/** Powers of ten as kernels/text/number.ts wants them. */
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

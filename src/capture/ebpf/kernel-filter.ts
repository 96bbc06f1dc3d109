/**
 * Compiles a filter expression to steps that the eBPF program runs (datapath/filter.h); they match the same packets as src/capture/filter/filter.ts on batches.
 */
import { batchConstants } from "../../base/kernel-layout.ts";
import { FLAG } from "../batch.ts";
import type { FilterExpression } from "../filter/expression.ts";
import { PORT_PROTOCOLS } from "../filter/expression.ts";
import { ENDS, keptBits, PLACES, type Place, rangeOf, versionNeed } from "../filter/places.ts";

export const MAX_STEPS = 32;
const STEP_BYTES = 64;
const MAX_DEPTH = 32;
const QUESTION = { constant: 0, meta: 1, word: 2, port: 3, net4: 4, net6: 5, and: 6, or: 7, not: 8 } as const;
const COLUMN = { wireLength: 0, flags: 1, ipid: 2, metaHigh: 3 } as const;
const { META_PROTO, META_VLAN_ID, META_VLAN } = batchConstants;

interface Step {
  question: number;
  column?: number;
  shift?: number;
  mask?: number;
  low?: number;
  span?: number;
  outside?: number;
  ends?: number;
  words?: readonly bigint[];
}

export interface KernelFilter {
  count: number;
  /** MAX_STEPS times struct step of datapath/filter.h. */
  bytes: Uint8Array;
}

/** Returns the compiled filter, or null if the expression needs more steps or stack than the program has. */
export function kernelFilter(expression: FilterExpression): KernelFilter | null {
  const steps: Step[] = [];
  const depth = emit(expression, steps);
  if (steps.length > MAX_STEPS || depth > MAX_DEPTH) return null;
  const bytes = new Uint8Array(MAX_STEPS * STEP_BYTES);
  const view = new DataView(bytes.buffer);
  for (const [i, step] of steps.entries()) {
    const { question, column, shift, mask, low, span, outside, ends, words = [] } = step;
    for (const [j, value] of [question, column, shift, mask, low, span, outside, ends].entries())
      view.setUint32(i * STEP_BYTES + 4 * j, value ?? 0, true);
    for (const [j, word] of words.entries()) view.setBigUint64(i * STEP_BYTES + 32 + 8 * j, word, true);
  }
  return { count: steps.length, bytes };
}

/** Appends the steps that leave the result on the stack; returns the stack depth they need. */
function emit(expression: FilterExpression, steps: Step[]): number {
  switch (expression.kind) {
    case "and":
    case "or": {
      const question = QUESTION[expression.kind];
      let depth = 1;
      for (const [i, term] of expression.terms.entries()) {
        depth = Math.max(depth, emit(term, steps) + (i > 0 ? 1 : 0));
        if (i > 0) steps.push({ question });
      }
      if (expression.terms.length === 0) steps.push(constant(expression.kind === "and"));
      return depth;
    }
    case "not": {
      const depth = emit(expression.term, steps);
      steps.push({ question: QUESTION.not });
      return depth;
    }
    default:
      steps.push(primitive(expression));
      return 1;
  }
}

const constant = (value: boolean): Step => ({ question: QUESTION.constant, low: value ? 1 : 0 });
const meta = (mask: bigint, value: bigint): Step => ({ question: QUESTION.meta, words: [mask, value] });

function primitive(expression: Exclude<FilterExpression, { kind: "and" | "or" | "not" }>): Step {
  switch (expression.kind) {
    case "all":
      return constant(true);
    case "version":
      return meta(...versionNeed(expression.version));
    case "proto": {
      const [mask, value] = versionNeed(expression.version);
      return meta(mask | META_PROTO, value | (BigInt(expression.proto) << 32n));
    }
    case "vlan":
      return expression.id === null
        ? meta(META_VLAN, META_VLAN)
        : meta(META_VLAN | META_VLAN_ID, META_VLAN | (BigInt(expression.id) << 46n));
    case "net":
      return net(expression);
    case "port": {
      const { low, high, proto, end } = expression;
      const protos = proto === null ? PORT_PROTOCOLS : [proto, proto, proto];
      return {
        ...{ question: QUESTION.port, low, span: high - low, ends: ENDS[end] },
        words: protos.map(BigInt),
      };
    }
    case "fragment": {
      const shift = Math.log2(expression.later ? FLAG.laterFragment : FLAG.fragment);
      return word({ column: "flags", shift, bits: 1 }, 0, 1, [1, 1], false, versionNeed(expression.version));
    }
    case "direction":
      return word(
        { column: "flags", shift: Math.log2(FLAG[expression.way]), bits: 1 },
        ...([0, 1, [1, 1], false, [0n, 0n]] as const),
      );
    case "compare": {
      const range = rangeOf(expression.comparison, expression.value);
      if (!range) return constant(false);
      const [mask, value] = versionNeed(expression.version);
      const place = PLACES[expression.number];
      const need = [mask | (place.need?.[0] ?? 0n), value | (place.need?.[1] ?? 0n)] as const;
      return word(place, expression.shift, expression.mask, range, expression.comparison === "!=", need);
    }
  }
}

function net({ version, end, words, mask }: Extract<FilterExpression, { kind: "net" }>): Step {
  const ends = ENDS[end];
  const masks = mask.map((w) => w >>> 0);
  const nets = words.map((w, i) => (w & (masks[i] ?? 0)) >>> 0);
  if (version === 4) return { question: QUESTION.net4, low: nets[0] ?? 0, mask: masks[0] ?? 0, ends };
  const half = (of: number[], i: number) => (BigInt(of[i] ?? 0) << 32n) | BigInt(of[i + 1] ?? 0);
  return {
    question: QUESTION.net6,
    ends,
    words: [half(nets, 0), half(nets, 2), half(masks, 0), half(masks, 2)],
  };
}

function word(
  place: Place,
  shift: number,
  mask: number,
  [low, high]: readonly [number, number],
  outside: boolean,
  need: readonly [bigint, bigint],
): Step {
  return {
    question: QUESTION.word,
    column: COLUMN[place.column],
    shift: place.shift + shift,
    mask: keptBits(place, shift, mask),
    ...{ low, span: (high - low) >>> 0, outside: outside ? 1 : 0, words: need },
  };
}

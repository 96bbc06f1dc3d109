/**
 * Compiles filters: the most used part of pcap-filter syntax, evaluated for whole batches on their columns. docs/filters.md is the user's page, with every
 * difference from pcap-filter.
 *
 *   text -> parseFilter -> FilterExpression (a tree, pure) -> compileFilter -> steps over planes -> plane 0 of `select`
 *
 * A compiled filter is a list of steps, each one kernel call over the whole batch (kernels/decode/filter.ts): a primitive writes a plane, then planes are
 * joined. A term is evaluated in the plane after its left neighbour's, so chains need two planes and only nesting needs more. The batch has 8; deeper
 * expressions get additional planes, which live as long as the filter.
 *
 * A filter runs before keyFlows masks the key columns, and reads no packet bytes. A syntax error is a UsageError that names the character. A question that the
 * columns cannot answer (MPLS labels, MAC addresses, payload) is an error that names it; it is never answered wrongly.
 */
import { batchConstants, WordQuestionBytes, WordQuestionLayout } from "../../base/kernel-layout.ts";
import type { Kernels } from "../../base/kernels.ts";
import { FLAG, type PacketBatch } from "../batch.ts";
import type { RowFilter } from "../reader.ts";
import type { FilterExpression } from "./expression.ts";
import { PORT_PROTOCOLS } from "./expression.ts";
import { FilterParser } from "./parser.ts";
import { ENDS, keptBits, PLACES, type Place, rangeOf, versionNeed } from "./places.ts";

/** Parses an expression into a tree. */
export function parseFilter(text: string): FilterExpression {
  return new FilterParser(text).parse();
}

export interface CompiledFilter extends RowFilter {
  /** Frees the filter's kernel memory. */
  free(): void;
}

/** Compiles an expression, or its text, for batches of these kernels. */
export function compileFilter(expression: FilterExpression | string, kernels: Kernels): CompiledFilter {
  const tree = typeof expression === "string" ? parseFilter(expression) : expression;
  const steps: Step[] = [];
  const planes = emit(tree, 0, steps);
  let extra = 0;
  let extraRows = 0;
  let question = 0;
  const freePlanes = () => {
    if (extra !== 0) kernels.free(extra);
    extra = 0;
    extraRows = 0;
  };
  return {
    readsIdentification: asksIdentification(tree),
    free() {
      freePlanes();
      if (question !== 0) kernels.free(question);
      question = 0;
    },
    select(batch: PacketBatch): void {
      if (question === 0) question = kernels.alloc(WordQuestionBytes);
      if (planes > BATCH_PLANES && batch.capacity > extraRows) {
        freePlanes();
        extra = kernels.alloc((planes - BATCH_PLANES) * batch.capacity);
        extraRows = batch.capacity;
      }
      const first = batch.column("select");
      const plane = (index: number) =>
        index < BATCH_PLANES
          ? first + index * batch.capacity
          : extra + (index - BATCH_PLANES) * batch.capacity;
      for (const step of steps) step(batch, plane, question);
    },
  };
}

/** Returns whether the expression asks for the IP identification. If so, the filter needs rows that have it. */
export function asksIdentification(expression: FilterExpression): boolean {
  if (expression.kind === "and" || expression.kind === "or") return expression.terms.some(asksIdentification);
  if (expression.kind === "not") return asksIdentification(expression.term);
  return expression.kind === "compare" && expression.number === "ipid";
}

/** One step of a compiled filter. `question`: address of a scratch WordQuestion. */
type Step = (batch: PacketBatch, plane: (index: number) => number, question: number) => void;

/** Number of planes in the `select` column. */
const BATCH_PLANES = batchConstants.PLANES;
const { META_PROTO, META_VLAN_ID, META_VLAN } = batchConstants;

/** Appends the steps that leave the result in plane `at`; returns the number of planes needed so far. */
function emit(expression: FilterExpression, at: number, steps: Step[]): number {
  switch (expression.kind) {
    case "and":
    case "or": {
      const join = expression.kind === "and" ? "filterAnd" : "filterOr";
      let needed = at + 1;
      for (const [i, term] of expression.terms.entries()) {
        needed = Math.max(needed, emit(term, i === 0 ? at : at + 1, steps));
        if (i > 0) steps.push((b, plane) => b.kernels.call[join](b.address, plane(at), plane(at + 1)));
      }
      if (expression.terms.length === 0) steps.push(constant(at, expression.kind === "and"));
      return needed;
    }
    case "not": {
      const needed = emit(expression.term, at, steps);
      steps.push((b, plane) => b.kernels.call.filterNot(b.address, plane(at)));
      return needed;
    }
    default:
      steps.push(primitive(expression, at));
      return at + 1;
  }
}

function constant(at: number, value: boolean): Step {
  return (b, plane) => b.kernels.call.filterConstant(b.address, plane(at), value ? 1 : 0);
}

function meta(at: number, mask: bigint, value: bigint): Step {
  return (b, plane) => b.kernels.call.filterMeta(b.address, plane(at), mask, value);
}

type Primitive = Exclude<FilterExpression, { kind: "and" | "or" | "not" }>;

function primitive(expression: Primitive, at: number): Step {
  switch (expression.kind) {
    case "all":
      return constant(at, true);
    case "version":
      return meta(at, ...versionNeed(expression.version));
    case "proto": {
      const [mask, value] = versionNeed(expression.version);
      return meta(at, mask | META_PROTO, value | (BigInt(expression.proto) << 32n));
    }
    case "vlan":
      return expression.id === null
        ? meta(at, META_VLAN, META_VLAN)
        : meta(at, META_VLAN | META_VLAN_ID, META_VLAN | (BigInt(expression.id) << 46n));
    case "net": {
      const ends = ENDS[expression.end];
      const mask = expression.mask.map((w) => w >>> 0);
      const net = expression.words.map((w, i) => (w & (mask[i] ?? 0)) >>> 0);
      if (expression.version === 4) {
        const [net4 = 0, mask4 = 0] = [net[0], mask[0]];
        return (b, plane) => b.kernels.call.filterNet4(b.address, plane(at), net4, mask4, ends);
      }
      const half = (words: number[], i: number) => (BigInt(words[i] ?? 0) << 32n) | BigInt(words[i + 1] ?? 0);
      const halves = [half(net, 0), half(net, 2), half(mask, 0), half(mask, 2)] as const;
      return (b, plane) => b.kernels.call.filterNet6(b.address, plane(at), ...halves, ends);
    }
    case "port": {
      const { low, high, proto } = expression;
      const protos = proto === null ? PORT_PROTOCOLS : ([proto, proto, proto] as const);
      const ends = ENDS[expression.end];
      return (b, plane) => b.kernels.call.filterPort(b.address, plane(at), low, high, ends, ...protos);
    }
    case "fragment": {
      const shift = Math.log2(expression.later ? FLAG.laterFragment : FLAG.fragment);
      return word(
        at,
        { column: "flags", shift, bits: 1 },
        0,
        1,
        [1, 1],
        false,
        versionNeed(expression.version),
      );
    }
    case "direction": {
      const shift = Math.log2(FLAG[expression.way]);
      return word(at, { column: "flags", shift, bits: 1 }, 0, 1, [1, 1], false, [0n, 0n]);
    }
    case "compare": {
      const range = rangeOf(expression.comparison, expression.value);
      if (!range) return constant(at, false);
      const [versionMask, versionValue] = versionNeed(expression.version);
      const place = PLACES[expression.number];
      const need: [bigint, bigint] = [
        versionMask | (place.need?.[0] ?? 0n),
        versionValue | (place.need?.[1] ?? 0n),
      ];
      const outside = expression.comparison === "!=";
      return word(at, place, expression.shift, expression.mask, range, outside, need);
    }
  }
}

function word(
  at: number,
  place: Place,
  shift: number,
  mask: number,
  [low, high]: [number, number],
  outside: boolean,
  [needMask, needValue]: [bigint, bigint],
): Step {
  const kept = keptBits(place, shift, mask);
  return (b, plane, question) => {
    const [column, stride] =
      place.column === "metaHigh" ? [b.column("meta") + 4, 3] : [b.column(place.column), 2];
    const { kernels } = b;
    kernels.writeU64(question + WordQuestionLayout.needMask, needMask);
    kernels.writeU64(question + WordQuestionLayout.needValue, needValue);
    kernels.writeU32(question + WordQuestionLayout.shift, place.shift + shift);
    kernels.writeU32(question + WordQuestionLayout.mask, kept);
    kernels.writeU32(question + WordQuestionLayout.low, low);
    kernels.writeU32(question + WordQuestionLayout.high, high);
    kernels.writeU32(question + WordQuestionLayout.outside, outside ? 1 : 0);
    kernels.call.filterWord(b.address, plane(at), column, stride, question);
  };
}

/**
 * Writes JSON of any length in pieces. Joined, they equal the output of `JSON.stringify`, which is limited to V8's longest string (512 MiB). Lists and other
 * iterables are written element by element, so that a list that makes its elements on demand is never in memory as a whole.
 *
 * Each element of such a list becomes one string: lists are long here, not their elements.
 */
import type { FlowRows } from "../../compare/report.ts";
import { FLOW_JSON } from "./flow-json.ts";

/** Depth to which objects are searched for lists. */
const DEEPEST = 4;

export function* jsonPieces(value: unknown, depth = 0): Generator<string> {
  if (typeof value !== "object" || value === null || depth > DEEPEST || hasOwnForm(value)) {
    yield JSON.stringify(value) ?? "null";
    return;
  }
  const texts = isWalkable(value) ? textsOf(value) : null;
  if (texts) {
    yield* listed(texts);
    return;
  }
  if (isWalkable(value)) {
    let before = "[";
    for (const element of value) {
      yield before + (JSON.stringify(element) ?? "null");
      before = ",";
    }
    yield before === "[" ? "[]" : "]";
    return;
  }
  let before = "{";
  for (const [name, part] of Object.entries(value)) {
    // JSON leaves these out of an object.
    if (part === undefined || typeof part === "function" || typeof part === "symbol") continue;
    yield `${before}${JSON.stringify(name)}:`;
    yield* jsonPieces(part, depth + 1);
    before = ",";
  }
  yield before === "{" ? "{}" : "}";
}

/** Returns the flows as text without an object for each, if the list can do that. */
function textsOf(value: Iterable<unknown>): Iterable<string> | null {
  const { texts } = value as Partial<FlowRows>;
  return texts?.call(value as FlowRows, FLOW_JSON, (flow) => `${JSON.stringify(flow)},`) ?? null;
}

/** Writes a list from elements that each end with a comma, without the last comma. */
function* listed(texts: Iterable<string>): Generator<string> {
  let held: string | null = null;
  yield "[";
  for (const text of texts) {
    if (held !== null) yield held;
    held = text;
  }
  if (held !== null) yield held.slice(0, -1);
  yield "]";
}

function hasOwnForm(value: object): boolean {
  return typeof (value as { toJSON?: unknown }).toJSON === "function" || ArrayBuffer.isView(value);
}

function isWalkable(value: object): value is Iterable<unknown> {
  return typeof (value as { [Symbol.iterator]?: unknown })[Symbol.iterator] === "function";
}

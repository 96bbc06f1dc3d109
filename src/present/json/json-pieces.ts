/**
 * JSON of any length in pieces: joined, they are what `JSON.stringify` would give, which itself ends at V8's longest string (512 MiB). Lists, and
 * whatever else can be walked, are walked element by element, so that a list that makes its elements on the way is never whole in memory.
 *
 * One element of a list is one string: it is the lists that are long here, not what they hold. Within an element nothing is walked.
 */
import type { FlowRows } from "../../compare/report.ts";
import { FLOW_JSON } from "./flow-json.ts";

/** Objects are opened down to here, to find the lists in them. */
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
    // What JSON leaves out of an object.
    if (part === undefined || typeof part === "function" || typeof part === "symbol") continue;
    yield `${before}${JSON.stringify(name)}:`;
    yield* jsonPieces(part, depth + 1);
    before = ",";
  }
  yield before === "{" ? "{}" : "}";
}

/** Flows that can be written without an object for each. */
function textsOf(value: Iterable<unknown>): Iterable<string> | null {
  const { texts } = value as Partial<FlowRows>;
  return texts?.call(value as FlowRows, FLOW_JSON, (flow) => `${JSON.stringify(flow)},`) ?? null;
}

/** Elements with a comma behind each as a list: the last comma is taken off. */
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

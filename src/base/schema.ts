/**
 * Checks values from outside (scenario files, maps, HTTP bodies) against a schema (TypeBox: JSON Schema with static types,
 * docs/decisions/0021-one-schema-validator.md). The first fault is reported in one line: the source of the value, the path of the field, what is wrong with it,
 * and a suggestion for a misspelt name.
 */
import type { Static, TSchema } from "typebox";
import { Check, Errors } from "typebox/schema";
import { Settings } from "typebox/system";
import { closest } from "./closest.ts";
import { type UsageCode, UsageError } from "./errors.ts";

// Each alternative of a union is tried and adds its own faults; the default limit of 8 would hide those of the alternative that is meant.
Settings.Set({ maxErrors: 1000 });

type Fault = ReturnType<typeof Errors>[1][number];

export interface ValueOrigin {
  /** The file's name, or what the value is. */
  readonly source: string;
  readonly code?: UsageCode;
  /** Where the fields are described. A misspelt field has a hint of its own. */
  readonly hint?: string;
}

/** Returns the value if it matches the schema; otherwise throws a UsageError. */
export function checkedValue<S extends TSchema>(schema: S, value: unknown, origin: ValueOrigin): Static<S> {
  const fault = faultOf(schema, value);
  if (!fault) return value as Static<S>;
  const { source, code = "bad-parameter", hint } = origin;
  const at = fault.path === "" ? "" : `${fault.path}: `;
  throw new UsageError(code, `${source}: ${at}${fault.what}`, fault.hint ?? hint);
}

export interface ValueFault {
  /** Names and indices down to the field. For a missing field: down to its parent. */
  readonly keys: readonly string[];
  /** The same path for people: path[2].model.kind */
  readonly path: string;
  readonly what: string;
  readonly hint?: string;
}

/** Returns the first fault of a value, or null if it matches the schema. */
export function faultOf(schema: TSchema, value: unknown): ValueFault | null {
  if (Check(schema, value)) return null;
  const fault = worst(meantFaults(Errors(schema, value)[1], schema));
  const keys = pointerParts(fault.instancePath);
  const [extra] = (fault.params as { additionalProperties?: string[] }).additionalProperties ?? [];
  return { ...describeFault(fault, schema, value), keys: extra === undefined ? keys : [...keys, extra] };
}

/**
 * Keeps, of the faults of a union, only those of the alternative that is meant: the one whose `kind` (or other constant field) equals the value's, or that has
 * the value's type. If no alternative is meant, one fault lists the allowed ones.
 */
function meantFaults(faults: readonly Fault[], schema: TSchema): Fault[] {
  const unions = [...new Set(faults.filter((f) => f.keyword === "anyOf").map((f) => f.schemaPath))];
  let left = [...faults];
  // From the outside in: dropping an alternative also drops the unions inside it.
  for (const union of unions.sort((a, b) => a.length - b.length)) {
    const own = left.find((f) => f.keyword === "anyOf" && f.schemaPath === union);
    if (!own) continue;
    const inside = left.filter((f) => f.schemaPath.startsWith(`${union}/anyOf/`) && within(f, own));
    const alternatives = alternativesOf(valueAt(schema, union.slice(1)) as Alternative);
    const ofBranches = inside.filter((f) => alternatives.has(branchOf(f, union)));
    left = left.filter((f) => f !== own && !inside.includes(f));
    left.push(...(meantBranch(ofBranches, union) ?? [noneOf(ofBranches, union, own, alternatives)]));
  }
  return left;
}

interface Alternative {
  readonly type?: string;
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, { readonly const?: unknown }>>;
  readonly anyOf?: readonly Alternative[];
}

/** Returns alternatives by their path below the union. The alternatives of a nested union count as alternatives too. */
function alternativesOf({ anyOf = [] }: Alternative): Map<string, Alternative> {
  return new Map(
    anyOf.flatMap((branch, i): [string, Alternative][] =>
      branch.anyOf
        ? [...alternativesOf(branch)].map(([path, inner]) => [`${i}/anyOf/${path}`, inner])
        : [[String(i), branch]],
    ),
  );
}

function within(fault: Fault, union: Fault): boolean {
  return fault.instancePath === union.instancePath || fault.instancePath.startsWith(`${union.instancePath}/`);
}

function branchOf(fault: Fault, union: string): string {
  const below = fault.schemaPath.slice(`${union}/anyOf/`.length);
  return /^\d+(?:\/anyOf\/\d+)*/.exec(below)?.[0] ?? "";
}

/** Returns the faults of the one alternative that no fault rules out; null if all are ruled out. */
function meantBranch(inside: readonly Fault[], union: string): Fault[] | null {
  const others = new Set(inside.filter((f) => isTag(f, union)).map((f) => branchOf(f, union)));
  const meant = inside.find((f) => !others.has(branchOf(f, union)));
  return meant ? inside.filter((f) => branchOf(f, union) === branchOf(meant, union)) : null;
}

/** Returns whether the fault shows that the value belongs to another alternative: another constant, no `kind` at all, or another type. */
function isTag(fault: Fault, union: string): boolean {
  const prefix = `${union}/anyOf/${branchOf(fault, union)}`;
  const [, field, , deeper] = fault.schemaPath.slice(prefix.length).split("/");
  const params = fault.params as { requiredProperties?: string[] };
  if (field === undefined)
    return ["type", "const"].includes(fault.keyword) || params.requiredProperties?.includes("kind") === true;
  return fault.keyword === "const" && field === "properties" && deeper === undefined;
}

/** Returns the fault for a value that matches no alternative: it lists the allowed constants of the distinguishing field, or the allowed types. */
function noneOf(
  inside: readonly Fault[],
  union: string,
  own: Fault,
  alternatives: ReadonlyMap<string, Alternative>,
): Fault {
  const tagged = inside.filter((f) => isTag(f, union) && f.keyword !== "type");
  // If some alternatives have the right kind, they differ from the value in another field.
  const atKind = (f: Fault) => f.keyword === "required" || f.instancePath === `${own.instancePath}/kind`;
  const wrong = new Set(tagged.filter(atKind).map((f) => branchOf(f, union)));
  const ofType = new Set(tagged.map((f) => branchOf(f, union)));
  const rest = [...ofType].filter((branch) => !wrong.has(branch));
  const field =
    rest.length === 0
      ? "kind"
      : tagged
          .find((f) => rest.includes(branchOf(f, union)))
          ?.instancePath.split("/")
          .at(-1);
  const asked = rest.length > 0 ? rest : [...ofType];
  const constants = asked.map((branch) => alternatives.get(branch)?.properties?.[field ?? ""]?.const);
  if (constants.length > 0 && constants.every((c) => c !== undefined))
    return {
      ...own,
      keyword: "enum",
      instancePath: `${own.instancePath}/${field}`,
      params: { allowedValues: [...new Set(constants)] },
    } as Fault;
  const plain = [...alternatives.values()].map((branch) => branch.const);
  if (plain.every((c) => c !== undefined))
    return { ...own, keyword: "enum", params: { allowedValues: plain } } as Fault;
  const types = [...alternatives.values()].map((branch) => branch.type ?? "object");
  return { ...own, keyword: "type", params: { type: [...new Set(types)] } } as Fault;
}

const RANK = ["additionalProperties", "required"];

/**
 * Returns the most important fault: a misspelt field first, because the missing field may be the same one; otherwise the outermost, otherwise the first. With a
 * thousand misspelt fields maxErrors leaves only their faults.
 */
function worst(faults: readonly Fault[]): Fault {
  const rank = (fault: Fault) => (RANK.includes(fault.keyword) ? RANK.indexOf(fault.keyword) : RANK.length);
  // 'boolean' repeats the fault of additionalProperties for the field itself.
  const others = faults.filter((f) => f.keyword !== "boolean");
  const [first = faults[0]] = others.sort((a, b) => rank(a) - rank(b));
  if (!first) throw new Error("a value that is not what its schema says has no fault");
  return first;
}

interface Description {
  readonly path: string;
  readonly what: string;
  readonly hint?: string;
}

function describeFault(fault: Fault, schema: TSchema, value: unknown): Description {
  const path = fieldPath(fault.instancePath);
  const inside = (name: string) => (path === "" ? name : `${path}.${name}`);
  const params = fault.params as Record<string, unknown>;
  const found = valueAt(value, fault.instancePath);
  const invalid = (expected: string) => ({
    path,
    what: `invalid value ${shown(found)} (expected ${expected})`,
  });
  switch (fault.keyword) {
    case "additionalProperties": {
      const [name = ""] = params["additionalProperties"] as string[];
      return {
        path: inside(name),
        what: "no such field",
        hint: meantField(name, fieldsAt(schema, fault.schemaPath)),
      };
    }
    case "boolean":
      return { path, what: "no such field" };
    case "required":
      return { path: inside((params["requiredProperties"] as string[])[0] ?? ""), what: "missing" };
    case "type":
      return invalid(
        [params["type"]]
          .flat()
          .map((type) => TYPES[String(type)] ?? String(type))
          .join(" or "),
      );
    case "enum": {
      const allowed = (params["allowedValues"] as unknown[]).map(String);
      const near = typeof found === "string" ? closest(found, allowed) : undefined;
      const said =
        found === undefined
          ? { path, what: `missing (expected ${allowed.join(", ")})` }
          : invalid(allowed.join(", "));
      return near === undefined ? said : { ...said, hint: `did you mean ${near}?` };
    }
    case "const":
      return invalid(String(params["allowedValue"]));
    case "minimum":
    case "exclusiveMinimum":
    case "maximum":
    case "exclusiveMaximum":
      return invalid(`a number ${LIMITS[fault.keyword]} ${Number(params["limit"]).toLocaleString("en-US")}`);
    case "maxItems":
      return {
        path,
        what: `${(found as unknown[]).length.toLocaleString("en-US")} entries (at most ${Number(params["limit"]).toLocaleString("en-US")} are allowed)`,
      };
    case "minItems":
      return {
        path,
        what: `${(found as unknown[]).length} entries (at least ${String(params["limit"])} needed)`,
      };
    case "minLength":
      return invalid(params["limit"] === 1 ? "a name" : `at least ${String(params["limit"])} characters`);
    default:
      return { path, what: fault.message };
  }
}

const TYPES: Record<string, string> = {
  number: "a number",
  integer: "a whole number",
  string: "text",
  boolean: "true or false",
  object: "an object",
  array: "a list",
};

const LIMITS = {
  minimum: "of at least",
  exclusiveMinimum: "above",
  maximum: "of at most",
  exclusiveMaximum: "below",
} as const;

function shown(value: unknown): string {
  // JSON turns Infinity (1e400 in a file) into null.
  if (typeof value === "number") return String(value);
  const text = jsonBeginning(value, SHOWN);
  const cut = text.length > SHOWN ? `${text.slice(0, SHOWN - 3)}…` : text;
  return typeof value === "string" ? `'${cut.slice(1, text.length > SHOWN ? undefined : -1)}'` : cut;
}

/** Number of characters of a wrong value shown in a message. */
const SHOWN = 60;

/** Returns the JSON of a value, cut somewhere after `length` characters: a body may hold millions of entries, or lists nested deeper than the stack. */
function jsonBeginning(value: unknown, length: number): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? String(value);
  const list = Array.isArray(value);
  let text = list ? "[" : "{";
  for (const name in value) {
    if (text.length > length) return text;
    if (text.length > 1) text += ",";
    if (!list) text += `${JSON.stringify(name)}:`;
    text += jsonBeginning((value as Record<string, unknown>)[name], length - text.length);
  }
  return `${text}${list ? "]" : "}"}`;
}

const pointerParts = (pointer: string) =>
  pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));

/** Formats a JSON pointer as path[2].model.kind. */
function fieldPath(pointer: string): string {
  return pointerParts(pointer).reduce(
    (path, part) => (/^\d+$/.test(part) ? `${path}[${part}]` : path === "" ? part : `${path}.${part}`),
    "",
  );
}

function valueAt(value: unknown, pointer: string): unknown {
  let at = value;
  for (const part of pointerParts(pointer)) at = (at as Record<string, unknown> | undefined)?.[part];
  return at;
}

function fieldsAt(schema: TSchema, pointer: string): string[] {
  const at = valueAt(schema, pointer.replace(/^#/, "")) as { properties?: object } | undefined;
  return Object.keys(at?.properties ?? {});
}

function meantField(name: string, fields: readonly string[]): string {
  const near = closest(name, fields);
  return near === undefined
    ? `fields: ${fields.join(", ")}`
    : `did you mean ${near}? Fields: ${fields.join(", ")}`;
}

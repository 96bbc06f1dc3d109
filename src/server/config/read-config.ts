/** Parses `hoptime.yaml` into settings. Errors are reported as FILE:LINE:COLUMN: what. */
import { readFileSync } from "node:fs";
import { dirname, isAbsolute, resolve } from "node:path";
import { type Document, isMap, isNode, isScalar, LineCounter, parseDocument } from "yaml";
import { UsageError } from "../../base/errors.ts";
import { faultOf } from "../../base/schema.ts";
import { type Condition, parseCondition, parseLimit } from "../alerts/condition.ts";
import { checkTapPlan } from "../tap-plan.ts";
import { READINGS } from "./reading.ts";
import { type Reads, SETTINGS, type Settings } from "./settings.ts";

const NO_SUCH = "no such field";
const MAX_BYTES = 4 << 20;
const HINT = "docs/config.md describes the settings";

type Keys = readonly (string | number)[];
type Fail = (keys: Keys, what: string, hint?: string) => never;

/** Throws UsageError with the position of the first error. Relative file names are resolved against the folder of the configuration. */
export function readConfig(file: string): Settings {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (cause) {
    throw new UsageError("no-such-file", `${file}: cannot be read`, undefined, {
      parameter: "config",
      value: file,
      cause,
    });
  }
  return parseConfig(text, file);
}

export function parseConfig(text: string, file: string): Settings {
  if (text.length > MAX_BYTES)
    throw new UsageError("bad-parameter", `${file}: larger than 4 MiB: not a settings file`);
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true });
  const failAt = (offset: number, what: string, hint?: string): never => {
    const { line, col } = lines.linePos(offset);
    throw new UsageError("bad-parameter", `${file}:${line}:${col}: ${what}`, hint);
  };
  const [broken] = [...document.errors, ...document.warnings];
  if (broken) failAt(broken.pos[0], broken.code === "MULTIPLE_DOCS" ? SEVERAL : firstLine(broken.message));
  const value = plainValue(document, failAt);
  const fail: Fail = (keys, what, hint) =>
    failAt(offsetOf(document, keys, what.endsWith(NO_SUCH)), what, hint);
  const fault = faultOf(SETTINGS, value);
  if (fault) {
    const at = fault.path === "" ? "" : `${fault.path}: `;
    const form = FORMS[nodeAt(fault.keys)?.reads ?? "name"];
    const what = form ? fault.what.replace("(expected text)", `(expected ${form})`) : fault.what;
    fail(fault.keys, `${at}${what}`, fault.hint ?? HINT);
  }
  const settings = value as Settings;
  readTexts(SETTINGS as Node, settings, [], fail, dirname(resolve(file)));
  checkTogether(settings, fail);
  return settings;
}

const firstLine = (text: string) => text.split("\n")[0] ?? text;

const SEVERAL = "a second document begins (---): write the settings as one";

/** Hints for values that look like numbers because their unit or host is missing. */
const FORMS: Partial<Record<Reads, string>> = {
  duration: "a time with its unit, e.g. 30s",
  size: "a size with its unit, e.g. 10GB",
  listen: "HOST:PORT, e.g. 127.0.0.1:8787",
};

function nodeAt(keys: readonly string[]): Node | undefined {
  return keys.reduce<Node | undefined>(
    (node, key) => node?.items ?? node?.properties?.[key],
    SETTINGS as Node,
  );
}

function plainValue(document: Document, failAt: (offset: number, what: string) => never): unknown {
  if (document.contents === null) return {};
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch {
    return failAt(0, "aliases (*name) expand to more than settings can hold: write them out");
  }
}

interface Node {
  reads?: Reads;
  properties?: Record<string, Node>;
  items?: Node;
}

/** Validates every text value by its reading; file names become absolute. */
function readTexts(schema: Node, value: unknown, keys: Keys, fail: Fail, folder: string): void {
  if (typeof value !== "object" || value === null) return;
  const fields = value as Record<string, unknown>;
  for (const [key, inner] of Object.entries(fields)) {
    const node = schema.items ?? schema.properties?.[key];
    if (!node) continue;
    const at = [...keys, Array.isArray(value) ? Number(key) : key];
    if (typeof inner === "string" && node.reads) {
      const { reads } = node;
      if (reads === "file" && !isAbsolute(inner)) fields[key] = resolve(folder, inner);
      guarded(at, fail, () => READINGS[reads](String(fields[key]), key));
    } else readTexts(node, inner, at, fail, folder);
  }
}

/** Checks that settings fit together. */
function checkTogether(settings: Settings, fail: Fail): void {
  if (settings.plan !== undefined) {
    try {
      checkTapPlan(settings.plan);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      fail(
        ["plan", ...(error.parameter === undefined ? [] : [error.parameter])],
        `plan: ${error.message}`,
        error.hint,
      );
    }
  }
  const names = new Set<string>();
  for (const [i, path] of (settings.paths ?? []).entries()) {
    const { points, from, to } = path;
    const at = `paths[${i}]`;
    if ((points === undefined) === (from === undefined && to === undefined))
      fail(["paths", i], `${at}: a path has either points, or from and to`);
    if (points && new Set(points).size !== points.length)
      fail(["paths", i, "points"], `${at}: a point is named twice`);
    if (!points && (from === undefined || to === undefined))
      fail(["paths", i], `${at}: from and to go together`);
    if (!points && !settings.topology)
      fail(["paths", i], `${at}: from and to are routers of a map: set topology`);
    // A path without a name gets its name from its points.
    const own = path.name ?? (points ? points.join(",") : `${from}-${to}`);
    unique(names, own, ["paths", i, "name"], fail);
  }
  const receivers = new Set<string>();
  for (const [i, { name }] of (settings.notify ?? []).entries())
    unique(receivers, name, ["notify", i, "name"], fail);
  const alerts = new Set<string>();
  for (const [i, alert] of (settings.alerts ?? []).entries()) {
    unique(alerts, alert.name, ["alerts", i, "name"], fail);
    for (const [k, to] of (alert.to ?? []).entries())
      if (!receivers.has(to)) fail(["alerts", i, "to", k], `alerts[${i}].to: '${to}' is not among notify`);
    checkClear(alert, ["alerts", i, "clear"], fail);
  }
}

/** Runs `work` and turns a UsageError into one with the setting's position. */
function guarded<T>(keys: Keys, fail: Fail, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return fail(keys, `${pathOf(keys)}: ${error.problem}`, error.hint);
  }
}

function unique(seen: Set<string>, name: string | undefined, keys: Keys, fail: Fail): void {
  if (name === undefined) return;
  if (seen.has(name)) fail(keys, `${pathOf(keys)}: '${name}' is used twice`);
  seen.add(name);
}

function checkClear({ when, clear }: { when: string; clear?: string }, keys: Keys, fail: Fail): void {
  if (clear === undefined) return;
  const condition = parseCondition(when);
  if (condition.kind !== "threshold") fail(keys, `${pathOf(keys)}: goes with a threshold`);
  else checkLimit(condition, clear, keys, fail);
}

function checkLimit(
  condition: Extract<Condition, { kind: "threshold" }>,
  clear: string,
  keys: Keys,
  fail: Fail,
): void {
  const limit = guarded(keys, fail, () => parseLimit(condition.quantity, clear, "clear"));
  if (condition.above ? limit > condition.limit : limit < condition.limit)
    fail(keys, `${pathOf(keys)}: '${clear}' is beyond the alert's own limit`);
}

/** Formats a key path, e.g. paths[2].name. */
function pathOf(keys: Keys): string {
  return keys.reduce<string>(
    (path, key) => (typeof key === "number" ? `${path}[${key}]` : path === "" ? key : `${path}.${key}`),
    "",
  );
}

/** Returns the offset of a setting, or of the innermost existing node around it. For an unknown name, the offset of the name itself. */
function offsetOf(document: Document, keys: Keys, ofName: boolean): number {
  for (let n = keys.length; n > 0; n--) {
    const parent: unknown = n === 1 ? document.contents : document.getIn(keys.slice(0, n - 1), true);
    const key = keys[n - 1];
    if (isMap(parent)) {
      const pair = parent.items.find((p) => isScalar(p.key) && String(p.key.value) === String(key));
      const own = n === keys.length && !ofName && isScalar(pair?.value);
      const node = own ? pair?.value : pair?.key;
      if (isNode(node) && node.range) return node.range[0];
    }
    const node: unknown = document.getIn(keys.slice(0, n), true);
    if (isNode(node) && node.range) return node.range[0];
  }
  return document.contents?.range?.[0] ?? 0;
}
